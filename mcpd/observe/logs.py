"""What is logged in the daemon: levels, and how a line is written."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from mcpd.logfiles.daemonlog import DaemonLog, cut
from mcpd.logfiles.line import LogLine, now

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
NAMES: Final = {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "error"}


class Logger(logging.Handler):
    """Writes ``TIME LEVEL event key=value …`` to the daemon's log, one line for each event."""

    def __init__(self, log: DaemonLog, *, level: str = "info") -> None:
        super().__init__()
        self._log = log
        self.level_name = level
        self.mask: Callable[[str], str] = lambda text: text
        """Hides secrets in what libraries log; the daemon's own lines are masked before."""

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

    def _write(self, level: str, event: str, keys: dict[str, Any]) -> None:
        line = LogLine(now(), "mcpd", text_of(level, event, keys))
        data = cut(f"{line.time} {line.text}".encode(errors="replace"))
        self._log.write(line, data + b"\n")


def text_of(level: str, event: str, keys: Mapping[str, Any]) -> str:
    """Return a line as it is written after the time."""
    said = [level.ljust(7), event]
    said += [f"{key}={_value(value)}" for key, value in keys.items() if value is not None]
    return " ".join(said)


def install(log: Logger) -> None:
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
