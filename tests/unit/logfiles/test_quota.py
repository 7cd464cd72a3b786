from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcpd.logfiles import quota
from mcpd.logfiles.quota import BLOCK_BYTES, LogQuota, Removed, make_room
from tests.support.waiting import wait_until_async


def put(state: Path, name: str, blocks: int, age: int = 0) -> Path:
    """Make a file of so many blocks, which was changed ``age`` seconds ago."""
    path = state / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x" * (blocks * BLOCK_BYTES))
    os.utime(path, (10_000 - age, 10_000 - age))
    return path


def names(state: Path) -> set[str]:
    return {str(p.relative_to(state)) for p in state.rglob("*") if p.is_file()}


def room(state: Path, blocks: int, *known: str) -> Removed:
    return make_room(str(state), blocks * BLOCK_BYTES, frozenset(known))


def test_what_fits_is_left_alone(tmp_path: Path):
    put(tmp_path, "logs/a.log", 2)
    put(tmp_path, "logs/gone.log.1", 2)
    assert room(tmp_path, 4, "a.log") == Removed(0, 0)
    assert len(names(tmp_path)) == 2


def test_logs_of_servers_that_are_gone_go_first_and_the_oldest_of_them(tmp_path: Path):
    """
    B144: ad-hoc servers and renamed ones leave logs that nobody would ever rotate again.
    """
    put(tmp_path, "logs/a.log", 1)
    put(tmp_path, "logs/a.log.1", 8, age=9000)
    put(tmp_path, "logs/gone.log", 1, age=10)
    put(tmp_path, "logs/gone.log.2", 1, age=30)
    put(tmp_path, "logs/long%2Fgone.log", 1, age=20)
    assert room(tmp_path, 10, "a.log") == Removed(2, 2 * BLOCK_BYTES)
    assert names(tmp_path) == {"logs/a.log", "logs/a.log.1", "logs/gone.log"}


def test_a_flooded_log_costs_the_others_nothing(tmp_path: Path):
    """
    B144: the oldest of all would be the few old lines of a quiet server.
    """
    quiet = [put(tmp_path, f"logs/quiet.log{end}", 1, age=9000) for end in ("", ".1", ".2")]
    for number in range(1, 5):
        put(tmp_path, f"logs/loud.log.{number}", 4)
    put(tmp_path, "logs/loud.log", 4)
    put(tmp_path, "mcpd.log", 1)
    put(tmp_path, "mcpd.log.1", 1)
    assert room(tmp_path, 13, "quiet.log", "loud.log").files == 3
    assert all(path.exists() for path in quiet)
    assert names(tmp_path) >= {"logs/loud.log", "logs/loud.log.1", "mcpd.log", "mcpd.log.1"}
    assert room(tmp_path, 6, "quiet.log", "loud.log").files == 4
    assert names(tmp_path) == {"logs/quiet.log", "mcpd.log", "logs/loud.log"}
    assert room(tmp_path, 2, "quiet.log", "loud.log").files == 1
    assert names(tmp_path) == {"logs/quiet.log", "mcpd.log"}


def test_a_thousand_empty_files_take_room_too(tmp_path: Path):
    for number in range(20):
        put(tmp_path, f"logs/gone{number}.log", 0)
    assert room(tmp_path, 5).files == 15


def test_what_is_no_log_of_ours_is_nobodys_to_remove(tmp_path: Path):
    """
    ``MCPD_STATE_DIR`` may be a directory where other things are, too.
    """
    theirs = {
        "logs/notes.txt",
        "other.log",
        "logs/odd name.log",
        "catalog/a.json",
        "logs/a.log.old",
    }
    for name in theirs:
        put(tmp_path, name, 9)
    (tmp_path / "target").write_bytes(b"x" * 9 * BLOCK_BYTES)
    (tmp_path / "logs" / "a.log").symlink_to(tmp_path / "target")
    assert room(tmp_path, 0) == Removed(0, 0)
    assert theirs <= names(tmp_path)


def test_a_directory_that_cannot_be_read_is_no_trouble(tmp_path: Path):
    (tmp_path / "logs").write_text("a file")
    assert room(tmp_path, 0) == Removed(0, 0)
    assert room(tmp_path / "logs", 0) == Removed(0, 0)


async def test_sizes_are_checked_after_every_part_of_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    removed: list[Removed] = []
    keeper = LogQuota(str(tmp_path), known=lambda: ["a.log"], on_removed=removed.append)
    checks = 0
    real = quota.make_room

    def make(state: str, most: int, known: frozenset[str]) -> Removed:
        nonlocal checks
        checks += 1
        return real(state, most, known)

    monkeypatch.setattr(quota, "make_room", make)
    keeper.grew(1 << 40)
    await keeper.close()
    assert not checks, "there is no bound yet"
    keeper.max_bytes = 32 * BLOCK_BYTES
    keeper.check_soon()
    await keeper.close()
    for _ in range(3):
        keeper.grew(BLOCK_BYTES // 2)
    await wait_until_async(lambda: checks == 2)
    assert not removed
    put(tmp_path, "logs/a.log.1", 32)
    keeper.check_soon()
    keeper.check_soon()
    await keeper.close()
    assert checks == 3
    assert removed == [Removed(1, 32 * BLOCK_BYTES)]
