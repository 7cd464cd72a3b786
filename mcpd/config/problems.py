"""One error or warning about a configuration, with its position."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from mcpd.formats.document import KeyPath

Severity = Literal["error", "warning"]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error or a warning about a configuration. Contains names of keys, never a value.

    ``file`` is empty for an entry received over the socket. ``line`` and ``column`` count from 1,
    and are ``None`` without a position (a missing file). ``server`` is the affected entry, ``None``
    for a problem of a whole file or of the daemon's table.
    """

    severity: Severity
    message: str
    file: str = ""
    line: int | None = None
    column: int | None = None
    key: str = ""
    server: str | None = None

    def __str__(self) -> str:
        place = printable(self.file)
        if self.line is not None:
            place += f", line {self.line}, column {self.column}"
        return ": ".join(filter(None, (place, self.severity, self.key, self.message)))


_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


def key_text(path: KeyPath) -> str:
    """Return a key path as text: ``mcpServers.x.args[1]``, with names quoted where necessary."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        name = part if _PLAIN.fullmatch(part) else '"' + printable(part[:200]) + '"'
        text += f".{name}" if text else name
    return text


def printable(text: str) -> str:
    """Return ``text`` with each character that is not printable as an escape."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
