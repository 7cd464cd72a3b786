"""The newest lines of a file and its older parts, read in steps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.logfiles import reading
from mcpd.logfiles.reading import BLOCK_BYTES, newest_lines

LINES = st.lists(st.sampled_from([b"", b"a", b"bb", b"c" * 7, b"d" * 40]), max_size=20)
PARTS = st.lists(st.tuples(LINES, st.booleans()), min_size=1, max_size=3)


def newest(folder: Path, names: list[str], count: int, skip: int = 0) -> Iterator[list[bytes]]:
    directory = os.open(folder, os.O_RDONLY)
    try:
        return newest_lines(directory, names, count, skip)
    finally:
        os.close(directory)


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


@given(PARTS, st.integers(0, 70), st.integers(0, 10), st.integers(1, 50))
def test_they_are_the_newest_whatever_the_parts_hold(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[tuple[list[bytes], bool]],
    count: int,
    skip: int,
    block_bytes: int,
):
    folder = tmp_path_factory.mktemp("logs")
    every: list[bytes] = []
    for number, (lines, is_whole) in enumerate(parts):
        data = b"".join(line + b"\n" for line in lines)
        data = data if is_whole else data[:-1]
        (folder / str(number)).write_bytes(data)
        every = data.removesuffix(b"\n").split(b"\n") + every if data else every
        if data == b"\n":
            every[0] = b""
    names = [str(number) for number in range(len(parts) + 1)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "BLOCK_BYTES", block_bytes)
        found = [line for piece in newest(folder, names, count, skip) for line in piece]
    wanted = every[len(every) - min(count, len(every)) :]
    assert found == wanted[: max(0, len(wanted) - skip)]


def test_a_step_reads_one_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """
    40 MB were read and split at once, and held everybody up.
    """
    (tmp_path / "log").write_bytes(b"a line of noise\n" * 200_000)
    read: list[int] = []
    pread = os.pread
    monkeypatch.setattr(reading.os, "pread", lambda *each: read.append(each[1]) or pread(*each))
    lines = 0
    for piece in newest(tmp_path, ["log"], 10**9):
        assert sum(read) <= BLOCK_BYTES + 1
        read.clear()
        lines += len(piece)
    assert lines == 200_000


def test_what_is_opened_is_read_though_it_is_rotated_and_no_more(tmp_path: Path):
    (tmp_path / "log").write_bytes(b"old\n" * 3)
    steps = newest(tmp_path, ["log", "log.1"], 10)
    (tmp_path / "log").rename(tmp_path / "log.1")
    (tmp_path / "log").write_bytes(b"new\n")
    with (tmp_path / "log.1").open("ab") as file:
        file.write(b"later\n")
    assert [line for piece in steps for line in piece] == [b"old"] * 3


@pytest.mark.parametrize("steps", [0, 1, 10**9])
def test_nothing_stays_open(tmp_path: Path, steps: int):
    (tmp_path / "log").write_bytes(b"line\n" * 100_000)
    before = descriptors()
    found = newest(tmp_path, ["log", "log.1"], 10**6)
    assert descriptors() != before
    for _, _ in zip(range(steps), found, strict=False):
        pass
    del found
    assert descriptors() == before
