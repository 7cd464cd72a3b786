"""What a server listed: kinds of entries, entries, and whole lists as they are served.

Everything is immutable and kept as the server's own bytes. A list goes through three shapes::

    page = parse_page(Kind.TOOLS, result)      # one answer of the server
    listing = merge_pages([page, …])           # all of them, in the server's order
    catalog = catalog.replaced(Kind.TOOLS, listing)

``Listing.page()`` is what a client gets as the result of its list request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from mcpd.core.wire.envelope import Bytes, object_of, quote, text
from mcpd.core.wire.splice import elements
from mcpd.errors import McpdError

MOST_ENTRIES: Final = 10_000
"""Entries of a list, over all pages. The rest is left out."""

MOST_ENTRY_BYTES: Final = 16 * 1024 * 1024
"""A longer entry is left out."""


class Kind(Enum):
    """One of the four lists of a server; the value is the name people know it by."""

    TOOLS = ("tools", "tools/list", "tools", "name", "tools")
    PROMPTS = ("prompts", "prompts/list", "prompts", "name", "prompts")
    RESOURCES = ("resources", "resources/list", "resources", "uri", "resources")
    TEMPLATES = (
        "templates",
        "resources/templates/list",
        "resourceTemplates",
        "uriTemplate",
        "resources",
    )

    method: str
    """The request that lists it."""
    key: str
    """The member of the result that holds the entries."""
    identity: str
    """The member of an entry that tells it from the others."""
    capability: str
    """The server capability without which the list is not asked for."""
    notification: str
    """What says that the list has changed; resources and templates share one."""

    def __new__(cls, value: str, method: str, key: str, identity: str, capability: str) -> Kind:
        kind = object.__new__(cls)
        kind._value_ = value
        kind.method = method
        kind.key = key
        kind.identity = identity
        kind.capability = capability
        kind.notification = f"notifications/{capability}/list_changed"
        return kind


class ListError(McpdError):
    """The server's answer to a list request is no list: the previous one is kept."""

    slug = "invalid_message"


class Item(msgspec.Struct, frozen=True, gc=False):
    """One tool, prompt, resource or template.

    ``identity`` is its name, uri or uriTemplate; ``raw`` are its bytes as the server wrote them.
    The rest is read when asked for, because most entries are only ever passed on. A member of an
    odd type reads as absent.
    """

    identity: str
    raw: bytes

    def member(self, name: str) -> bytes | None:
        """Return the bytes of a top-level member, ``None`` where there is none."""
        value = (object_of(self.raw) or {}).get(name)
        return None if value is None else bytes(value)

    def input_schema(self) -> bytes | None:
        """Return a tool's schema of its arguments, which may be any JSON at all."""
        return self.member("inputSchema")

    def description(self) -> str | None:
        """Return the text for people, the title where there is no description."""
        members = object_of(self.raw) or {}
        found = (text(members[name]) for name in ("description", "title") if name in members)
        return next((line for line in found if line), None)

    @property
    def read_only(self) -> bool:
        """Whether the tool says that it changes nothing (``readOnlyHint``)."""
        return self._hint("readOnlyHint")

    @property
    def idempotent(self) -> bool:
        """Whether the tool says that calling it twice is calling it once (``idempotentHint``)."""
        return self._hint("idempotentHint")

    def _hint(self, name: str) -> bool:
        annotations = (object_of(self.raw) or {}).get("annotations")
        hints = object_of(annotations) if annotations is not None else None
        return hints is not None and hints.get(name) == Raw(b"true")


class Page(msgspec.Struct, frozen=True):
    """One answer to a list request.

    ``whole`` is the answer itself where it can be served as it is: it has no cursor, and nothing
    in it had to be left out. Of more entries than ``MOST_ENTRIES`` one more is there, which tells
    so. ``dropped`` counts the entries that are no object, have no identity or are too long: one bad
    entry must never hide the others. An empty ``next_cursor`` is a cursor like
    any other.
    """

    kind: Kind
    items: tuple[Item, ...]
    next_cursor: str | None
    whole: bytes | None
    dropped: int
    size_bytes: int


class Listing:
    """One list of a server, whole. Equal when it reads the same byte for byte."""

    def __init__(self, kind: Kind, items: Iterable[Item], whole: bytes | None = None) -> None:
        """Take entries in their order; ``whole`` is the result that held exactly these."""
        self.kind: Final = kind
        self.items: Final = tuple(items)
        self._page = whole
        self._index: Mapping[str, Item] | None = None  # made at the first look-up

    @classmethod
    def empty(cls, kind: Kind) -> Listing:
        """Return a list without entries: of a server that has none of this kind."""
        return cls(kind, ())

    def page(self) -> bytes:
        """Return the result of a list request.

        The server's own bytes where it sent one page and nothing was taken out; else its
        entries, each as the server wrote it, in a result of ours.
        """
        if self._page is None:
            self._page = list_result(self.kind, (item.raw for item in self.items))
        return self._page

    def get(self, identity: str) -> Item | None:
        """Return the entry of this name or URI; the first, should the server list two."""
        if self._index is None:
            self._index = {item.identity: item for item in reversed(self.items)}
        return self._index.get(identity)

    def __len__(self) -> int:
        return len(self.items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Listing):
            return NotImplemented
        return self.kind is other.kind and self.page() == other.page()

    def __hash__(self) -> int:
        return hash((self.kind, self.page()))

    def __repr__(self) -> str:
        return f"Listing({self.kind.value}, {len(self.items)} entries)"


class Catalog(msgspec.Struct, frozen=True):
    """What one server has listed so far. A kind that is missing has never been listed."""

    lists: Mapping[Kind, Listing] = {}

    def get(self, kind: Kind) -> Listing | None:
        """Return a list, ``None`` where the server has not been asked for it."""
        return self.lists.get(kind)

    def replaced(self, kind: Kind, listing: Listing) -> Catalog:
        """Return this catalog with one list exchanged."""
        return Catalog({**self.lists, kind: listing})

    def tool(self, name: str) -> Item | None:
        """Return a tool by the name its server gave it."""
        listing = self.lists.get(Kind.TOOLS)
        return None if listing is None else listing.get(name)

    def to_cache(self) -> bytes:
        """Write the catalog for the disk: the pages as served, so that nothing is lost."""
        pages = {kind.value: listing.page().decode() for kind, listing in self.lists.items()}
        return msgspec.json.encode(_Cached(version=_CACHE_VERSION, pages=pages))

    @classmethod
    def from_cache(cls, data: bytes) -> Catalog | None:
        """Read what ``to_cache`` wrote; ``None`` for anything else, whatever it is."""
        try:
            cached = _decode_cached(data)
            if cached.version != _CACHE_VERSION:
                return None
            pages = [parse_page(_KINDS[name], page.encode()) for name, page in cached.pages.items()]
        except (ValueError, KeyError, RecursionError, ListError):
            return None
        return cls({page.kind: merge_pages([page]) for page in pages})


class _Cached(msgspec.Struct):
    version: int
    pages: dict[str, str]


_CACHE_VERSION: Final = 1
_KINDS: Final = {kind.value: kind for kind in Kind}
_decode_cached: Final = msgspec.json.Decoder(_Cached).decode


class _Page(msgspec.Struct, gc=False):
    tools: Bytes = UNSET
    prompts: Bytes = UNSET
    resources: Bytes = UNSET
    resourceTemplates: Bytes = UNSET
    nextCursor: Bytes = UNSET


class _Identity(msgspec.Struct, gc=False):
    name: Bytes = UNSET
    uri: Bytes = UNSET
    uriTemplate: Bytes = UNSET


_decode_page: Final = msgspec.json.Decoder(_Page).decode
_decode_identity: Final = msgspec.json.Decoder(_Identity).decode

# Named members and the first elements alone: what else there is, is skipped without an object for
# each. A server may send 10 million of them in one line.
_decode_first: Final = msgspec.json.Decoder(
    msgspec.defstruct(
        "_First",
        [(f"entry_{number}", Bytes, UNSET) for number in range(MOST_ENTRIES + 1)],
        array_like=True,
        gc=False,
    )
).decode


def parse_page(kind: Kind, result: Raw | bytes) -> Page:
    """Read one answer to a list request.

    Raises:
        ListError: the server's fault; the result holds no list of this kind.
    """
    whole = bytes(result)
    members = _members(whole, _decode_page) if _is_text(whole) else None
    if members is None:
        raise ListError(f"the result of {kind.method} is not an object")
    if kind.key not in members:
        raise ListError(f"the result of {kind.method} has no {kind.key!r}")
    raws = _split(kind, members[kind.key])
    items = tuple(item for raw in raws if (item := _item(kind, raw)) is not None)
    cursor = members.get("nextCursor")
    next_cursor = None if cursor is None else text(cursor)
    dropped = len(raws) - len(items)
    can_serve = next_cursor is None and not dropped
    return Page(kind, items, next_cursor, whole if can_serve else None, dropped, len(whole))


def _members(data: bytes, decode: Callable[[bytes], msgspec.Struct]) -> Mapping[str, Raw] | None:
    """Return those members of an object that ``decode`` looks for, ``None`` for anything else."""
    try:
        found = decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return object_of(data) if data.lstrip()[:1] == b"{" else None
    named = ((name, getattr(found, name)) for name in found.__struct_fields__)
    return {name: raw for name, raw in named if raw is not UNSET}


def _is_text(data: bytes) -> bool:
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False


def _split(kind: Kind, array: Raw) -> list[bytes]:
    """Return the entries of a list as they came, one more than may be taken at most."""
    try:
        found = msgspec.structs.astuple(_decode_first(array))
        return [bytes(raw) for raw in found[: _count(found)]]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return elements(bytes(array))[: MOST_ENTRIES + 1]
    except ValueError:
        raise ListError(f"{kind.key!r} in the result of {kind.method} is not an array") from None


def _count(found: tuple[Bytes, ...]) -> int:
    try:
        return found.index(UNSET)
    except ValueError:
        return len(found)


def _item(kind: Kind, raw: bytes) -> Item | None:
    if len(raw) > MOST_ENTRY_BYTES:
        return None
    value = (_members(raw, _decode_identity) or {}).get(kind.identity)
    identity = None if value is None else text(value)
    return None if identity is None else Item(identity, raw)


def merge_pages(pages: Iterable[Page]) -> Listing:
    """Make one list of a server's pages, in its order.

    An entry that another page has brought already is left out: a cursor that does not advance
    repeats them. A single page is served as it came.

    Args:
        pages: at least one, all of one kind.
    """
    pages = list(pages)
    if len(pages) == 1:
        return Listing(pages[0].kind, pages[0].items, pages[0].whole)
    seen: set[str] = set()
    items: list[Item] = []
    for page in pages:
        items.extend(item for item in page.items if item.identity not in seen)
        seen.update(item.identity for item in page.items)
    return Listing(pages[0].kind, items)


def list_result(kind: Kind, raws: Iterable[bytes]) -> bytes:
    """Write the result of a list request from entries that are JSON already."""
    return b"".join((b"{", quote(kind.key), b":[", b",".join(raws), b"]}"))
