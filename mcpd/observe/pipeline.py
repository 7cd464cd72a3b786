"""From events to lines of the daemon's log: loggers, and what they write through."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mcpd.logfiles.daemonlog import DaemonLog
from mcpd.logfiles.line import LogLine, now
from mcpd.logfiles.recent import Follower
from mcpd.observe.form import Form, text_of

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_LEVELS: Final = {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "error"}
"""Of the standard library's levels."""


class _Early(NamedTuple):
    """A line from before structlog was imported."""

    time: str
    level: str
    event: str
    keys: dict[str, Any]


class Pipeline:
    """Passes each event through structlog's processors to the daemon's log.

    Until ``load`` imports structlog, events are kept in memory; then they are written in order,
    each with its own time.
    """

    def __init__(self, log: DaemonLog, form: Form | None = None, *, level: str = "info") -> None:
        self._log = log
        self.form = form or Form()
        self.level_name = level
        """The least severe level that is written."""
        self.mask: Callable[[str | None, str], str] = lambda _, text: text
        """Hides the secrets of a server, or with ``None`` those of all servers."""
        self.logger = Logger(self, {})
        self.bound: FilteringBoundLogger | None = None
        """structlog's logger; ``None`` before ``load``."""
        self._early: list[_Early] = []

    def load(self) -> None:
        """Import structlog and write the events that were kept; does nothing the next time.

        Raises ``ImportError`` and ``OSError``, also where no descriptors are left for the import.
        """
        if self.bound is not None:
            return
        from mcpd.observe import processors

        self.bound = processors.bound_logger(self, self.form, self._log.write)
        early, self._early = self._early, []
        for each in early:
            getattr(self.bound, each.level)(each.event, time=each.time, **each.keys)

    def keep(self, level: str, event: str, keys: dict[str, Any]) -> None:
        """Keep an event until ``load``."""
        self._early.append(_Early(now(), level, event, keys))

    def write_directly(self, level: str, event: str, keys: Mapping[str, Any]) -> None:
        """Write a line without structlog: it cannot be imported."""
        time = now()
        line = LogLine(time, "mcpd", text_of(level, event, keys))
        self._log.write(line, self.form.encode(time, level, event, keys))

    def pieces(self, count: int) -> Iterator[list[LogLine]]:
        """Return what ``DaemonLog.pieces`` returns, with the events that were kept until now."""
        self.load()
        return self._log.pieces(count)

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Call ``follower`` with each line from now on; return what ends that."""
        self.load()
        return self._log.follow(follower)


class Logger:
    """A bound logger, which works before structlog is imported, too."""

    def __init__(self, pipeline: Pipeline, context: dict[str, Any]) -> None:
        self._pipeline = pipeline
        self._context = context
        self._bound: FilteringBoundLogger | None = None

    def bind(self, **keys: Any) -> Logger:
        """Return a logger that adds ``keys`` to each of its events."""
        return Logger(self._pipeline, self._context | keys)

    def debug(self, event: str, /, **keys: Any) -> None:
        """Log an event that helps to find a cause."""
        self.log("debug", event, keys)

    def info(self, event: str, /, **keys: Any) -> None:
        """Log what happened."""
        self.log("info", event, keys)

    def warning(self, event: str, /, **keys: Any) -> None:
        """Log something unexpected."""
        self.log("warning", event, keys)

    def error(self, event: str, /, **keys: Any) -> None:
        """Log something that does not work."""
        self.log("error", event, keys)

    def log(self, level: str, event: str, keys: dict[str, Any]) -> None:
        """Log an event with its level. Never blocks; keys that are ``None`` are left out."""
        if self._bound is None:
            if self._pipeline.bound is None:
                self._pipeline.keep(level, event, self._context | keys)
                return
            self._bound = self._pipeline.bound.bind(**self._context)
        getattr(self._bound, level)(event, **keys)


class LibraryHandler(logging.Handler):
    """Writes what libraries log, and what ``mcpd.tasks`` logs of crashed tasks."""

    def __init__(self, logger: Logger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; keys come with ``extra={"keys": …}``."""
        keys: dict[str, Any] = dict(getattr(record, "keys", {}))
        if record.exc_info and record.exc_info[1] is not None:
            keys["error"] = "".join(traceback.format_exception(record.exc_info[1])).strip()
        level = _LEVELS.get(record.levelno, "info")
        self._logger.log(level, record.getMessage(), {**keys, "_foreign": True})


def install(logger: Logger) -> None:
    """Write everything that is logged in this process to ``logger``."""
    logging.raiseExceptions = False
    logging.lastResort = None
    root = logging.getLogger()
    root.handlers[:] = [LibraryHandler(logger)]
    root.setLevel(logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
