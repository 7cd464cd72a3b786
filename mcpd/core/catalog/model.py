"""The lists of a server: kinds of entries, entries, pages and whole lists.

Everything is immutable and keeps the server's own bytes. A list takes three forms::

    page = parse_page(Kind.TOOLS, result)      # the result of one request
    listing = merge_pages([page, …])           # all pages, in the server's order
    catalog = catalog.replaced(Kind.TOOLS, listing)

``Listing.page()`` is the result of a client's list request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from mcpd.core.wire.envelope import LARGE_BYTES, Bytes, object_of, quote, text
from mcpd.core.wire.splice import elements
from mcpd.errors import McpdError

MOST_ENTRIES: Final = 10_000
"""The most entries of a list, over all pages. The rest is left out."""

MOST_ENTRY_BYTES: Final = 16 * 1024 * 1024
"""The longest entry. A longer one is left out."""


class Kind(Enum):
    """One of the four lists of a server; the value is its name for users."""

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
    """The method of the list request."""
    key: str
    """The member of the result that holds the entries."""
    identity: str
    """The member of an entry that identifies it."""
    capability: str
    """The server capability without which the list is not requested."""
    notification: str
    """The notification of a change; resources and templates share one."""

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
    """The result of a list request is malformed; the previous list is kept."""

    slug = "invalid_message"


class Item(msgspec.Struct, frozen=True, gc=False):
    """One tool, prompt, resource or template.

    ``identity`` is its name, uri or uriTemplate; ``raw`` is the entry as the server sent it. Other
    members are decoded on demand, because most entries are only passed on. A member of the wrong
    type counts as absent.
    """

    identity: str
    raw: bytes

    def member(self, name: str) -> bytes | None:
        """Return the bytes of a top-level member, or ``None``."""
        value = (object_of(self.raw) or {}).get(name)
        return None if value is None else bytes(value)

    def input_schema(self) -> bytes | None:
        """Return the schema of a tool's arguments, which may be any JSON value."""
        return self.member("inputSchema")

    @property
    def read_only(self) -> bool:
        """Whether the tool declares that it changes nothing (``readOnlyHint``)."""
        return self._hint("readOnlyHint")

    @property
    def idempotent(self) -> bool:
        """Whether the tool declares that repeating a call has no effect (``idempotentHint``)."""
        return self._hint("idempotentHint")

    def _hint(self, name: str) -> bool:
        annotations = (object_of(self.raw) or {}).get("annotations")
        hints = object_of(annotations) if annotations is not None else None
        return hints is not None and hints.get(name) == Raw(b"true")


class Page(msgspec.Struct, frozen=True):
    """The result of one list request.

    ``whole`` is the result itself if it can be served unchanged: it has no cursor, and no entry was
    left out. ``items`` has at most one entry more than ``MOST_ENTRIES``, which shows the excess.
    ``dropped`` counts the entries that are no object, have no identity or are too long: one bad
    entry must not hide the others. An empty ``next_cursor`` is a valid cursor.
    """

    kind: Kind
    items: tuple[Item, ...]
    next_cursor: str | None
    whole: bytes | None
    dropped: int
    size_bytes: int


class Listing:
    """One whole list of a server. Two are equal if their pages have the same bytes."""

    def __init__(self, kind: Kind, items: Iterable[Item], whole: bytes | None = None) -> None:
        """``whole`` is the server's result with exactly these entries, if there is one."""
        self.kind: Final = kind
        self.items: Final = tuple(items)
        self._page = whole
        self._index: Mapping[str, Item] | None = None  # made at the first look-up

    @classmethod
    def empty(cls, kind: Kind) -> Listing:
        """Return a list without entries."""
        return cls(kind, ())

    def page(self) -> bytes:
        """Return the result of a list request.

        It has the server's own bytes if the server sent a single page and no entry was left out;
        otherwise it is a new result with the server's entries.
        """
        if self._page is None:
            self._page = list_result(self.kind, (item.raw for item in self.items))
        return self._page

    def get(self, identity: str) -> Item | None:
        """Return the first entry with this name or URI, or ``None``."""
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
    """The lists of one server. A missing kind has not been listed yet."""

    lists: Mapping[Kind, Listing] = {}

    def get(self, kind: Kind) -> Listing | None:
        """Return a list, or ``None`` if it has not been listed yet."""
        return self.lists.get(kind)

    def replaced(self, kind: Kind, listing: Listing) -> Catalog:
        """Return this catalog with one list replaced."""
        return Catalog({**self.lists, kind: listing})

    def tool(self, name: str) -> Item | None:
        """Return a tool by the name its server gave it."""
        listing = self.lists.get(Kind.TOOLS)
        return None if listing is None else listing.get(name)

    def to_cache(self) -> bytes:
        """Return the catalog for the cache on disk: its pages, with their own bytes."""
        pages = {kind.value: listing.page().decode() for kind, listing in self.lists.items()}
        return msgspec.json.encode(_Cached(version=_CACHE_VERSION, pages=pages))

    @classmethod
    def from_cache(cls, data: bytes) -> Catalog | None:
        """Return the catalog that ``to_cache`` wrote, or ``None`` for any other data."""
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


class _Identity(msgspec.Struct, gc=False):
    name: Bytes = UNSET
    uri: Bytes = UNSET
    uriTemplate: Bytes = UNSET


_decode_identity: Final = msgspec.json.Decoder(_Identity).decode


def _page_of(kind: Kind, entries: Any) -> Callable[[bytes], msgspec.Struct]:
    """Return a decoder for a page whose entries are of a type."""
    fields: list[Any] = [("entries", entries), ("cursor", Bytes, UNSET)]
    names = {"entries": kind.key, "cursor": "nextCursor"}
    return msgspec.json.Decoder(msgspec.defstruct("_Page", fields, rename=names, gc=False)).decode


_SHORT: Final = {kind: _page_of(kind, list[Raw]) for kind in Kind}


@cache
def _first() -> type[msgspec.Struct]:
    """Return a type that makes objects of the first entries of a list, and skips the rest.

    A server may send millions of them in one line. Made when it is needed: it takes 35 ms.
    """
    entries = [(f"entry_{number}", Bytes, UNSET) for number in range(MOST_ENTRIES + 1)]
    return msgspec.defstruct("_First", entries, array_like=True, gc=False)


@cache
def _long(kind: Kind) -> Callable[[bytes], msgspec.Struct]:
    return _page_of(kind, _first())


def parse_page(kind: Kind, result: Raw | bytes) -> Page:
    """Decode the result of one list request.

    Raises:
        ListError: the result has no list of this kind.
    """
    whole = bytes(result)
    raws, cursor = _entries(kind, whole)
    items = tuple(item for raw in raws if (item := _item(kind, raw)) is not None)
    next_cursor = None if cursor is UNSET else text(cursor)
    dropped = len(raws) - len(items)
    can_serve = next_cursor is None and not dropped
    return Page(kind, items, next_cursor, whole if can_serve else None, dropped, len(whole))


def _entries(kind: Kind, result: bytes) -> tuple[list[bytes], Bytes]:
    """Return the first ``MOST_ENTRIES + 1`` entries of a list as they came, and its cursor."""
    if not _is_text(result):
        raise ListError(f"the result of {kind.method} is not an object")
    try:
        if len(result) <= LARGE_BYTES:
            entries, cursor = msgspec.structs.astuple(_SHORT[kind](result))
            return [bytes(raw) for raw in entries[: MOST_ENTRIES + 1]], cursor
        first, cursor = msgspec.structs.astuple(_long(kind)(result))
        return [bytes(raw) for raw in msgspec.structs.astuple(first) if raw is not UNSET], cursor
    except (msgspec.MsgspecError, RecursionError):
        pass  # it has lone surrogates, or is no list
    members = object_of(result) if result.lstrip()[:1] == b"{" else None
    if members is None:
        raise ListError(f"the result of {kind.method} is not an object")
    if kind.key not in members:
        raise ListError(f"the result of {kind.method} has no {kind.key!r}")
    return _split(kind, members[kind.key]), members.get("nextCursor", UNSET)


def _members(data: bytes, decode: Callable[[bytes], msgspec.Struct]) -> Mapping[str, Raw] | None:
    """Return the members of an object that ``decode`` knows; ``None`` if it is no object."""
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
    """Return the first entries of a list with text that the decoder refuses."""
    try:
        return elements(bytes(array), MOST_ENTRIES + 1)
    except ValueError:
        raise ListError(f"{kind.key!r} in the result of {kind.method} is not an array") from None


def _item(kind: Kind, raw: bytes) -> Item | None:
    if len(raw) > MOST_ENTRY_BYTES:
        return None
    value = (_members(raw, _decode_identity) or {}).get(kind.identity)
    identity = None if value is None else text(value)
    return None if identity is None else Item(identity, raw)


def merge_pages(pages: Iterable[Page]) -> Listing:
    """Return one list with the entries of all pages, in order.

    An entry that an earlier page has already is left out: a cursor that does not advance repeats
    entries. A single page is served unchanged.

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
    """Return the result of a list request with entries that are JSON."""
    return b"".join((b"{", quote(kind.key), b":[", b",".join(raws), b"]}"))
