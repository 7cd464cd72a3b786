"""The keyring of the operating system, in the process for signing in: it may block on a prompt."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import Any, Final

from mcpd.signin.protocol import KeyringOrder, Value

_LEAST_PRIORITY: Final = 1
"""Of a back end that is recommended; files in plain text have less."""

_CHOICE: Final = "PYTHON_KEYRING_BACKEND"
"""The variable of the ``keyring`` package by which a back end is chosen."""


def serve(order: KeyringOrder) -> Value:
    """Do what was asked; a keyring that cannot be used has nothing and keeps nothing."""
    import keyring
    from keyring.errors import KeyringError

    backend = keyring.get_keyring()
    try:
        match order.action:
            case "probe":
                return Value(is_done=_is_usable(backend, order.service))
            case "get":
                return Value(backend.get_password(order.service, order.name))
            case "set":
                backend.set_password(order.service, order.name, order.value)
                is_there = backend.get_password(order.service, order.name) == order.value
                return Value(is_done=is_there)
            case "delete":
                backend.delete_password(order.service, order.name)
                return Value(is_done=True)
    except (KeyringError, OSError, RuntimeError):
        return Value()


def _is_usable(backend: Any, service: str) -> bool:
    """Tell whether what is written can be read back: some keep nothing, and say so too late."""
    if backend.priority < (0.1 if os.environ.get(_CHOICE) else _LEAST_PRIORITY):
        return False
    name, value = "test", secrets.token_urlsafe(8)
    backend.set_password(service, name, value)
    is_there = backend.get_password(service, name) == value
    with contextlib.suppress(Exception):
        backend.delete_password(service, name)
    return bool(is_there)
