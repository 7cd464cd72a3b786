"""Facts of what servers say of themselves, and of what their results have in them."""

from __future__ import annotations

from typing import Any

import msgspec


class ChangedDefinition(msgspec.Struct, frozen=True):
    """One definition that is not what was approved."""

    kind: str
    """``tool``, ``prompt``, ``template`` or ``instructions``."""
    name: str
    state: str
    """``changed``, ``new``, ``renamed``, ``gone`` or, again, ``approved``."""
    parts: tuple[str, ...] = ()
    """Which parts have changed: ``text``, ``schema``, ``hints``, ``output``."""


class DefinitionsPinned(msgspec.Struct, frozen=True):
    """What a server listed first counts as approved. ``after`` says what came before, if any."""

    server: str
    kind: str
    count: int
    after: str | None = None


class DefinitionsChanged(msgspec.Struct, frozen=True):
    """Definitions of a server are not what was approved; or they are again."""

    server: str
    items: tuple[ChangedDefinition, ...]


class DefinitionsAccepted(msgspec.Struct, frozen=True):
    """A person has approved definitions of a server."""

    server: str
    items: tuple[ChangedDefinition, ...]


class DefinitionVolatile(msgspec.Struct, frozen=True):
    """A definition changes all the time: its changes are not told any more."""

    server: str
    kind: str
    name: str


class DefinitionsFound(msgspec.Struct, frozen=True):
    """Something that attacks are made of was found in the definitions of a server."""

    server: str
    findings: tuple[dict[str, Any], ...]
    """Each with ``kind``, ``name``, ``class``, ``weight`` and ``place``."""


class DefinitionsSanitised(msgspec.Struct, frozen=True):
    """What cannot be seen was removed from the definitions of a server."""

    server: str
    notices: tuple[dict[str, Any], ...]
    """Each with ``kind``, ``name``, ``class`` and ``count``."""


class ResultFlagged(msgspec.Struct, frozen=True):
    """The result of a call has characters that cannot be seen; ``is_clean``: it had."""

    server: str
    tool: str | None
    classes: tuple[str, ...]
    is_clean: bool = False
