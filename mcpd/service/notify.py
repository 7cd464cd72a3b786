"""Notifies the service manager of the daemon's state: ready, reloading, stopping, alive.

Source: sd_notify(3). Standard library only. Without a service manager every call does nothing.
"""

from __future__ import annotations

import os
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # imported before the socket listens: nothing that costs time
    from collections.abc import MutableMapping

MANAGERS = (
    "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "INVOCATION_ID", "JOURNAL_STREAM",
    "MAINPID", "MANAGERPID", "MANAGERPIDFDID", "SYSTEMD_EXEC_PID", "MEMORY_PRESSURE_WATCH",
    "MEMORY_PRESSURE_WRITE",
)  # fmt: skip
"""Variables that a service manager sets for the daemon; servers do not inherit them."""


class Notifier:
    """Sends notifications to the service manager."""

    def __init__(self, address: str = "", watchdog_s: float | None = None) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket: socket.socket | None = None
        self.watchdog_s = watchdog_s if address else None
        """The manager's watchdog interval in seconds, or ``None``."""

    @classmethod
    def take(cls, env: MutableMapping[str, str]) -> Notifier:
        """Return the notifier of the environment, and remove its variables from ``env``.

        A watchdog for another process is ignored.
        """
        found = {name: env.pop(name, "") for name in MANAGERS}
        address = found["NOTIFY_SOCKET"]
        if not address.startswith(("/", "@")) or len(address) < 2:
            return cls()
        microseconds = found["WATCHDOG_USEC"]
        is_ours = found["WATCHDOG_PID"] in ("", str(os.getpid()))
        if not (microseconds.isdecimal() and int(microseconds) and is_ours):
            return cls(address)
        return cls(address, int(microseconds) / 1e6)

    @property
    def is_on(self) -> bool:
        """Whether there is a service manager to notify."""
        return bool(self._address)

    def ready(self, status: str) -> bool:
        """Report that clients are answered, at the start or after ``reloading``.

        Return False if the manager's queue is full, so that it must be sent again.
        """
        return self._send("READY=1", f"MAINPID={os.getpid()}", f"STATUS={_line(status)}")

    def status(self, text: str) -> bool:
        """Report a status line. Return False if it must be sent again."""
        return self._send(f"STATUS={_line(text)}")

    def reloading(self) -> bool:
        """Report that the configuration is being read; call ``ready`` afterwards."""
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        return self._send("RELOADING=1", f"MONOTONIC_USEC={microseconds}")

    def stopping(self, status: str, within_s: float) -> bool:
        """Report that the daemon is stopping, and how long that may take."""
        return self._send(
            "STOPPING=1",
            f"STATUS={_line(status)}",
            f"EXTEND_TIMEOUT_USEC={int(within_s * 1e6)}",
        )

    def alive(self) -> bool:
        """Reset the manager's watchdog."""
        return self._send("WATCHDOG=1")

    def close(self) -> None:
        """Close the socket; later calls do nothing."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._address = ""

    def _send(self, *lines: str) -> bool:
        """Send one datagram without blocking; ignore a manager that has gone."""
        if not self._address:
            return True
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.setblocking(False)
            self._socket.sendto("\n".join(lines).encode(errors="replace"), self._address)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True


def _line(text: str) -> str:
    return text.replace("\n", " ")
