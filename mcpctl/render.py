"""Text for people: tables that fit, sizes and durations, and escaping for terminals."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Sequence
from typing import IO, Any

RESET = "\x1b[0m"
COLOURS = {"green": "\x1b[32m", "yellow": "\x1b[33m", "red": "\x1b[31m", "dim": "\x1b[2m"}
GAP = "  "
MIN_COLUMN = 16
SIZE_STEP = 1024
INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of characters that control a terminal or reorder, hide or break text."""

JOINERS = "\u200c\u200d"
"""Characters of these categories that Persian, Hindi and emoji need."""

CONTINUED = "    "
"""Indent of each further line of text that a server wrote."""

BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""Line breaks that JSON allows unescaped in a string, and their escapes."""

Cell = str | tuple[str, str]
"""A text, or a text and the name of its colour."""


def is_terminal(stream: IO[str]) -> bool:
    """Return whether ``stream`` is a terminal."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def has_colour(stream: IO[str]) -> bool:
    """Return whether to use colours: on a terminal, unless the environment forbids it."""
    return (
        is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def width_of(stream: IO[str]) -> int | None:
    """Return the width of ``stream`` in columns, ``None`` if it is not limited."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    if not is_terminal(stream):
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:
        return None


def escaped(text: str) -> str:
    """Return ``text`` with control characters escaped, except line ends and tabs.

    A server must not move the cursor, retitle the window or paint over what stands there.
    """
    if text.isprintable():
        return text
    return "".join(_spelled(c) for c in text.replace("\r\n", "\n"))


def revealed(text: str) -> str:
    """Return ``text`` with each character that cannot be seen as ``⟨U+200B⟩``, also in a pipe.

    For what must be read before it is agreed to. Line ends and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"⟨U+{ord(c):04X}⟩" if _hides(c) else c for c in text.replace("\r\n", "\n"))


def _hides(c: str) -> bool:
    if c in "\n\t":
        return False
    return unicodedata.category(c) in (*INVISIBLE, "Co", "Cn") or "\ufe00" <= c <= "\ufe0f"


def one_line(text: str) -> str:
    """Return ``text`` as one line, with a space for each line break."""
    return text if text.isprintable() else " ".join(text.splitlines())


def message(lines: Sequence[str], stream: IO[str]) -> str:
    """Return ``lines`` as one text, with the rest of a line that contains a line break indented.

    So no text of a server can look like a line of mcpctl.
    """
    text = "\n".join(
        line if line.isprintable() else f"\n{CONTINUED}".join(line.splitlines()) for line in lines
    )
    return escaped(text) if is_terminal(stream) else text


def duration(seconds: float | None) -> str:
    """Return a duration in its two largest units: ``4 s``, ``3 min 5 s``, ``2 d 4 h``."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    if minutes:
        return f"{minutes} min {whole % 60} s"
    return f"{whole} s"


def size(count: int | None) -> str:
    """Return a number of bytes with a unit."""
    if count is None:
        return "-"
    amount, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):  # noqa: B007  the last one stays
        if amount < SIZE_STEP:
            break
        amount /= SIZE_STEP
    else:
        unit = "TiB"
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"


def moment(stamp: str) -> str:
    """Return a time as local time and how long ago it was: ``14:02:11 (2 min 3 s ago)``."""
    from datetime import UTC, datetime  # few tables have one

    then = datetime.fromisoformat(stamp).astimezone()
    now = datetime.now(UTC).astimezone()
    day = "" if then.date() == now.date() else f"{then:%Y-%m-%d} "
    return f"{day}{then:%H:%M:%S} ({duration(max((now - then).total_seconds(), 0))} ago)"


def era(name: str | None, revision: str | None) -> str:
    """Return era and revision of a server, as far as they are known: ``legacy 2025-11-25``."""
    return " ".join(filter(None, [name, revision])) or "-"


def table(header: Sequence[str], rows: Sequence[Sequence[Cell]], stream: IO[str]) -> str:
    """Return lines of aligned columns that fit ``stream``, by cutting the last column.

    If that is not enough, columns with nothing but 0 and - are left out; lines that are still too
    long stay as they are.
    """
    plain = [[_text(cell, stream) for cell in row] for row in rows]
    widths = [max(map(columns, column)) for column in zip(header, *plain, strict=True)]
    room = width_of(stream)
    if room is not None:
        kept = _that_fit(widths, plain, room)
        header, widths = [header[at] for at in kept], [widths[at] for at in kept]
        rows = [[row[at] for at in kept] for row in rows]
        plain = [[row[at] for at in kept] for row in plain]
        left = room - sum(widths[:-1]) - len(GAP) * (len(widths) - 1)
        widths[-1] = min(widths[-1], max(left, MIN_COLUMN))
    coloured = has_colour(stream)
    lines = [_line(header, widths, [""] * len(header))]
    for row, texts in zip(rows, plain, strict=True):
        colours = [_colour(cell) if coloured else "" for cell in row]
        lines.append(_line(texts, widths, colours))
    return "".join(line + "\n" for line in lines)


def paragraph(text: str, stream: IO[str], indent: str) -> str:
    """Return ``text`` wrapped between words to the width of a terminal.

    Each line begins with ``indent``, those after the first with two blanks more.
    """
    text = one_line(text)
    if is_terminal(stream):
        text = escaped(text)
    room = width_of(stream)
    if room is None or columns(text) + len(indent) <= room:
        return f"{indent}{text}"
    import textwrap

    wrapped = textwrap.wrap(
        text,
        max(room, 2 * MIN_COLUMN),
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(wrapped)


def columns_to_hide(
    header: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    stream: IO[str],
    hideable: Sequence[str],
) -> list[str]:
    """Return the columns of ``hideable`` to leave out so that the others fit whole.

    They are left out in the order of ``hideable``, after the empty ones (see ``table``).
    """
    room = width_of(stream)
    if room is None:
        return []
    left_out: list[str] = []
    plain = [[_text(cell, stream) for cell in row] for row in rows]
    widths = [max(map(columns, column)) for column in zip(header, *plain, strict=True)]
    at_all = [
        at
        for at in range(len(header))
        if at in (0, len(header) - 1) or any(row[at] not in ("", "0", "-") for row in plain)
    ]
    for name in hideable:
        if sum(widths[at] + len(GAP) for at in at_all) - len(GAP) <= room:
            break
        if header.index(name) in at_all:
            at_all.remove(header.index(name))
            left_out.append(name)
    return left_out


def hide_columns(
    header: Sequence[str], rows: Sequence[Sequence[Cell]], names: Sequence[str]
) -> tuple[list[str], list[list[Cell]]]:
    """Return a table without the columns of these names."""
    kept = [at for at, name in enumerate(header) if name not in names]
    return [header[at] for at in kept], [[row[at] for at in kept] for row in rows]


def _that_fit(widths: Sequence[int], rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return the columns to show: the first, the last, and those that fit or are not empty."""
    kept = list(range(len(widths)))
    last = min(widths[-1], MIN_COLUMN)
    for at in reversed(range(1, len(widths) - 1)):
        if sum(widths[each] + len(GAP) for each in kept[:-1]) + last <= room:
            break
        if rows and all(row[at] in ("", "0", "-") for row in rows):
            kept.remove(at)
    return kept


def columns(text: str) -> int:
    """Return how many columns of a terminal ``text`` takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(c) for c in text)


def cut(text: str, room: int) -> str:
    """Return ``text``, cut at its end to ``room`` columns, with an ellipsis."""
    if columns(text) <= room:
        return text
    kept = ""
    for c in text:
        if columns(kept) + _columns(c) >= room:
            break
        kept += c
    return kept + "…"


def cut_head(text: str, room: int) -> str:
    """Return ``text``, cut at its beginning to ``room`` columns, with an ellipsis."""
    return cut(text[::-1], room)[::-1]


def document(value: Any, text: str | None, stream: IO[str]) -> str:
    """Return a JSON document: indented on a terminal, else on one line.

    ``text`` is ``value`` as its sender wrote it, which is printed to pipes and files.
    """
    if is_terminal(stream):
        text = json.dumps(value, indent=2)
    elif text is None:
        text = json.dumps(value)
    return text + "\n"


def indented_json(value: Any) -> str:
    """Return a JSON value over several lines, with no line break within a string."""
    return json.dumps(value, indent=2, ensure_ascii=False).translate(BREAKS)


class StatusLine:
    """A line on a terminal that shows progress and is overwritten by the output."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self.is_on = is_terminal(stream) and os.environ.get("TERM") != "dumb"
        self._is_shown = False

    def show(self, text: str) -> None:
        """Replace the line."""
        if self.is_on:
            room = (width_of(self._stream) or 80) - 1
            self._stream.write(f"\r\x1b[K{cut(escaped(one_line(text)), room)}")
            self._stream.flush()
            self._is_shown = True

    def clear(self) -> None:
        """Remove the line."""
        if self._is_shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._is_shown = False


def _spelled(c: str) -> str:
    if c in "\n\t" or c in JOINERS or unicodedata.category(c) not in INVISIBLE:
        return c
    if ord(c) < 0x100:
        return f"\\x{ord(c):02x}"
    return f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"


def _columns(c: str) -> int:
    if unicodedata.combining(c):
        return 0
    return 2 if unicodedata.east_asian_width(c) in "WF" else 1


def _text(cell: Cell, stream: IO[str]) -> str:
    text = one_line(cell if isinstance(cell, str) else cell[0]).replace("\t", " ")
    return escaped(text) if is_terminal(stream) else text


def _colour(cell: Cell) -> str:
    return "" if isinstance(cell, str) else COLOURS[cell[1]]


def _line(texts: Sequence[str], widths: Sequence[int], colours: Sequence[str]) -> str:
    cells = []
    for at, (text, width, colour) in enumerate(zip(texts, widths, colours, strict=True)):
        shown = cut(text, width)
        padding = "" if at == len(texts) - 1 else " " * (width - columns(shown))
        cells.append((f"{colour}{shown}{RESET}" if colour else shown) + padding)
    return GAP.join(cells).rstrip()
