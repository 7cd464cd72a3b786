"""The daemon's own log: lines on stderr, the newest of them in memory."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import stat
import traceback
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
NAMES: Final = {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "error"}

RING_LINES: Final = 1000
LINE_BYTES: Final = 4096
"""As much as a pipe that can be written to takes without blocking (PIPE_BUF)."""


class LogLine(msgspec.Struct, frozen=True):
    """One line, as ``mcpd/logs`` gives it."""

    time: str
    """RFC 3339, UTC, milliseconds."""

    source: str
    text: str


class DaemonLog(logging.Handler):
    """Writes ``TIME LEVEL event key=value …``, one line for each event.

    Invariant: writing never waits. A terminal that is stopped, or a pipe that nobody reads,
    costs lines, and their number is told when there is room again.
    """

    def __init__(
        self,
        fd: int = 2,
        *,
        level: str = "info",
        file: str | None = None,
        max_bytes: int = 10 * 1024 * 1024,
        backups: int = 3,
    ) -> None:
        """``file`` is the path that ``fd`` may be open on; then it is rotated at ``max_bytes``."""
        super().__init__()
        self.level_name = level
        self._fd = fd
        self._file = file if file is not None and _is_open_on(fd, file) else None
        self._max_bytes = max_bytes
        self._backups = backups
        self._size = os.fstat(fd).st_size if self._file is not None else 0
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._lost = 0
        self._ring: deque[LogLine] = deque(maxlen=RING_LINES)
        self._followers: list[Callable[[LogLine], None]] = []

    def limit(self, *, level: str, max_bytes: int, backups: int) -> None:
        """Take over what the configuration says."""
        self.level_name = level
        self._max_bytes, self._backups = max_bytes, backups

    def log(self, level: str, event: str, /, **keys: Any) -> None:
        """Write one line, unless its level is below the log's."""
        if LEVELS[level] >= LEVELS[self.level_name]:
            self._write(level, event, keys)

    def emit(self, record: logging.LogRecord) -> None:
        """Write what a library, or a task that crashed, logged."""
        if record.levelno < LEVELS[self.level_name]:
            return
        keys: dict[str, Any] = dict(getattr(record, "keys", {}))
        if record.exc_info and record.exc_info[1] is not None:
            keys["error"] = "".join(traceback.format_exception(record.exc_info[1])).strip()
        self._write(NAMES.get(record.levelno, "info"), record.getMessage(), keys)

    def tail(self, count: int) -> list[LogLine]:
        """Return the newest lines, at most so many, the oldest first."""
        return list(self._ring)[-count:] if count > 0 else []

    def follow(self, callback: Callable[[LogLine], None]) -> Callable[[], None]:
        """Have ``callback`` called with each line from now on; return what ends that."""
        self._followers.append(callback)

        def unfollow() -> None:
            if callback in self._followers:
                self._followers.remove(callback)

        return unfollow

    def _write(self, level: str, event: str, keys: dict[str, Any]) -> None:
        time = now()
        said = [level.ljust(7), event]
        said += [f"{key}={_value(value)}" for key, value in keys.items() if value is not None]
        line = LogLine(time, "mcpd", " ".join(said))
        self._ring.append(line)
        for follower in list(self._followers):
            follower(line)
        self._put(f"{time} {line.text}")

    def _put(self, text: str) -> None:
        if not self._poll.poll(0):
            self._lost += 1
            return
        if self._lost:
            text = f"[{self._lost} lines are missing here]\n{text}"
            self._lost = 0
        data = text.encode(errors="replace")
        if len(data) >= LINE_BYTES:
            data = data[: LINE_BYTES - 8].decode(errors="ignore").encode() + "…".encode()
        with contextlib.suppress(OSError):  # a full disk, a reader that has gone: nobody to tell
            self._size += os.write(self._fd, data + b"\n")
            if self._file is not None and self._size > self._max_bytes:
                self._rotate(self._file)

    def _rotate(self, file: str) -> None:
        """Move the file away and go on in a new one, under the same descriptor."""
        for number in range(self._backups, 0, -1):
            older = file if number == 1 else f"{file}.{number - 1}"
            with contextlib.suppress(FileNotFoundError):
                os.rename(older, f"{file}.{number}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        flags |= 0 if self._backups else os.O_TRUNC
        fresh = os.open(file, flags, 0o600)
        os.dup2(fresh, self._fd)
        os.close(fresh)
        self._size = 0


def now() -> str:
    """Return the time of day as the product writes it."""
    return stamp(datetime.now(UTC))


def stamp(instant: datetime) -> str:
    """Return an instant in UTC as the product writes it: RFC 3339, with milliseconds."""
    return instant.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def install(log: DaemonLog) -> None:
    """Have everything that is logged in this process end up in ``log``."""
    logging.raiseExceptions = False
    logging.lastResort = None
    root = logging.getLogger()
    root.handlers[:] = [log]
    root.setLevel(logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _value(value: Any) -> str:
    text = f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    if text.isprintable() and text and " " not in text and '"' not in text:
        return text
    return msgspec.json.encode(text.encode(errors="replace").decode()).decode()


def _is_open_on(fd: int, file: str) -> bool:
    try:
        found = os.fstat(fd)
        return stat.S_ISREG(found.st_mode) and os.path.samestat(found, os.lstat(file))
    except OSError:
        return False
