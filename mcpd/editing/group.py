"""Members between brackets, separated by commas: how one is added, and how one is removed."""

from __future__ import annotations

import re

import msgspec

from mcpd.editing.edits import Splice


class Comments(msgspec.Struct, frozen=True):
    """How comments are written: what is skipped between tokens, and on the rest of a line."""

    blank: re.Pattern[str]
    tail: re.Pattern[str]


SLASHES = Comments(
    re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL),
    re.compile(r"(?:[ \t]*/\*(?:[^*\n]|\*(?!/))*\*/)*[ \t]*(?://[^\r\n]*)?"),
)
HASHES = Comments(re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*"), re.compile(r"[ \t]*(?:#[^\r\n]*)?"))

_NEWLINE = re.compile(r"\r?\n")
_BLANK_LINES = re.compile(r"(?:[ \t]*\r?\n)*")
_SPACES = re.compile(r"[ \t]*")


class Group(msgspec.Struct, frozen=True):
    """A bracketed value in a text: offsets of its brackets, and of each member, in their order."""

    text: str
    open: int
    close: int
    members: list[tuple[int, int]]
    comments: Comments

    def is_spread(self) -> bool:
        """Return whether the last member, or the closing bracket, begins its line."""
        return begins_line(self.text, self.members[-1][0] if self.members else self.close)

    def added(self, member: str, *, line: str, gap: str, closing: str | None) -> list[Splice]:
        """Add a member as the last one.

        Where members have lines of their own it begins with ``line``, a newline and an indentation;
        else ``gap`` stands before it. In an empty group that becomes spread, ``closing`` is what
        stands before the closing bracket then, else it is ``None``.
        """
        if not self.members:
            return self._first(member, line, gap, closing)
        last = self.members[-1][1]
        comma = self._comma(last)
        base = last if comma is None else comma + 1
        splices = [] if comma is not None else [Splice(last, last, ",")]
        after = "," if comma is not None else ""
        if not self.is_spread():
            return [*splices, Splice(base, base, gap + member + after)]
        end = self._tail(base)
        at = base if end is None else end
        return [*splices, Splice(at, at, line + member + after)]

    def dropped(self, index: int) -> list[Splice]:
        """Remove a member, its comma and the comment behind it on its line."""
        text = self.text
        start, end = self.members[index]
        comma = self._comma(end)
        splices = []
        if comma is None and index > 0:
            before = self._comma(self.members[index - 1][1])
            if before is not None:
                splices.append(Splice(before, before + 1, ""))
        stop = end if comma is None else comma + 1
        tail = self._tail(stop)
        if tail is not None and begins_line(text, start):
            return [*splices, Splice(line_before(text, start), tail, "")]
        if tail is None and stop + len(_spaces(text, stop)) < self.close and comma is not None:
            return [*splices, Splice(start, stop + len(_spaces(text, stop)), "")]
        lead = start
        while lead > self.open + 1 and text[lead - 1] in " \t":
            lead -= 1
        return [*splices, Splice(lead, stop if tail is None else tail, "")]

    def _first(self, member: str, line: str, gap: str, closing: str | None) -> list[Splice]:
        inside = self.text[self.open + 1 : self.close]
        at = self.open + 1
        if "\n" in inside:
            end = self._tail(at)
            at = at if end is None else end
            return [Splice(at, at, line + member)]
        if closing is not None and not inside.strip():
            return [Splice(at, self.close, line + member + closing)]
        return [Splice(at, at, (inside if not inside.strip() else gap) + member)]

    def _comma(self, end: int) -> int | None:
        """Return the offset of the comma behind a member that ends at ``end``."""
        found = self.comments.blank.match(self.text, end)
        assert found is not None  # the pattern matches the empty string too
        return found.end() if self.text.startswith(",", found.end()) else None

    def _tail(self, at: int) -> int | None:
        """Return where the line ends, or ``None`` if more than a comment stands on its rest."""
        found = self.comments.tail.match(self.text, at)
        assert found is not None  # the pattern matches the empty string too
        return (
            found.end()
            if self.text[found.end() : found.end() + 2].startswith(("\n", "\r\n"))
            else None
        )


def begins_line(text: str, at: int) -> bool:
    """Return whether only blanks stand before ``at`` on its line."""
    return not text[text.rfind("\n", 0, at) + 1 : at].strip(" \t")


def indentation(text: str, at: int) -> str:
    """Return the blanks with which the line of ``at`` begins."""
    return _spaces(text, text.rfind("\n", 0, at) + 1)


def newline(text: str) -> str:
    """Return how lines end in a text, judged by the first one."""
    found = _NEWLINE.search(text)
    return found[0] if found else "\n"


def line_before(text: str, at: int) -> int:
    """Return the offset of the newline before the line of ``at``."""
    end = text.rfind("\n", 0, at)
    return end - 1 if text.startswith("\r", max(end - 1, 0)) and end > 0 else max(end, 0)


def lines_before(text: str, at: int) -> int:
    """Return the offset of the newline before the line of ``at`` and the blank lines above it."""
    start = line_before(text, at)
    while start > 0:
        above = line_before(text, start)
        if text[above:start].strip():
            break
        start = above
    return start


def line_after(text: str, at: int) -> int:
    """Return where the line that follows the line of ``at`` begins, blank lines not counted."""
    newline = text.find("\n", at)
    if newline < 0:
        return len(text)
    found = _BLANK_LINES.match(text, newline + 1)
    assert found is not None  # the pattern matches the empty string too
    return found.end()


def _spaces(text: str, at: int) -> str:
    found = _SPACES.match(text, at)
    assert found is not None  # the pattern matches the empty string too
    return found[0]
