"""Runs a server, and writes down every line that passes between it and its client.

Usage: ``tee.py FILE COMMAND ARG...``. A line of ``FILE`` is ``> `` or ``< `` and what the client or
the server said, or ``= `` and what happened: a process of its own is appended, as it starts anew.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import IO


def main() -> int:
    """Pass lines on until the server ends; the status is its own."""
    lock = threading.Lock()
    with open(sys.argv[1], "ab", buffering=0) as record:

        def note(mark: str, line: bytes) -> None:
            with lock:
                record.write(mark.encode() + b" " + line.rstrip(b"\n") + b"\n")

        def carry(source: IO[bytes], mark: str, target: IO[bytes]) -> None:
            for line in source:
                note(mark, line)
                try:
                    target.write(line)
                    target.flush()
                except BrokenPipeError:
                    break

        note("=", b"the server starts")
        server = subprocess.Popen(
            sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert server.stdin and server.stdout

        def feed(target: IO[bytes]) -> None:
            carry(sys.stdin.buffer, ">", target)
            note("=", b"the client closes its end")
            target.close()

        threading.Thread(target=feed, args=(server.stdin,), daemon=True).start()
        carry(server.stdout, "<", sys.stdout.buffer)
        status = server.wait()
        note("=", b"the server ends")
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    os._exit(main())  # whoever still reads stdin would be waited for
