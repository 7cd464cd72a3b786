"""The lists that the client has read, to notify it if a new daemon has others."""

from __future__ import annotations

import re
from binascii import crc32

from mcpd.bridge import scan

LISTS = {
    b"tools/list": "tools",
    b"prompts/list": "prompts",
    b"resources/list": "resources",
    b"resources/templates/list": "resources",
}
"""List methods, and the names that ``list_changed`` notifications use."""

HEAD_BYTES = 4096
_RESULT = rb'"(result|error)"\s*:'  # not compiled at start-up: few sessions need these
_TTL = rb'"ttlMs"\s*:\s*[0-9.eE+-]+'
"""Differs from response to response although the list is the same."""

Digest = tuple[int, int]


class Lists:
    """The last request of the client for each list, and a digest of the result."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[bytes, Digest]] = {}

    def record(self, method: bytes, request: list[bytes], answer: list[bytes]) -> None:
        """Remember the request and the result of a list's first page."""
        if "cursor" in scan.params(request):
            return
        digest = _digest(answer)
        if digest is not None:
            self._known[method] = b"".join(request), digest

    def requests(self) -> list[tuple[bytes, bytes]]:
        """Return methods and requests that show whether a list has changed."""
        return [(method, request) for method, (request, _) in self._known.items()]

    def has_changed(self, method: bytes, answer: list[bytes]) -> bool:
        """Return whether the result differs from the last; ``False`` for an error."""
        digest = _digest(answer)
        if digest is None or method not in self._known:
            return False
        request, before = self._known[method]
        self._known[method] = request, digest
        return digest != before


def _digest(answer: list[bytes]) -> Digest | None:
    """Return a digest of a result, independent of the id; ``None`` for an error."""
    found = re.search(_RESULT, answer[0][:HEAD_BYTES])
    if found is None or found[1] == b"error":
        return None
    result = re.sub(_TTL, b"", b"".join(answer)[found.end() :])
    return crc32(result), len(result)
