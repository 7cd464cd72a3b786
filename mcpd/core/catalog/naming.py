"""Names of tools and prompts in the aggregate: valid for all model providers, unique and stable.

A qualified name is ``server__name``. Model providers accept ``[A-Za-z0-9_-]{1,64}``, so other
characters become ``_`` and longer names are cut; a name that is then ambiguous gets a hash of the
whole name. Which names get a hash depends on the configured servers and the server's own list, not
on the servers that run.

No two (server, name) share a qualified name:

- Two plain names of different servers can only be equal if one server's ``sanitised__`` is a
  prefix of the other's; then all names of the longer one are hashed.
- Two plain names of one server differ, because equal ones are hashed.
- A plain name cannot equal a hashed one: where that is possible, a plain name that looks hashed is
  hashed too.
- Two hashed names differ in their hashes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

MAX_LENGTH: Final = 64
"""The longest qualified name: the smallest limit of the model providers."""

SEPARATOR: Final = "__"
_HASH_LENGTH: Final = 10  # 40 bits: too many to find two equal ones by listing tools
_KEPT: Final = MAX_LENGTH - _HASH_LENGTH - 1  # of a hashed name, before the hash
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_-]")
_HASHED: Final = re.compile(rf"_[0-9a-f]{{{_HASH_LENGTH}}}\Z")


def sanitise(name: str) -> str:
    """Return the name with ``_`` for each character that a model provider may not accept."""
    return _ILLEGAL.sub("_", name)


def qualify(servers: Iterable[str], server: str, names: Iterable[str]) -> dict[str, str]:
    """Return the qualified name of each of a server's names, in their order.

    Args:
        servers: every configured server, ``server`` and disabled ones included.
        server: the one that lists ``names``.
        names: all that it lists, before any filter, so that a filter renames nothing. A repeated
            name counts once.
    """
    own = sanitise(server) + SEPARATOR
    others = [sanitise(other) + SEPARATOR for other in servers if other != server]
    plain = {name: own + sanitise(name) for name in names}
    if any(own.startswith(other) for other in others):
        return {name: _hashed(server, name, full) for name, full in plain.items()}
    times = Counter(plain.values())
    hashed = {
        name: _hashed(server, name, full)
        for name, full in plain.items()
        if len(full) > MAX_LENGTH or times[full] > 1
    }
    if hashed or any(_may_meet(own, other) for other in others):
        for name, full in plain.items():
            if name not in hashed and _HASHED.search(full):
                hashed[name] = _hashed(server, name, full)
    return {name: hashed.get(name, full) for name, full in plain.items()}


def _hashed(server: str, name: str, full: str) -> str:
    # No configured name has a control character, so the separator is unambiguous.
    whole = f"{server}\0{name}".encode("utf-8", "surrogatepass")
    return f"{full[:_KEPT]}_{sha256(whole).hexdigest()[:_HASH_LENGTH]}"


def _may_meet(own: str, other: str) -> bool:
    """Tell whether a hashed name of the other server may equal a plain one of this server."""
    return other[:_KEPT].startswith(own[:_KEPT]) or own[:_KEPT].startswith(other[:_KEPT])
