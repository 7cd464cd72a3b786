"""Comments that stand around a table because a member that they stood before was removed."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"^[ \t]*(#[^\r\n]*)", re.MULTILINE)
_BLANK = r"(?:[ \t]*\r?\n)"


def grown(text: str, start: int, end: int, source: str) -> tuple[int, int]:
    """Return a span of whole lines, with the comments around it that ``source`` brings back.

    ``source`` was the text of the span once. A member that was removed since, the first or the last
    one, has left the comments between it and the others, which are outside the span now.
    """
    missing = _COMMENT.findall(source)
    for comment in _COMMENT.findall(text, start, end):
        if comment in missing:
            missing.remove(comment)
    rest = []
    for comment in missing:
        line = re.compile(rf"[ \t]*{_BLANK}+[ \t]*{re.escape(comment)}(?=\r?\n|\Z)")
        found = line.match(text, end)
        if found:
            end = found.end()
        else:
            rest.append(comment)
    for comment in reversed(rest):
        lines = re.compile(rf"^[ \t]*{re.escape(comment)}\r?\n{_BLANK}*\Z", re.MULTILINE)
        found = lines.search(text[:start])
        if found:
            start = found.start()
    return start, end
