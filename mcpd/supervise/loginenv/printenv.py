"""Prints its environment for the daemon: the command that the login shell is asked to run.

Run as a script, ``python -I -S printenv.py MARK FD``. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys

STDOUT = 1


def main(mark: str, fd: int) -> None:
    """Write ``NAME=VALUE`` between two marks to the pipe ``fd``, or to stdout if that is closed.

    A NUL follows each variable, as in ``/proc/PID/environ``.
    """
    variables = b"".join(b"%b=%b\0" % variable for variable in os.environb.items())
    around = encoded(mark)
    _write(fd if _is_pipe(fd) else STDOUT, b"%b%b%b" % (around, variables, around))


def encoded(mark: str) -> bytes:
    """Return a mark as it is written: reversed, because a shell may echo our arguments."""
    return mark[::-1].encode()


def _is_pipe(fd: int) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    return False


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
