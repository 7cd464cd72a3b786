"""The keyring for a command: each use of it in a process that is killed when it does not answer."""

from __future__ import annotations

import os
import subprocess

import msgspec

from mcpd.schemas.protocol import ANSWER
from mcpd.secrets.places import KEYRING_S
from mcpd.signin.protocol import ARGV, DONE, ENVIRONMENT, KeyringOrder, Value


def use(order: KeyringOrder, timeout: float = KEYRING_S) -> Value:
    """Have an order carried out, within ``timeout`` seconds. Blocks; never raises."""
    try:
        ended = subprocess.run(
            ARGV,
            input=msgspec.json.encode(order) + b"\n",
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
            cwd="/",
            env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
        )
    except subprocess.TimeoutExpired:
        return Value(problem="locked")
    except OSError:
        return Value(problem="unavailable")
    answer = ended.stdout
    if len(answer) <= ANSWER.size or not answer.startswith(DONE):
        return Value(problem="unavailable")
    try:
        return msgspec.json.decode(answer[ANSWER.size :], type=Value)
    except msgspec.MsgspecError:  # its message could quote a secret
        return Value(problem="unavailable")
