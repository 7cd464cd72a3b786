"""Reads the newest lines of a file and its older parts, in steps between which others run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from mcpd import privatefiles

BLOCK_BYTES: Final = 64 * 1024
"""Bytes that are read in one step."""


class _Part(NamedTuple):
    """A file as it was when it was opened; what is appended later is not read."""

    fd: int
    size: int


def newest_lines(directory: int, names: list[str], count: int, skip: int) -> Iterator[list[bytes]]:
    """Yield the newest ``count`` lines but for the newest ``skip``, the oldest first.

    They come without their newlines, a few milliseconds of work at a time; an empty list is a step
    that has found none yet. ``names`` are those of the parts in a directory, the youngest first.
    They are opened now: it does not matter if they are rotated meanwhile.
    """
    parts: list[_Part] = []
    for name in names:
        with contextlib.suppress(OSError):
            fd = privatefiles.open_file(name, os.O_RDONLY, directory=directory)
            parts.append(_Part(fd, os.fstat(fd).st_size))
    steps = _steps(parts, count, skip)
    next(steps)  # from now on it closes what is open, even if it is read no further
    return steps


def _steps(parts: list[_Part], count: int, skip: int) -> Iterator[list[bytes]]:
    try:
        yield []
        starts: list[tuple[_Part, int]] = []
        found = 0
        for part in parts:
            if found >= count:
                break
            begin = _Beginning(part, count - found)
            for _ in begin.steps():
                yield []
            starts.append((part, begin.at))
            found += begin.lines
        left = found - skip
        for part, start in reversed(starts):
            for lines in _lines_from(part, start):
                if left <= 0:
                    return
                yield lines[:left]
                left -= len(lines)
    finally:
        for part in parts:
            os.close(part.fd)


class _Beginning:
    """Finds where the newest ``most`` lines of a part begin."""

    def __init__(self, part: _Part, most: int) -> None:
        self._part = part
        self._most = most
        self.at = 0
        """The offset of the first of them."""
        self.lines = 0
        """How many there are."""

    def steps(self) -> Iterator[None]:
        """Look at one block in each step, from the end on."""
        end = self._part.size
        if not end:
            return
        has_end = _read(self._part, end - 1, end) == b"\n"
        most = self._most + has_end  # newlines, from the end to that before the first line
        newlines = 0
        while end > 0:
            start = max(0, end - BLOCK_BYTES)
            block = _read(self._part, start, end)
            here = block.count(b"\n")
            if newlines + here >= most:
                after = b"\n".join(block.rsplit(b"\n", most - newlines)[1:])
                self.at = start + len(block) - len(after)
                self.lines = self._most
                return
            newlines += here
            end = start
            yield
        self.lines = newlines + (not has_end)


def _lines_from(part: _Part, at: int) -> Iterator[list[bytes]]:
    """Yield the lines of a part from an offset on."""
    begun: list[bytes] = []
    while at < part.size:
        block = _read(part, at, min(part.size, at + BLOCK_BYTES))
        if not block:
            break  # somebody else has cut it off
        at += len(block)
        first, newline, rest = block.partition(b"\n")
        begun.append(first)
        if not newline:
            yield []
            continue
        *lines, last = rest.split(b"\n")
        yield [b"".join(begun), *lines]
        begun = [last] if last else []
    if begun:
        yield [b"".join(begun)]


def _read(part: _Part, start: int, end: int) -> bytes:
    try:
        return os.pread(part.fd, end - start, start)
    except OSError:
        return b""
