"""Changes of files, as the kernel tells them."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd.config.files import watch
from mcpd.config.files.inotify import Inotify
from mcpd.config.files.watch import FileWatch
from tests.support.waiting import wait_until_async

DELAY = 0.02


class Watched:
    """A file that is watched, and how often it was said to have changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / "conf" / "mcpd" / "config.toml"
        self.changes = 0
        self.watch: FileWatch | None = None

    def begin(self, *files: Path) -> None:
        self.watch = FileWatch(
            [str(file) for file in files or (self.file,)], self._count, delay=DELAY
        )

    def _count(self) -> None:
        self.changes += 1

    def write(self, text: str) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(text)
        self.file.chmod(0o644)

    def replace(self, text: str) -> None:
        new = self.file.with_name("new~")
        new.write_text(text)
        new.chmod(0o644)
        new.replace(self.file)

    async def told(self, times: int) -> None:
        """Wait until so many changes were told, and until no event is left to be looked at."""
        await wait_until_async(
            lambda: self.changes >= times, what=lambda: f"{self.changes} changes"
        )
        await self.quiet()
        assert self.changes == times

    async def quiet(self) -> None:
        made = self.watch
        assert made is not None
        await asyncio.sleep(0)  # lets the loop see what the kernel has ready
        await asyncio.sleep(0)
        await wait_until_async(lambda: made._timer is None or made.is_polling, what="quiet")


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    if made.watch is not None:
        made.watch.close()


async def test_a_write_in_place_is_told_once(watched: Watched) -> None:
    watched.write("1")
    watched.begin()
    watched.write("2")
    await watched.told(1)
    watched.write("3")
    await watched.told(2)


async def test_an_atomic_replacement_is_told_again_and_again(watched: Watched) -> None:
    """
    Editors write beside the file and rename: every time it is another inode.
    """
    watched.write("1")
    watched.begin()
    for number in range(1, 4):
        watched.replace(f"new {number}")
        await watched.told(number)


async def test_the_same_content_is_no_change(watched: Watched) -> None:
    watched.write("1")
    watched.begin()
    watched.replace("1")
    watched.write("1")
    os.utime(watched.file)
    await asyncio.sleep(DELAY)
    await watched.quiet()
    assert watched.changes == 0


async def test_a_storm_of_touches_and_renames_is_at_most_one_change(watched: Watched) -> None:
    """
    B109: a watcher that fires for each re-initialises everything. A file that is moved away and
    back was never gone.
    """
    watched.write("1")
    watched.begin()
    aside = watched.file.with_name("aside")
    for number in range(50):
        if number % 2:
            watched.file.rename(aside)
            await asyncio.sleep(DELAY * 1.5 if number % 10 == 1 else 0.001)
            aside.rename(watched.file)
        else:
            watched.file.touch()
            await asyncio.sleep(0.001)
    await asyncio.sleep(DELAY)
    await watched.quiet()
    assert watched.changes == 0
    watched.write("2")
    await watched.told(1)


async def test_a_file_that_is_gone_for_good_is_a_change(watched: Watched) -> None:
    watched.write("1")
    watched.begin()
    watched.file.unlink()
    await watched.told(1)
    watched.write("1")
    await watched.told(2)


async def test_a_file_whose_directory_is_made_later_is_noticed(watched: Watched) -> None:
    watched.begin()
    watched.file.parent.parent.mkdir()
    await asyncio.sleep(DELAY * 2)
    watched.file.parent.mkdir()
    await asyncio.sleep(DELAY * 2)
    assert watched.changes == 0
    watched.write("1")
    await watched.told(1)


async def test_a_directory_that_comes_with_the_file_in_it_is_noticed(watched: Watched) -> None:
    """
    Between the directory's event and our look at it the file is there already.
    """
    watched.begin()
    watched.write("1")
    await watched.told(1)


async def test_a_directory_that_is_moved_away_takes_the_file_with_it(watched: Watched) -> None:
    watched.write("1")
    watched.begin()
    conf = watched.root / "conf"
    conf.rename(watched.root / "old")
    await watched.told(1)
    shutil.copytree(watched.root / "old", conf)
    await watched.told(2)
    watched.write("2")
    await watched.told(3)


async def test_a_link_is_followed_to_its_target(watched: Watched) -> None:
    target = watched.root / "dotfiles" / "config.toml"
    target.parent.mkdir()
    target.write_text("1")
    watched.file.parent.mkdir(parents=True)
    watched.file.symlink_to(Path("../../dotfiles/config.toml"))
    watched.begin()
    target.write_text("2")
    await watched.told(1)
    other = watched.root / "other.toml"
    other.write_text("3")
    os.replace(watched.root / "other.toml", target)
    await watched.told(2)
    (watched.root / "third.toml").write_text("4")
    watched.file.unlink()
    watched.file.symlink_to(watched.root / "third.toml")
    await watched.told(3)
    (watched.root / "third.toml").write_text("5")
    await watched.told(4)


async def test_a_directory_on_the_way_may_be_a_link_that_is_turned(watched: Watched) -> None:
    """
    As Kubernetes and stow do: the file never changes, the way to it does.
    """
    for version in ("v1", "v2"):
        (watched.root / version / "mcpd").mkdir(parents=True)
        (watched.root / version / "mcpd" / "config.toml").write_text(version)
    (watched.root / "conf").symlink_to("v1")
    watched.begin()
    (watched.root / "next").symlink_to("v2")
    (watched.root / "next").replace(watched.root / "conf")
    await watched.told(1)
    (watched.root / "v2" / "mcpd" / "config.toml").write_text("v3")
    await watched.told(2)
    (watched.root / "v1" / "mcpd" / "config.toml").write_text("nobody looks")
    await asyncio.sleep(DELAY)
    await watched.quiet()
    assert watched.changes == 2


async def test_a_link_to_itself_is_endured(watched: Watched) -> None:
    watched.file.parent.mkdir(parents=True)
    watched.file.symlink_to(watched.file.name)
    watched.begin()
    watched.file.unlink()
    watched.write("1")
    await watched.told(1)


async def test_a_mode_that_is_mended_is_a_change(watched: Watched) -> None:
    """
    A refused file says which chmod to type; having typed it must be enough.
    """
    watched.write("1")
    watched.file.chmod(0o666)
    watched.begin()
    watched.file.chmod(0o644)
    await watched.told(1)


async def test_several_files_in_one_directory_are_watched(watched: Watched) -> None:
    watched.write("1")
    beside = watched.file.with_name("mcp.json")
    watched.begin(beside, watched.file)
    beside.write_text("{}")
    await watched.told(1)
    watched.replace("2")
    await watched.told(2)


async def test_neighbours_wake_nobody(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A log beside the configuration grows all day. Idle means asleep.
    """
    watched.write("1")
    neighbour = watched.file.with_name("daemon.log")
    neighbour.write_text("")
    reads = []
    real = Inotify.read

    def counted(self: Inotify) -> bool:
        reads.append(1)
        return real(self)

    monkeypatch.setattr(Inotify, "read", counted)
    watched.begin()
    for _ in range(20):
        neighbour.write_text("line\n")
        (watched.root / "elsewhere").write_text("x")
    await asyncio.sleep(DELAY * 3)
    assert reads == []
    assert watched.watch is not None
    assert watched.watch._timer is None


async def test_nothing_is_told_after_the_end(watched: Watched) -> None:
    watched.write("1")
    watched.begin()
    watched.write("2")
    await asyncio.sleep(0)
    assert watched.watch is not None
    watched.watch.close()
    watched.write("3")
    await asyncio.sleep(DELAY * 3)
    assert watched.changes == 0


@pytest.mark.parametrize("why", ["none left", "other system"])
async def test_files_are_looked_at_where_the_system_tells_nothing(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    def refuse(_: Inotify) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    if why == "none left":
        monkeypatch.setattr(Inotify, "__init__", refuse)
    else:
        monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(watch, "POLL_INTERVAL", 0.01)
    watched.write("1")
    watched.begin()
    assert watched.watch is not None
    assert watched.watch.is_polling
    watched.replace("2")
    await watched.told(1)
    watched.file.unlink()
    await watched.told(2)


async def test_a_private_file_has_changed_when_others_can_read_it_no_more(watched: Watched) -> None:
    """
    It was refused: typing the chmod that the error names must be enough.
    """
    watched.write("A=1")
    file = str(watched.file)
    watched.watch = FileWatch([], watched._count, private=[file], delay=DELAY)
    watched.file.chmod(0o600)
    await watched.told(1)
    watched.file.chmod(0o400)
    await watched.quiet()
    assert watched.changes == 1
    watched.file.chmod(0o640)
    await watched.told(2)
