"""The process that outlives a daemon by a second, to end what the daemon could not end itself.

Run as a script, ``python -I -S guardian.py LEDGER``, with the reading end of a pipe from the
daemon as its stdin. Standard library only; until the pipe closes it does nothing at all.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys

if __name__ == "__main__":  # isolated (-I), it is not told where the rest of us is
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from mcpd import privatefiles
from mcpd.supervise import ledgerfile, orphans, procfs

BYE = b"bye"
"""What the daemon writes when there is nothing left to end."""


def main(path: str) -> None:
    """Wait for the daemon's end, and end its processes unless it said that there are none.

    Signals that a terminal, a shutdown or a person sends to everything are not for it: it has to
    be there when the others are gone.
    """
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_IGN)
    path = os.path.abspath(path)
    # Held to the end of this process: a new daemon starts no server before that.
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
    """Lock the file and write our pid into it: by that others know a guardian."""
    with contextlib.suppress(OSError):
        directory = privatefiles.open_directory(os.path.dirname(path))
        name = os.path.basename(path)
        fd = privatefiles.open_file(name, os.O_RDWR | os.O_CREAT, directory=directory)
        os.close(directory)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.ftruncate(fd, 0)
        os.write(fd, b"%d\n" % os.getpid())


def _recorded(path: str) -> ledgerfile.Recorded:
    """Return the ledger; where there is none to be read, one that finds the tagged at least."""
    try:
        directory = privatefiles.open_directory(os.path.dirname(path))
        fd = privatefiles.open_file(os.path.basename(path), os.O_RDONLY, directory=directory)
        with os.fdopen(fd, "rb") as file:
            return ledgerfile.decode(file.read(ledgerfile.LIMIT_BYTES))
    except (OSError, ValueError):
        daemon_id = os.path.basename(path).removesuffix(".json")
        nobody = procfs.ProcId(0, 0)
        return ledgerfile.Recorded(daemon_id, nobody, "", "", entries=(), spared=())


if __name__ == "__main__":
    main(sys.argv[1])
