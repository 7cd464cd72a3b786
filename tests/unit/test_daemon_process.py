"""Which process is behind a socket, and in which state it is: B114."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd import daemon_process
from tests.support.fakelistener import Start, listeners


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s")


@pytest.fixture
def start(tmp_path: Path, path: str) -> Iterator[Start]:
    with listeners(tmp_path, path) as begin:
        yield begin


@pytest.mark.parametrize(
    ("name", "flags", "is_it"),
    [("mcpd", (), True), ("mcpd", ("unlocked",), False), ("sleeper", (), False)],
)
def test_a_daemon_is_known_by_its_name_and_its_lock(
    start: Start, path: str, name: str, flags: tuple[str, ...], is_it: bool
) -> None:
    """
    B115: a pid in a file is only a number.
    """
    pid = start(name, *flags).pid
    assert daemon_process.is_daemon_of(pid, path) is is_it
    assert daemon_process.pid_in_lock(path) == pid
    assert not daemon_process.is_daemon_of(pid, path + "2")
    assert not daemon_process.is_daemon_of(os.getpid(), path)


def test_a_lock_whose_file_was_removed_is_still_held(start: Start, path: str) -> None:
    pid = start().pid
    os.unlink(path + ".lock")
    assert daemon_process.is_daemon_of(pid, path)


def test_ages_are_told_in_seconds(start: Start) -> None:
    age = daemon_process.age(start().pid)
    assert age is not None
    assert 0 <= age < 60
    assert daemon_process.age(2**22 + 1) is None
    assert not daemon_process.is_stopped(2**22 + 1)


@pytest.mark.parametrize(
    ("content", "pid"), [("4242\n", 4242), ("", None), ("x", None), ("1", None), ("-5", None)]
)
def test_the_lock_names_who_may_hold_it(path: str, content: str, pid: int | None) -> None:
    """
    B115: garbage, and init, are nobody's.
    """
    assert daemon_process.pid_in_lock(path) is None
    Path(path + ".lock").write_text(content)
    assert daemon_process.pid_in_lock(path) == pid


@pytest.mark.parametrize(
    ("said", "age"), [("T    00:07", 7), ("S    02:03:04", 7384), ("S 1-00:00:01", 86401)]
)
def test_where_there_is_no_proc_ps_is_asked(
    monkeypatch: pytest.MonkeyPatch, said: str, age: float
) -> None:
    monkeypatch.setattr(daemon_process, "HAVE_PROC", False)
    monkeypatch.setattr(daemon_process, "_ps", lambda *_: iter([said]))
    assert daemon_process.age(7) == age
    assert daemon_process.is_stopped(7) is (said[0] == "T")
