"""The daemon's own log: lines on stderr, and the newest of them to be read again."""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import select
import stat
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
NAMES: Final = {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "error"}

RING_LINES: Final = 1000
LINE_BYTES: Final = 4096
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""As much as a pipe that can be written to takes without blocking (PIPE_BUF)."""


ReadBack = Callable[[str, int, int], list[bytes]]
"""Returns the newest lines of a file: its path, how many, how many older parts it has."""


class LogLine(msgspec.Struct, frozen=True):
    """One line, as ``mcpd/logs`` gives it."""

    time: str
    """RFC 3339, UTC, milliseconds; empty for what somebody else wrote into the file."""

    source: str
    text: str


class DaemonLog(logging.Handler):
    """Writes ``TIME LEVEL event key=value …``, one line for each event.

    Invariant: writing never waits. A terminal that is stopped, a pipe that nobody reads, a disk
    that is full cost lines, and their number is told when there is room again. A file of its own
    is looked at before each line: when somebody moved it away, there is a new one.
    """

    def __init__(
        self,
        fd: int = 2,
        *,
        level: str = "info",
        file: str | None = None,
        max_bytes: int = 10 * 1024 * 1024,
        backups: int = 3,
        read_back: ReadBack = lambda *_: [],
        open_directory: Callable[[str], int] = lambda path: os.open(path, _DIRECTORY),
    ) -> None:
        """``file`` is the path that ``fd`` may be open on; then it is rotated at ``max_bytes``.

        What stands in it is read with ``read_back``. ``open_directory`` returns a descriptor of its
        directory, and raises ``OSError`` where nothing may be made there.
        """
        super().__init__()
        self.level_name = level
        self.on_growth: Callable[[int], object] = lambda _: None
        """Hears of bytes written to a file of its own."""
        self.mask: Callable[[str], str] = lambda text: text
        """Hides secrets in what others log; the daemon's own lines are masked before."""
        self._file = file if file is not None and _is_open_on(fd, file) else None
        self._fd = own_description(fd)
        self._max_bytes = max_bytes
        self._backups = backups
        self._read_back = read_back
        self._open_directory = open_directory
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLOUT)
        self._lost = 0
        self._is_torn = False
        """Whether the last line that was written lacks its end."""
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
            trace = "".join(traceback.format_exception(record.exc_info[1])).strip()
            keys["error"] = self.mask(trace)
        self._write(NAMES.get(record.levelno, "info"), self.mask(record.getMessage()), keys)

    def tail(self, count: int) -> list[LogLine]:
        """Return the newest lines, at most so many, the oldest first.

        They are those of the file, if it has one: also what earlier daemons wrote there, and the
        stacks of one that hung. What the disk did not take, and what has no file, is in memory.
        """
        return [line for piece in self.pieces(count) for line in piece]

    def pieces(self, count: int) -> Iterator[list[LogLine]]:
        """Return what ``tail`` returns, as of now, a few milliseconds of work at a time."""
        kept = list(self._ring)
        if count <= 0:
            return iter(())
        if self._file is None:
            return iter([kept[-count:]])
        unwritten = (kept[-self._lost :] if self._lost else [])[-count:]
        left = count - len(unwritten)
        written = self._read_back(self._file, left, self._backups)[-left:] if left else []
        return itertools.chain(_parsed(written), [unwritten])

    def follow(self, callback: Callable[[LogLine], None]) -> Callable[[], None]:
        """Have ``callback`` called with each line from now on; return what ends that."""
        self._followers.append(callback)

        def unfollow() -> None:
            if callback in self._followers:
                self._followers.remove(callback)

        return unfollow

    def _write(self, level: str, event: str, keys: dict[str, Any]) -> None:
        time = now()
        line = LogLine(time, "mcpd", text_of(level, event, keys))
        self._ring.append(line)
        for follower in list(self._followers):
            follower(line)
        self._put(f"{time} {line.text}")

    def _put(self, text: str) -> None:
        if self._lost:
            text = f"[{self._lost} lines are missing here]\n{text}"
        data = text.encode(errors="replace")
        if len(data) >= LINE_BYTES:
            data = data[: LINE_BYTES - 8].decode(errors="ignore").encode() + "…".encode()
        try:
            is_written = self._write_whole(data + b"\n")
        except OSError:  # a full disk, a full pipe, a reader that has gone
            is_written = False
        self._lost = 0 if is_written else self._lost + 1

    def _write_whole(self, data: bytes) -> bool:
        if self._file is not None:
            self._see_to(self._file, len(data))
        elif not self._poll.poll(0):
            return False
        if self._is_torn:
            data = b"\n" + data
        written = os.write(self._fd, data)
        self._is_torn = 0 < written < len(data)
        if self._is_torn and self._file is not None:
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
            self._is_torn = False
        if written < len(data):
            return False
        if self._file is not None:
            self.on_growth(written)
        return True

    def _see_to(self, file: str, more_bytes: int) -> None:
        """Have the descriptor be that of a regular file at ``file`` with room for so much."""
        if not _is_open_on(self._fd, file):
            self._begin(file)
            return
        size = os.fstat(self._fd).st_size
        if not size or size + more_bytes <= self._max_bytes:
            return
        if not self._backups:
            os.ftruncate(self._fd, 0)
            return
        for number in range(self._backups, 0, -1):
            older = file if number == 1 else f"{file}.{number - 1}"
            with contextlib.suppress(FileNotFoundError):
                os.rename(older, f"{file}.{number}")
        self._begin(file)

    def _begin(self, file: str) -> None:
        """Go on in the file at ``file``, a new one where there is none; links are not followed."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        folder, name = os.path.split(file)
        try:
            directory = self._open_directory(folder)
        except FileNotFoundError:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            directory = self._open_directory(folder)
        try:
            fresh = os.open(name, flags | os.O_CLOEXEC, 0o600, dir_fd=directory)
        finally:
            os.close(directory)
        try:
            if not stat.S_ISREG(os.fstat(fresh).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", file)
            os.dup2(fresh, self._fd)
        finally:
            os.close(fresh)


def text_of(level: str, event: str, keys: Mapping[str, Any]) -> str:
    """Return a line as it is written after the time."""
    said = [level.ljust(7), event]
    said += [f"{key}={_value(value)}" for key, value in keys.items() if value is not None]
    return " ".join(said)


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


def own_description(fd: int) -> int:
    """Return a descriptor for the same pipe or terminal, to be written to without waiting.

    The flag is not set on ``fd`` itself: whoever else writes there would have it, too.
    """
    with contextlib.suppress(OSError):
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and os.isatty(fd)):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(f"/proc/self/fd/{fd}", flags)
    return fd


def _parsed(written: list[bytes]) -> Iterator[list[LogLine]]:
    for start in range(0, len(written), RING_LINES):
        yield [_parse(line) for line in written[start : start + RING_LINES]]


def _parse(data: bytes) -> LogLine:
    """Return a line of the file as it was when it was written."""
    text = data.decode(errors="replace")
    time, _, said = text.partition(" ")
    is_ours = time[:1].isdigit() and time.endswith("Z")
    return LogLine(time, "mcpd", said) if is_ours else LogLine("", "mcpd", text)


def _is_open_on(fd: int, file: str) -> bool:
    try:
        found = os.fstat(fd)
        return stat.S_ISREG(found.st_mode) and os.path.samestat(found, os.lstat(file))
    except OSError:
        return False
