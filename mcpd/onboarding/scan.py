"""What the clients on this machine have, compared with each other and with mcpd."""

from __future__ import annotations

from typing import Any

import msgspec

from mcpd.onboarding import shown
from mcpd.onboarding.clients.entries import Found
from mcpd.onboarding.clients.launch import flat, identity
from mcpd.onboarding.clients.search import ClientFile
from mcpd.onboarding.own import Own


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A server of a client."""

    found: Found
    same: str
    """Equal for servers that are the same."""

    known: str | None
    """Its name in mcpd."""

    secrets: tuple[str, ...]
    """The keys of its secrets that are in the clear."""

    @property
    def adopted(self) -> bool:
        """Whether it runs mcpd's bridge already."""
        return self.found.connects is not None


def compared(files: list[ClientFile], own: Own) -> list[tuple[ClientFile, list[Seen]]]:
    """Return the servers of each file."""
    mine = {
        identity(entry): name for name, entry in reversed(own.entries.items()) if _is_table(entry)
    }
    ids: dict[Any, str] = {}

    def seen(found: Found) -> Seen:
        key: Any
        known: str | None = None
        if found.connects is not None:
            known = found.connects.server
            if known not in own.entries:
                known = None
            key = identity(own.entries[known]) if known else ("bridge", found.connects.server)
        elif found.entry:
            key = identity(found.entry)
            known = mine.get(key)
        else:
            key = ("alone", len(ids))
        return Seen(
            found=found,
            same=ids.setdefault(key, f"s{len(ids) + 1}"),
            known=known,
            secrets=tuple(shown.secrets(found.entry or _plain(found.content))),
        )

    return [(file, [seen(each) for each in file.servers]) for file in files]


def _is_table(entry: Any) -> bool:
    return isinstance(entry, dict)


def _plain(content: Any) -> dict[str, Any]:
    return flat(content) if isinstance(content, dict) else {}
