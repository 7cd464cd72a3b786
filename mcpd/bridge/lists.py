"""What the client was last told in each list, so that it hears of one that is another now."""

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
"""Methods, with the kind of list that ``list_changed`` names."""

HEAD_BYTES = 4096
_RESULT = re.compile(rb'"(result|error)"\s*:')
_TTL = re.compile(rb'"ttlMs"\s*:\s*[0-9.eE+-]+')
"""Time runs, and the list is the same."""

Digest = tuple[int, int]


class Lists:
    """For each list the request by which the client asked for it last, and what it was told."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[bytes, Digest]] = {}

    def answered(self, method: bytes, request: list[bytes], answer: list[bytes]) -> None:
        """Remember an answer to a request of the client's for the first page of a list."""
        if "cursor" in scan.params(request):
            return
        digest = _digest(answer)
        if digest is not None:
            self._known[method] = b"".join(request), digest

    def requests(self) -> list[tuple[bytes, bytes]]:
        """Return methods and requests by which to see whether something has changed."""
        return [(method, request) for method, (request, _) in self._known.items()]

    def has_changed(self, method: bytes, answer: list[bytes]) -> bool:
        """Tell whether the client was told something else; no result tells nothing."""
        digest = _digest(answer)
        if digest is None or method not in self._known:
            return False
        request, before = self._known[method]
        self._known[method] = request, digest
        return digest != before


def _digest(answer: list[bytes]) -> Digest | None:
    """Return what stands for a result, whatever the id of its request; ``None`` for an error."""
    found = _RESULT.search(answer[0], 0, HEAD_BYTES)
    if found is None or found[1] == b"error":
        return None
    result = _TTL.sub(b"", b"".join(answer)[found.end() :])
    return crc32(result), len(result)
