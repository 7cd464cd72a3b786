"""The guardian: a process that ends the daemon's servers when the daemon dies.

Run as a script, ``python -I -S guardian.py LEDGER``, with the reading end of a pipe from the
daemon as its stdin. Standard library only; it does nothing until the pipe closes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys

if __name__ == "__main__":  # isolated (-I), Python does not find the package
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from mcpd import privatefiles
from mcpd.supervise.cleanup import ledgerfile, orphans
from mcpd.supervise.proctable import procfs

BYE = b"bye"
"""What the daemon writes when it has ended all its servers itself."""


def main(path: str) -> None:
    """Wait until the daemon ends, then end its processes unless it wrote ``BYE``.

    Signals that a terminal or a shutdown sends to every process are ignored: the guardian has to
    outlive the daemon.
    """
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_IGN)
    path = os.path.abspath(path)
    # Held until this process ends: a new daemon starts no server before that.
    _lock(path.removesuffix(".json") + ".guard")
    if os.read(0, len(BYE)):
        return
    recorded = _recorded(path)
    orphans.end(recorded)
    _, left = orphans.end_containers(recorded)
    if left:
        return  # the ledger stays: the next daemon tries again
    with contextlib.suppress(OSError):
        directory = privatefiles.open_directory(os.path.dirname(path))
        for ending in (".json", ".lock", ".guard"):
            name = os.path.basename(path).removesuffix(".json") + ending
            privatefiles.remove(name, directory=directory)


def _lock(path: str) -> None:
    """Lock the file and write our pid into it, by which a guardian is recognised."""
    with contextlib.suppress(OSError):
        directory = privatefiles.open_directory(os.path.dirname(path))
        name = os.path.basename(path)
        fd = privatefiles.open_file(name, os.O_RDWR | os.O_CREAT, directory=directory)
        os.close(directory)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.ftruncate(fd, 0)
        os.write(fd, b"%d\n" % os.getpid())


def _recorded(path: str) -> ledgerfile.DaemonRecord:
    """Return the ledger; if it cannot be read, an empty one, with which tags are still found."""
    try:
        directory = privatefiles.open_directory(os.path.dirname(path))
        fd = privatefiles.open_file(os.path.basename(path), os.O_RDONLY, directory=directory)
        with os.fdopen(fd, "rb") as file:
            return ledgerfile.decode(file.read(ledgerfile.LIMIT_BYTES))
    except (OSError, ValueError):
        daemon_id = os.path.basename(path).removesuffix(".json")
        unknown = procfs.ProcId(0, 0)
        return ledgerfile.DaemonRecord(daemon_id, unknown, "", "", entries=(), spared=())


if __name__ == "__main__":
    main(sys.argv[1])
