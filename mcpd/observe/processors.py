"""The processors of structlog through which each line of the daemon's log passes.

Importing structlog takes tens of milliseconds: this module is imported after the first answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from mcpd.logfiles.line import LogLine, now
from mcpd.observe.form import Form, text_of

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}

FOREIGN: Final = "_foreign"
"""Marks an event whose name is a library's message."""

_NAMES: Final = frozenset({"event", "level", "time", "server", "added", "removed", "changed"})
_PATHS: Final = frozenset({"path", "socket"})
_SHOWN: Final = _NAMES | _PATHS
"""Keys whose values are names and paths of the configuration. A password may well be the name of
a database, and the lines of its server must still be found."""


class Settings(Protocol):
    """What may change while the daemon runs."""

    level_name: str
    mask: Callable[[str | None, str], str]
    """Takes a server's name, or ``None``, and a text; returns it without secrets."""


Write = Callable[[LogLine, bytes], None]


class _Output:
    """What structlog calls with a finished line."""

    def __init__(self, write: Write) -> None:
        self.debug = self.info = self.warning = self.error = write


def bound_logger(settings: Settings, form: Form, write: Write) -> FilteringBoundLogger:
    """Return a logger whose lines go to ``write``."""
    logger: FilteringBoundLogger = structlog.wrap_logger(
        _Output(write),
        processors=_processors(settings, form),
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS["debug"]),
        context_class=dict,
        cache_logger_on_first_use=True,
    ).bind()
    return logger


def _processors(settings: Settings, form: Form) -> Iterable[Processor]:
    def drop_below_level(_: Any, level: str, keys: EventDict) -> EventDict:
        if LEVELS[level] < LEVELS[settings.level_name]:
            raise structlog.DropEvent
        return keys

    def add_time(_: Any, __: str, keys: EventDict) -> EventDict:
        keys.setdefault("time", now())
        return keys

    def redact(_: Any, __: str, keys: EventDict) -> EventDict:
        server = keys.get("server")
        shown = _SHOWN - {"event"} if keys.pop(FOREIGN, False) else _SHOWN
        for name, value in keys.items():
            if name not in shown and value is not None and not isinstance(value, int | float):
                keys[name] = settings.mask(server, str(value))
        return keys

    def render(_: Any, __: str, keys: EventDict) -> Any:
        time, level, event = (keys.pop(name) for name in ("time", "level", "event"))
        line = LogLine(time, "mcpd", text_of(level, event, keys))
        return (line, form.encode(time, level, event, keys)), {}

    return drop_below_level, structlog.processors.add_log_level, add_time, redact, render
