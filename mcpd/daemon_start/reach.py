"""Reaching a daemon: the one that listens, or one that is started for this client."""

from __future__ import annotations

from mcpd.daemon_start.connection import START_TIMEOUT_S, can_start, connect
from mcpd.errors import DaemonUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    T = TypeVar("T")


def reach(
    path: str,
    greet: Callable[[socket.socket], T],
    *,
    may_start: bool = True,
    config: str | None = None,
    variables: Mapping[str, str] | None = None,
    timeout: float = START_TIMEOUT_S,
    progress: Callable[[str], None] | None = None,
    failure: DaemonUnavailable | None = None,
) -> T:
    """Connect to the daemon on ``path`` and return ``greet(connection)``.

    ``greet`` raises ``DaemonUnavailable`` with ``gone`` where the daemon hangs up, and closes the
    connection whenever it raises. With ``may_start``, a daemon is started where none listens or the
    one that does is shutting down; ``config`` is its ``--config``, ``variables`` are added to its
    environment, and ``progress`` is called once before the wait. ``failure`` is that of a caller
    which has tried to connect to ``path`` itself. Raises ``DaemonUnavailable`` as ``connect`` does,
    and with ``no_socket`` (a daemon holds the lock and has no socket), ``start_failed`` (the
    message ends with the last lines of the log) or, after ``timeout`` seconds, ``start_timeout``.
    """
    if failure is None:
        try:
            return greet(connect(path))
        except DaemonUnavailable as error:
            failure = error
    is_gone = failure.details["why"] == "gone"
    if not (may_start and (is_gone or can_start(failure))):
        from mcpd.daemon_start.unavailable import without_socket

        raise without_socket(path, failure) or failure from None
    if progress is not None:
        progress("starting mcpd")
    from mcpd.daemon_start.search import Search

    with Search(path, config=config, variables=variables, timeout=timeout) as search:
        return search.reach(greet)
