"""Asks the daemon for a sign of life, again and again, and says how long each took: a number a line.

In a process of its own, so that nothing but the daemon and the machine delays it. The time is that
of the event loop to come round, and of the kernel to wake both sides.
"""

from __future__ import annotations

import socket
import sys
import time

EVERY_S = 0.05


def main(path: str) -> None:
    """Probe until the daemon hangs up."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        while True:
            began = time.perf_counter()
            connection.sendall(b'{"jsonrpc":"2.0","id":1,"method":"mcpd/hello"}\n')
            line = b""
            while not line.endswith(b"\n"):
                chunk = connection.recv(4096)
                if not chunk:
                    return
                line += chunk
            print(f"{time.perf_counter() - began:.6f}", flush=True)
            time.sleep(EVERY_S)


if __name__ == "__main__":
    main(sys.argv[1])
