"""What is wrong with a configuration, with the place where it is wrong."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from mcpd.config.files.document import KeyPath

Severity = Literal["error", "warning"]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to say about a configuration. Holds names of keys and never a value.

    ``file`` is empty for what came over the socket; ``line`` and ``column`` count from 1 and are
    ``None`` where a place has no meaning (a file that is not there). ``server`` is the entry that
    is affected, ``None`` for what concerns a whole file or the daemon's table.
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
    """Write a key path for people: ``mcpServers.x.args[1]``, quoted where a name needs it."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        name = part if _PLAIN.fullmatch(part) else '"' + printable(part[:200]) + '"'
        text += f".{name}" if text else name
    return text


def printable(text: str) -> str:
    """Return ``text`` with whatever would not show, or would act on a terminal, as an escape."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
