"""Names of tools and prompts in the aggregate: legal everywhere, one for each, always the same.

A qualified name is ``server__name``. Model providers take ``[A-Za-z0-9_-]{1,64}``, so other
characters become ``_`` and what is longer is cut; whatever could then be mistaken for something
else gets a hash of the whole name. Which names get one depends on the configured servers and
the server's own list, never on what else happens to run.

No two (server, name) share a qualified name:

- Two plain names of different servers could only be equal if one server's ``sanitised__`` began
  the other's; the names of the longer one are all hashed then.
- Two plain names of one server differ, because those that do not are hashed.
- A plain name cannot be a hashed one, because where the two could meet a plain name that looks
  hashed is hashed as well.
- Two hashed names differ in their hashes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

MAX_LENGTH: Final = 64
"""Characters a qualified name may have: the smallest limit of the model providers."""

SEPARATOR: Final = "__"
_HASH_LENGTH: Final = 10  # 40 bits: nobody lists tools enough to find two alike by trying
_KEPT: Final = MAX_LENGTH - _HASH_LENGTH - 1  # of a hashed name, before the hash
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_-]")
_HASHED: Final = re.compile(rf"_[0-9a-f]{{{_HASH_LENGTH}}}\Z")


def sanitise(name: str) -> str:
    """Return the name with every character that is not legal everywhere as ``_``."""
    return _ILLEGAL.sub("_", name)


def qualify(servers: Iterable[str], server: str, names: Iterable[str]) -> dict[str, str]:
    """Return the qualified name of each of a server's names, in their order.

    Args:
        servers: every configured server, ``server`` and disabled ones included.
        server: the one that lists ``names``.
        names: all it lists, before any filter, so that a filter does not rename the rest. One
            that is there twice counts once.
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
    # No configured name has a control character, so the two parts cannot be cut elsewhere.
    whole = f"{server}\0{name}".encode("utf-8", "surrogatepass")
    return f"{full[:_KEPT]}_{sha256(whole).hexdigest()[:_HASH_LENGTH]}"


def _may_meet(own: str, other: str) -> bool:
    """Tell whether a hashed name of the other server may begin like a plain one of this."""
    return other[:_KEPT].startswith(own[:_KEPT]) or own[:_KEPT].startswith(other[:_KEPT])
