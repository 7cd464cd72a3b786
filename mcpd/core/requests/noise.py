"""What a process wrote that is no message, to be named in the errors of what waited meanwhile."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from mcpd.core.interface.context import Context
from mcpd.core.requests.process import Process

_KEPT: Final = 8
"""So many of the last lines are kept."""

_LINE_CHARS: Final = 200
"""How much of a line is kept, and of all lines quoted."""

LSP: Final = "Content-Length framing (LSP): MCP over stdio is one JSON message per line"
"""The reason of a line that is a header of another protocol."""

SPREAD: Final = "JSON over several lines: MCP over stdio is one JSON message per line"
"""The reason of a line that is a piece of JSON."""

NO_ID: Final = "an error without an id of ours"
"""The reason of an answer that nobody can be given; its message is quoted."""


class Line(NamedTuple):
    """A line of noise: when it came, in monotonic seconds, and who alone can have caused it.

    ``owner`` is that of the requests in flight, 0 where they are ours or there are none, and
    ``None`` where several owners had some: what it says may be none of the others' business.
    """

    at: float
    reason: str
    text: str
    owner: int | None


class Noise:
    """The last lines of a process that are no messages, to be quoted in errors."""

    def __init__(self, ctx: Context, process: Process) -> None:
        self._ctx = ctx
        self._process = process
        self._lines: deque[Line] = deque(maxlen=_KEPT)

    def clear(self) -> None:
        """Forget the lines: there is another process."""
        self._lines.clear()

    def note(self, reason: str, text: str, owner: int | None) -> None:
        """Keep a line; ``owner`` is that of all requests in flight (see ``Line``)."""
        text = self._process.entry.redactor.mask(text)
        self._lines.append(Line(self._ctx.now, reason, cut(text), owner))

    def since(self, at: float, owner: int) -> str:
        """Return what was written since ``at``, as the end of an error of ``owner``; or nothing."""
        lines = [line for line in self._lines if line.at >= at]
        if not lines:
            return ""
        lines = [line for line in lines if line.reason == NO_ID][-1:] or lines
        reason = lines[0].reason
        what = f"; meanwhile it wrote {reason if reason == NO_ID else f'no message ({reason})'}"
        quoted = [line.text for line in lines if line.owner in (0, owner)]
        return f"{what}: {cut(' '.join(quoted))}" if quoted else what

    def meanwhile(self, at: float, owner: int, sole_owner: int | None) -> str:
        """Return what was written since ``at``, or how a line begins that has not ended.

        ``sole_owner`` is that of all requests in flight: the line may be none of others' business.
        """
        if heard := self.since(at, owner):
            return heard
        begun, size = self._ctx.unfinished(self._process.slot)
        if not size or sole_owner not in (0, owner):
            return ""
        redactor, text = self._process.entry.redactor, begun.decode("utf-8", "replace")
        whole = redactor.mask(text) if len(begun) == size else redactor.mask_cut(text)
        return unfinished(whole, size)


def unfinished(text: str, size: int) -> str:
    """Say how a line begins that has not ended, as the end of an error."""
    return f"; meanwhile it wrote {size} bytes that no newline ends: {cut(text)}"


def cut(text: str) -> str:
    """Return the beginning of a text, on one line."""
    text = " ".join(text[: 4 * _LINE_CHARS].split())
    return text if len(text) <= _LINE_CHARS else text[: _LINE_CHARS - 1] + "…"
