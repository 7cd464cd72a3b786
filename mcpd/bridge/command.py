"""``mcpctl connect``, from the command line to the exit status."""

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
from mcpd.daemon_start.connection import can_start, connect
from mcpd.errors import DaemonUnavailable

SIGNALLED = 128
"""Exit status of a process that a signal ended, plus the number of the signal."""


def main(argv: list[str]) -> int:
    """Run the bridge with the words after ``connect``, and return the exit status."""
    streams.open_standard_descriptors()
    _exit_on_signals()
    try:
        arguments = parse(argv)
    except UsageError as error:
        streams.report(f"connect: {error}\n  mcpctl connect --help")
        return exits.USAGE
    if arguments.wants_help:
        os.write(1, USAGE.encode())
        return exits.DONE
    try:
        return _run(arguments)
    except DaemonUnavailable as error:
        return _fail(error.message, error.hint, exits.NO_DAEMON, arguments)
    except attachment.Refused as error:
        return _fail(str(error), error.hint, error.status, arguments)


def _run(arguments: Arguments) -> int:
    path = paths.socket_path(arguments.socket)
    variables: dict[str, str] = {}
    try:
        connection, attached = _attach(connect(path), arguments)
    except DaemonUnavailable as error:
        path, variables, (connection, attached) = _search(arguments, error)
    connection.setblocking(False)
    link = Link(path, arguments, connection, attached, variables)
    try:
        pump = Pump(
            link,
            streams.Source(0),
            streams.to_client(1),
            Linger(arguments.linger, lambda server: attachment.is_starting(path, server)),
        )
        return pump.run()
    finally:
        link.close()


def _search(
    arguments: Arguments, failure: DaemonUnavailable
) -> tuple[str, dict[str, str], tuple[socket.socket, attachment.Attachment]]:
    """Return the path of the daemon's socket, variables for the next daemon, and a session.

    ``failure`` is that of the path that comes first. If no daemon is there, one that has noted
    another path is used, or one is started.
    """
    from mcpd.daemon_start.place import locate
    from mcpd.daemon_start.reach import reach

    first = paths.socket_path(arguments.socket)
    path, variables = first, dict[str, str]()
    if can_start(failure):
        path, variables = locate(arguments.socket, arguments.config)
    found = reach(
        path,
        lambda connection: _attach(connection, arguments),
        may_start=arguments.may_start,
        config=arguments.config,
        variables=variables,
        failure=failure if path == first else None,
    )
    return path, variables, found


def _attach(
    connection: socket.socket, arguments: Arguments
) -> tuple[socket.socket, attachment.Attachment]:
    """Attach the connection; treat a daemon that drains as one that has hung up."""
    try:
        return connection, attachment.attach(connection, arguments, streams.report)
    except attachment.Refused as refusal:
        connection.close()
        if refusal.kind != "draining" or not arguments.may_start:
            raise
        raise DaemonUnavailable(str(refusal), hint=refusal.hint, why="gone") from None
    except BaseException:
        connection.close()
        raise


def _fail(message: str, hint: str | None, status: int, arguments: Arguments) -> int:
    if hint and hint not in message:
        from mcpd.daemon_start.hints import with_socket

        message += f"\n  {with_socket(hint, arguments.socket)}"
    streams.report(message)
    return status


def _exit_on_signals() -> None:
    """Exit at once with 130 or 143 on SIGINT and SIGTERM: the bridge has nothing to clean up.

    A signal that is ignored at the start (``nohup``, a background job) stays ignored.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda received, _frame: os._exit(SIGNALLED + received))
