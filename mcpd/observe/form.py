"""The two forms in which a line of the daemon's log is written, and how both are read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mcpd.logfiles.daemonlog import LINE_BYTES, cut, parse_line
from mcpd.logfiles.line import LogLine, now

CONSOLE: Final = "console"
JSON: Final = "json"

_SHORT: Final = 16
"""Characters below which a value is not shortened."""


class Form:
    """Writes lines as ``TIME LEVEL EVENT KEY=VALUE …`` or, as ``json``, as one object each."""

    def __init__(self, name: str = CONSOLE) -> None:
        self.name = name
        """``console`` or ``json``; may change at any time."""

    def encode(self, time: str, level: str, event: str, keys: Mapping[str, Any]) -> bytes:
        """Return a line with its newline, ``LINE_BYTES`` long at most."""
        if self.name == JSON:
            return _json(time, level, event, keys) + b"\n"
        return cut(f"{time} {text_of(level, event, keys)}".encode(errors="replace")) + b"\n"

    def note(self, missing: int) -> bytes:
        """Return the line that tells how many are missing."""
        if self.name == JSON:
            return _json(now(), "warning", "log.lines_missing", {"lines": missing}) + b"\n"
        return b"[%d lines are missing here]\n" % missing


def parse(data: bytes) -> LogLine:
    """Return a line of a file, whichever form it has; the text is that of ``console``."""
    if data.startswith(b'{"time":'):
        try:
            members = msgspec.json.decode(data, type=dict[str, Any])
            time, level, event = (str(members.pop(name)) for name in ("time", "level", "event"))
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
            return parse_line(data)
        return LogLine(time, "mcpd", text_of(level, event, members))
    return parse_line(data)


def text_of(level: str, event: str, keys: Mapping[str, Any]) -> str:
    """Return a line as ``console`` writes it after the time."""
    words = [level.ljust(7), event]
    words += [f"{key}={_value(value)}" for key, value in keys.items() if value is not None]
    return " ".join(words)


def _value(value: Any) -> str:
    text = f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    if text.isprintable() and text and " " not in text and '"' not in text:
        return text
    return msgspec.json.encode(_encodable(text)).decode()


def _json(time: str, level: str, event: str, keys: Mapping[str, Any]) -> bytes:
    """Return a line as an object; where it is too long, its longest values are cut."""
    members: dict[str, Any] = {"time": time, "level": level, "event": _encodable(event)}
    for name, value in keys.items():
        if value is not None:
            members[name] = value if isinstance(value, int | float) else _encodable(str(value))
    data = msgspec.json.encode(members)
    while len(data) >= LINE_BYTES:
        texts = {name: value for name, value in members.items() if isinstance(value, str)}
        longest = max(texts, key=lambda name: len(texts[name]))
        if len(texts[longest]) <= _SHORT:
            break
        members[longest] = texts[longest][: len(texts[longest]) // 2] + "…"
        data = msgspec.json.encode(members)
    return data


def _encodable(text: str) -> str:
    """Return a text without the lone surrogates that UTF-8 has no bytes for."""
    return text.encode(errors="replace").decode()
