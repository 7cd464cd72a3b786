"""What servers of npm and PyPI list, as they wrote it; ``tests/real/definitions.py`` keeps it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from mcpd.core.catalog.model import Item, Kind, parse_page

FOLDER: Final = Path(__file__).with_name("servers")
MEMBERS: Final = {
    "tools": Kind.TOOLS,
    "prompts": Kind.PROMPTS,
    "resourceTemplates": Kind.TEMPLATES,
}


class _Answer(msgspec.Struct):
    result: msgspec.Raw


@dataclass(frozen=True)
class Listed:
    """One server."""

    package: str
    version: str
    date: str
    instructions: str = ""
    items: dict[Kind, list[Item]] = field(default_factory=dict)

    def each(self) -> Iterator[tuple[Kind, Item]]:
        for kind, items in self.items.items():
            for item in items:
                yield kind, item


@cache
def servers() -> tuple[Listed, ...]:
    """Return all that is kept, by the name of the file."""
    return tuple(map(_read, sorted(FOLDER.glob("*.jsonl.gz"))))


def _read(path: Path) -> Listed:
    about, first, *pages = gzip.decompress(path.read_bytes()).splitlines()
    said: dict[str, Any] = json.loads(about)
    found = Listed(
        said["package"],
        said["version"],
        said["date"],
        json.loads(first)["result"].get("instructions") or "",
    )
    for line in pages:
        result = msgspec.json.decode(line, type=_Answer).result
        members = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
        for member, kind in MEMBERS.items():
            if member in members:
                found.items.setdefault(kind, []).extend(parse_page(kind, result).items)
    return found
