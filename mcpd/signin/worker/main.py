"""The process for signing in: what needs the official SDK or the keyring, and may take minutes.

It is started for one order, and ends with it, or with the daemon. Secrets come and go through its
pipes alone; it leaves no core file, and other processes cannot look into it.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import resource
import signal
import sys
from typing import Final

import msgspec

from mcpd.schemas.protocol import ANSWER
from mcpd.signin.protocol import (
    ADDRESS,
    DONE,
    FAILED,
    REFUSED,
    Address,
    Discover,
    KeyringOrder,
    Order,
    Pasted,
    Refusal,
    SignIn,
)

_MOST_BYTES: Final = 1024 * 1024

_KEYRING_MOST_S: Final = 20
"""Seconds for an order to the keyring; the kernel ends a process that takes longer."""

_PR_SET_DUMPABLE: Final = 4


def answer(kind: bytes, body: msgspec.Struct) -> None:
    """Write one frame to the daemon."""
    data = msgspec.json.encode(body)
    frame = memoryview(ANSWER.pack(kind, len(data)) + data)
    while frame:
        frame = frame[os.write(1, frame) :]


def confine() -> None:
    """Leave no core file, keep other processes out, and say nothing that is not an answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the daemon handles it
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    logging.disable(logging.CRITICAL)  # the SDK logs what servers answer


def _order() -> Order:
    """Read the order; what is pasted comes later, so nothing follows it yet."""
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(0, _MOST_BYTES)
        if not piece:
            raise EOFError
        line += piece
    return msgspec.json.decode(line, type=Order)


async def _sign_in(order: SignIn) -> msgspec.Struct:
    """Let a person sign in, and take the address that is pasted."""
    import asyncio  # late: an order to the keyring starts without it

    from mcpd import tasks
    from mcpd.signin.worker import flow
    from mcpd.signin.worker.listener import Listener, NotOurs

    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_MOST_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    opened: asyncio.Future[Listener] = loop.create_future()

    async def paste() -> None:
        listener = await opened
        while line := await reader.readline():
            try:
                listener.take(msgspec.json.decode(line, type=Pasted).address)
            except NotOurs as reason:
                answer(REFUSED, Refusal(str(reason)))
            except msgspec.MsgspecError:
                answer(REFUSED, Refusal("this is no address"))
        os._exit(0)  # the daemon is gone, and nobody takes what comes

    pasting = tasks.spawn(paste(), name="signin.paste")
    try:
        return await flow.sign_in(
            order, lambda url: answer(ADDRESS, Address(url)), opened.set_result
        )
    finally:
        pasting.cancel()


def _serve(order: SignIn | Discover) -> msgspec.Struct:
    import asyncio

    from mcpd.signin.worker import flow
    from mcpd.signin.worker.sender import GuardedLoop

    with asyncio.Runner(loop_factory=GuardedLoop) as runner:
        return runner.run(flow.discover(order) if isinstance(order, Discover) else _sign_in(order))


def main() -> None:
    """Carry out one order from stdin, and write the result to stdout."""
    confine()
    order = _order()
    if isinstance(order, KeyringOrder):
        from mcpd.signin.worker import keyrings

        signal.alarm(_KEYRING_MOST_S)
        answer(DONE, keyrings.serve(order))
        return
    from mcpd.signin.worker.sender import SignInFailed

    try:
        found = _serve(order)
    except SignInFailed as reason:
        answer(FAILED, Refusal(str(reason)))
    except Exception as error:  # the last handler before the exit status
        answer(FAILED, Refusal(f"a bug of mcpd or of the SDK: {type(error).__name__}"))
    else:
        answer(DONE, found)
