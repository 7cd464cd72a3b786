"""Socket activation: a listening socket that the service manager passes to the daemon.

Source: sd_listen_fds(3). The socket belongs to the manager and is neither bound nor unlinked here.
Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat

from mcpd.errors import PathRefused

TYPE_CHECKING = False
if TYPE_CHECKING:  # imported before the socket listens: nothing that costs time
    from collections.abc import MutableMapping

FIRST_FD = 3

MOST_FDS = 1024

VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID")


def take(env: MutableMapping[str, str]) -> tuple[socket.socket, str] | None:
    """Return the socket that was passed to this process and its path, or ``None``.

    Children do not inherit it, and other descriptors that were passed are closed. The variables
    are removed from ``env``, as servers must not see them. Raises ``PathRefused`` if descriptors
    were passed and none listens on a path of the file system: then the unit is wrong.
    """
    pid, count, *_ = (env.pop(name, "") for name in VARIABLES)
    if pid != str(os.getpid()) or not count.isdecimal() or not 0 < int(count) <= MOST_FDS:
        return None
    passed = range(FIRST_FD, FIRST_FD + int(count))
    for fd in passed:
        with contextlib.suppress(OSError):
            os.set_inheritable(fd, False)
    found: tuple[socket.socket, str] | None = None
    refusals = []
    for fd in passed:
        refusal = _refusal(fd)
        if refusal is not None or found is not None:
            refusals.append(f"descriptor {fd} {refusal or 'is one more'}")
            with contextlib.suppress(OSError):
                os.close(fd)
            continue
        listener = socket.socket(fileno=fd)
        listener.setblocking(False)
        found = listener, os.path.abspath(listener.getsockname())
    if found is None:
        raise PathRefused(
            f"the service manager passed no socket that mcpd can listen on: {'; '.join(refusals)}",
            hint="mcpd.socket needs ListenStream=PATH and Accept=no",
        )
    return found


def _refusal(fd: int) -> str | None:
    """Return why a descriptor is not a usable socket, or ``None`` if it is one."""
    try:
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            return "is no socket"
    except OSError:
        return "is not open"
    probe = socket.socket(fileno=os.dup(fd))
    with probe:
        if probe.family != socket.AF_UNIX or probe.type != socket.SOCK_STREAM:
            return "is no Unix stream socket"
        if not probe.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return "does not listen (Accept=yes?)"
        name = probe.getsockname()
        if not isinstance(name, str) or not name:
            return "has no path: any program could take its name"
    return None
