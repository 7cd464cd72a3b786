"""``mcpctl connect``: from the command line to the exit status."""

from __future__ import annotations

import os
import signal
import socket

from mcpd import exits, paths
from mcpd.bridge import attachment, streams
from mcpd.bridge.arguments import USAGE, Arguments, UsageError, parse
from mcpd.bridge.linger import Linger
from mcpd.bridge.link import Link
from mcpd.bridge.pump import Pump
from mcpd.daemon_start.reach import reach
from mcpd.errors import DaemonUnavailable

SIGNALLED = 128
"""Plus the number of the signal: the exit status of a process that a signal ended."""


def main(argv: list[str]) -> int:
    """Run the bridge with the words after ``connect``, and return the exit status."""
    streams.occupy_standard_descriptors()
    _die_of_signals()
    try:
        asked = parse(argv)
    except UsageError as error:
        streams.say(f"connect: {error}\n  mcpctl connect --help")
        return exits.USAGE
    if asked.wants_help:
        os.write(1, USAGE.encode())
        return exits.DONE
    try:
        return _bridge(asked)
    except DaemonUnavailable as error:
        return _explain(error.message, error.hint, exits.NO_DAEMON, asked)
    except attachment.Refused as error:
        return _explain(str(error), error.hint, error.status, asked)


def _bridge(asked: Arguments) -> int:
    path = paths.socket_path(asked.socket)
    connection, attached = reach(
        path,
        lambda found: _attach(found, asked),
        may_start=asked.may_start,
        config=asked.config,
    )
    connection.setblocking(False)
    link = Link(path, asked, connection, attached)
    try:
        pump = Pump(
            link,
            streams.Source(0),
            streams.to_client(1),
            Linger(asked.linger, lambda server: attachment.is_starting(path, server)),
        )
        return pump.run()
    finally:
        link.close()


def _attach(
    connection: socket.socket, asked: Arguments
) -> tuple[socket.socket, attachment.Attaching]:
    """Say who we are; a daemon that drains counts as one that has hung up."""
    try:
        return connection, attachment.attach(connection, asked, streams.say)
    except attachment.Refused as refusal:
        connection.close()
        if refusal.kind != "draining" or not asked.may_start:
            raise
        raise DaemonUnavailable(str(refusal), hint=refusal.hint, why="gone") from None
    except BaseException:
        connection.close()
        raise


def _explain(message: str, hint: str | None, status: int, asked: Arguments) -> int:
    if hint and hint not in message:
        from mcpd.daemon_start.hints import with_socket

        message += f"\n  {with_socket(hint, asked.socket)}"
    streams.say(message)
    return status


def _die_of_signals() -> None:
    """End with 130 or 143, at once: there is nothing of ours to put in order.

    A signal that was ignored when we were started (``nohup``, a background job) stays ignored.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda received, _frame: os._exit(SIGNALLED + received))
