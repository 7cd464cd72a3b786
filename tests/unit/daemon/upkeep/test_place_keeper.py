"""The daemon's note of its place: written, kept, removed, beside those of other daemons."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from mcpd import daemon_process, paths
from mcpd.daemon.upkeep import place_keeper
from mcpd.daemon.upkeep.place_keeper import PlaceKeeper
from mcpd.daemon_start import place
from mcpd.daemon_start.place import Place
from mcpd.errors import PathRefused
from tests.support.waiting import wait_until_async


def own(socket: str, pid: int = 1001) -> Place:
    return Place(
        socket=socket,
        state_dir="/state",
        config=None,
        config_home="/config/mcpd",
        pid=pid,
        start_time="1",
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def living(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The sockets whose daemons live."""
    found: set[str] = set()
    monkeypatch.setattr(daemon_process, "is_daemon_of", lambda pid, path: path in found)
    monkeypatch.setattr(daemon_process, "start_time", lambda pid: "1")
    return found


def keeper(own: Place, troubles: list[str] | None = None) -> PlaceKeeper:
    return PlaceKeeper(own, ([] if troubles is None else troubles).append)


def noted() -> list[str]:
    return [each.socket for each in place.read()]


def test_a_note_comes_after_those_of_living_daemons(home: Path, living: set[str]) -> None:
    living |= {"/a", "/b", "/c"}
    first, second, third = (keeper(own(path)) for path in ("/a", "/b", "/c"))
    for each in (first, second, third, first):
        each.write()
    assert noted() == ["/a", "/b", "/c"]
    living -= {"/b"}
    first.remove()
    assert noted() == ["/c"]
    third.remove()
    assert not os.path.exists(paths.place_path())


def test_a_note_of_the_same_socket_is_replaced(home: Path, living: set[str]) -> None:
    keeper(own("/a")).write()
    living |= {"/a"}
    keeper(own("/a", pid=1002)).write()
    assert [each.pid for each in place.read()] == [1002]


def test_the_note_of_another_daemon_is_not_removed(home: Path, living: set[str]) -> None:
    living |= {"/a"}
    keeper(own("/a")).write()
    keeper(own("/b")).remove()
    assert noted() == ["/a"]


def test_what_cannot_be_read_is_replaced(home: Path, living: set[str]) -> None:
    keeper(own("/a")).write()
    file = Path(paths.place_path())
    file.write_text("{")
    file.chmod(0o666)
    keeper(own("/a")).write()
    assert noted() == ["/a"]
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["place.json"]


def test_a_note_is_not_written_once_it_was_removed(home: Path, living: set[str]) -> None:
    made = keeper(own("/a"))
    made.write()
    made.remove()
    made.write()
    assert noted() == []


def test_the_note_of_the_next_daemon_of_the_socket_is_not_removed(
    home: Path, living: set[str]
) -> None:
    living |= {"/a"}
    first = keeper(own("/a"))
    first.write()
    keeper(own("/a", pid=1002)).write()
    first.remove()
    assert [each.pid for each in place.read()] == [1002]


def test_a_note_that_is_being_written_is_removed(
    home: Path, living: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_writing, may_write, written = threading.Event(), threading.Event(), place.written

    def slow(places: list[Place]) -> bytes:
        is_writing.set()
        assert may_write.wait(20)
        return written(places)

    monkeypatch.setattr(place, "written", slow)
    made = keeper(own("/a"))
    writer, remover = threading.Thread(target=made.write), threading.Thread(target=made.remove)
    writer.start()
    assert is_writing.wait(20)
    remover.start()
    remover.join(0.1)  # it waits for the writer
    assert remover.is_alive()
    may_write.set()
    writer.join()
    remover.join()
    assert noted() == []


def test_without_a_home_directory_none_is_made(
    tmp_path: Path, living: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    keeper(own("/a")).write()
    assert [*tmp_path.iterdir()] == []


def test_the_directory_of_the_note_is_private_and_no_link(home: Path, living: set[str]) -> None:
    directory = Path(paths.place_path()).parent
    directory.mkdir(parents=True)
    directory.chmod(0o777)
    keeper(own("/a")).write()
    assert directory.stat().st_mode & 0o777 == 0o700
    directory.rename(home / "elsewhere")
    directory.symlink_to(home / "elsewhere")
    with pytest.raises(PathRefused):
        keeper(own("/b")).write()


async def test_a_note_that_is_lost_is_written_again(
    home: Path, living: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_keeper, "CHECK_EVERY_S", 0.01)
    made = keeper(own("/a"))
    made.start()
    file = Path(paths.place_path())
    await wait_until_async(file.exists)
    file.unlink()
    await wait_until_async(file.exists)
    await made.close()
    assert not file.exists()


async def test_a_trouble_is_told_once(
    home: Path, living: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_keeper, "CHECK_EVERY_S", 0.01)
    (home / ".local").write_text("a file")
    troubles: list[str] = []
    tries = 0
    made = keeper(own("/a"), troubles)
    write = made.write

    def count() -> None:
        nonlocal tries
        tries += 1
        write()

    monkeypatch.setattr(made, "write", count)
    made.start()
    await wait_until_async(lambda: tries > 2)
    assert len(troubles) == 1
    assert made.trouble == troubles[0]
    await made.close()


async def test_a_file_system_that_hangs_holds_nobody_up(
    home: Path, living: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_keeper, "TIMEOUT_S", 0.01)
    released, looks = threading.Event(), 0

    def hang(path: str) -> list[Place]:
        nonlocal looks
        looks += 1
        released.wait(20)
        return []

    monkeypatch.setattr(place, "others", hang)
    made = keeper(own("/a"))
    try:
        for _ in range(3):
            assert await asyncio.wait_for(made.others(), 10) == []
        assert looks == 1
    finally:
        released.set()


async def test_a_removal_that_hangs_does_not_hold_the_end_up(
    home: Path, living: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_keeper, "TIMEOUT_S", 0.01)
    released = threading.Event()
    made = keeper(own("/a"))
    monkeypatch.setattr(made, "remove", lambda: released.wait(20))
    made.start()
    try:
        await asyncio.wait_for(made.close(), 10)
        assert not released.is_set()
    finally:
        released.set()
