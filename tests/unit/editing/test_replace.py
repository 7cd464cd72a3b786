"""A file that is replaced is never half written, and nobody else's write is lost."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from mcpd.editing import replace
from mcpd.errors import ConfigError


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MCPD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(replace, "PAUSE", 0.001)
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # a busy disk takes seconds
    return tmp_path / "state"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    path = tmp_path / "place" / "mcp.json"
    path.write_bytes(b"old")
    return path


def to(content: bytes | None) -> Callable[[bytes | None], bytes | None]:
    return lambda _: content


def test_mode_and_owner_stay(file: Path) -> None:
    for mode in (0o600, 0o644, 0o640, 0o664, 0o400):
        file.chmod(mode)
        assert replace.change(str(file), to(b"%o" % mode))
        assert file.read_bytes() == b"%o" % mode
        assert stat.S_IMODE(file.stat().st_mode) == mode
    assert os.listdir(file.parent) == [file.name]


def test_a_group_of_ours_stays(file: Path) -> None:
    groups = [group for group in os.getgroups() if group != file.stat().st_gid]
    if not groups:
        pytest.skip("this user has one group")
    os.chown(file, -1, groups[0])
    replace.change(str(file), to(b"new"))
    assert file.stat().st_gid == groups[0]


def test_a_private_file_is_for_its_owner_alone(file: Path) -> None:
    file.chmod(0o644)
    replace.change(str(file), to(b"secret"), private=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_new_file_is_made_with_its_directories(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a" / "b" / "mcp.json"
    seen: list[bytes | None] = []
    assert replace.change(str(path), lambda old: seen.append(old) or b"new", mode_of_new=mode)
    assert path.read_bytes() == b"new" and stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert set(seen) == {None}


@pytest.mark.parametrize("content", [None, b"old"])
def test_where_nothing_changes_nothing_is_written(
    file: Path, state: Path, content: bytes | None
) -> None:
    before = file.stat()
    assert not replace.change(str(file), to(content))
    assert file.stat() == before and not state.exists()
    assert not replace.change(str(file.parent / "none" / "x"), to(None))
    assert os.listdir(file.parent) == [file.name]


def test_links_lead_to_the_file_that_is_replaced(file: Path, tmp_path: Path) -> None:
    (tmp_path / "second").symlink_to("place/mcp.json")
    (tmp_path / "first").symlink_to(tmp_path / "second")
    assert replace.change(str(tmp_path / "first"), to(b"new"))
    assert file.read_bytes() == b"new" and not file.is_symlink()
    assert os.readlink(tmp_path / "second") == "place/mcp.json"
    assert os.listdir(file.parent) == [file.name]


def test_a_link_to_nothing_gets_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("dotfiles/mcp.json")
    assert replace.change(str(tmp_path / "link"), to(b"new"))
    assert (tmp_path / "dotfiles" / "mcp.json").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("fifo", "loop", "."):
        with pytest.raises(ConfigError):
            replace.change(str(tmp_path / name), to(b"new"))


def test_a_change_meanwhile_is_read_again(file: Path) -> None:
    seen: list[bytes | None] = []

    def edit(old: bytes | None) -> bytes:
        seen.append(old)
        if len(seen) in (2, 3):  # with the lock
            file.write_bytes(b"theirs %d" % len(seen))
        return (old or b"") + b"+"

    assert replace.change(str(file), edit)
    assert seen == [b"old", b"old", b"theirs 2", b"theirs 3"]
    assert file.read_bytes() == b"theirs 3+"


@pytest.mark.parametrize("writes", [1, 2, 3, 4])
def test_what_is_written_at_the_last_moment_is_not_lost(
    file: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """
    Other programs rename their file over ours between our look and our rename, and again.
    """
    rename = replace._rename
    left = iter(range(writes))

    def late(source: str, target: str, flags: int) -> bool:
        for number in left:
            (file.parent / "tmp").write_bytes(b"theirs %d" % number)
            (file.parent / "tmp").replace(file)
            break
        return rename(source, target, flags)

    monkeypatch.setattr(replace, "_rename", late)
    assert replace.change(str(file), lambda old: (old or b"") + b"+")
    assert file.read_bytes() == b"theirs %d+" % (writes - 1)
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize("step", ["looks", "exchanges", "syncs"])
def test_what_is_written_in_place_at_the_last_moment_is_not_lost(
    file: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """
    Claude Code truncates its file and writes it in place; it may have opened the old one before we
    put ours there, and write it afterwards.
    """
    rename, fsync = replace._rename, os.fsync
    opened = os.open(file, os.O_WRONLY)

    def write(now: str) -> None:
        nonlocal opened
        if now == step and opened >= 0:
            os.ftruncate(opened, 0)
            os.write(opened, b"theirs")
            os.close(opened)
            opened = -1

    def exchanging(source: str, target: str, flags: int) -> bool:
        write("looks")
        done = rename(source, target, flags)
        write("exchanges")
        return done

    def syncing(fd: int) -> None:
        fsync(fd)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            write("syncs")

    monkeypatch.setattr(replace, "_rename", exchanging)
    monkeypatch.setattr(os, "fsync", syncing)
    assert replace.change(str(file), lambda old: (old or b"") + b"+")
    assert file.read_bytes() == b"theirs+"
    assert os.listdir(file.parent) == [file.name]


def test_a_file_that_appears_meanwhile_is_not_overwritten(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.unlink()
    rename = replace._rename

    def late(source: str, target: str, flags: int) -> bool:
        if not file.exists():
            file.write_bytes(b"theirs")
        return rename(source, target, flags)

    monkeypatch.setattr(replace, "_rename", late)
    assert replace.change(str(file), lambda old: (old or b"none") + b"+")
    assert file.read_bytes() == b"theirs+"


def test_a_file_that_goes_meanwhile_is_not_brought_back(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = replace._rename

    def late(source: str, target: str, flags: int) -> bool:
        file.unlink()
        return rename(source, target, flags)

    monkeypatch.setattr(replace, "_rename", late)
    assert not replace.change(str(file), lambda old: old and old + b"+")
    assert os.listdir(file.parent) == []


def test_a_file_that_is_half_written_is_read_again(file: Path) -> None:
    """
    Claude Code truncates its file and writes it in place.
    """
    file.write_bytes(b'{"a"')

    def edit(old: bytes | None) -> bytes:
        if not (old or b"").endswith(b"}"):
            file.write_bytes(b'{"a": 1}')
            raise ConfigError("cut off")
        return b'{"a": 2}'

    assert replace.change(str(file), edit)
    assert file.read_bytes() == b'{"a": 2}'


def test_an_error_of_the_edit_is_raised_where_the_file_stays_as_it_is(file: Path) -> None:
    def edit(old: bytes | None) -> bytes:
        raise ConfigError("cut off")

    with pytest.raises(ConfigError, match="cut off"):
        replace.change(str(file), edit)


def test_a_file_that_does_not_stop_changing_is_left(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replace, "TRIES", 5)
    count = 0

    def edit(old: bytes | None) -> bytes:
        nonlocal count
        count += 1
        file.write_bytes(b"theirs %d" % count)
        return b"ours"

    with pytest.raises(ConfigError, match="does not stop changing") as caught:
        replace.change(str(file), edit)
    assert caught.value.hint
    assert file.read_bytes() == b"theirs 6"
    assert os.listdir(file.parent) == [file.name]


def forked(work: Callable[[], None]) -> int:
    """Run in a process of its own, without pytest's ends; return its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def test_two_processes_lose_nothing(file: Path) -> None:
    file.write_bytes(b"0")

    def count() -> None:
        for _ in range(25):
            replace.change(str(file), lambda old: b"%d" % (int(old or b"0") + 1))

    for pid in [forked(count), forked(count)]:
        os.waitpid(pid, 0)
    assert file.read_bytes() == b"50"


STEPS = ("open", "write", "fchmod", "fsync", "unlink", "close", "listdir")


def test_a_process_that_is_killed_at_any_step_leaves_a_whole_file(file: Path) -> None:
    """
    And no lock that holds the next one up, which removes what the dead one has left beside it.
    """
    for step in range(1000):
        file.write_bytes(b"old")

        def killed(at: int = step) -> None:
            left = at

            def counted(function: Callable[..., object]) -> Callable[..., object]:
                def call(*args: object, **more: object) -> object:
                    nonlocal left
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                    left -= 1
                    return function(*args, **more)

                return call

            for name in STEPS:
                setattr(os, name, counted(getattr(os, name)))
            replace._rename = counted(replace._rename)
            replace.change(str(file), to(b"new"))

        _, status = os.waitpid(forked(killed), 0)
        assert file.read_bytes() in (b"old", b"new")
        if not os.WIFSIGNALED(status):
            break
        assert replace.change(str(file), to(b"next"))
        assert file.read_bytes() == b"next" and os.listdir(file.parent) == [file.name]
    assert 10 < step < 100


def test_a_lock_that_is_held_too_long_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replace, "LOCK_WAIT", 0.0)
    with replace._locked(str(file)), pytest.raises(ConfigError, match="edited by another"):
        replace.change(str(file), to(b"new"))
    assert file.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("number", "says"),
    [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "read-only"), (errno.EIO, "rror")],
)
def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, number: int, says: str
) -> None:
    def fail(fd: int, content: bytes) -> None:
        os.write(fd, content[:1])
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(replace.privatefiles, "write_all", fail)
    with pytest.raises(ConfigError, match=says) as caught:
        replace.change(str(file), to(b"new"))
    assert str(file) in caught.value.message
    assert file.read_bytes() == b"old" and os.listdir(file.parent) == [file.name]


def test_an_owner_that_cannot_be_kept_is_a_reason_not_to_write(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, uid: int, gid: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fchown", refuse)
    monkeypatch.setattr(replace, "_is_same_owner", lambda one, other: False)
    with pytest.raises(ConfigError, match="owner and group"):
        replace.change(str(file), to(b"new"))
    assert file.read_bytes() == b"old" and os.listdir(file.parent) == [file.name]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_to_is_named(file: Path) -> None:
    file.parent.chmod(0o500)
    try:
        with pytest.raises(ConfigError, match=r"place cannot be written to"):
            replace.change(str(file), to(b"new"))
    finally:
        file.parent.chmod(0o700)
    assert file.read_bytes() == b"old"


def test_where_files_cannot_be_exchanged_they_are_renamed(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Not every file system and kernel can.
    """
    monkeypatch.setattr(replace, "_renameat2", lambda *_: errno.EINVAL)
    assert replace.change(str(file), to(b"new"))
    assert replace.change(str(file.parent / "other"), to(b"new"))
    assert sorted(os.listdir(file.parent)) == ["mcp.json", "other"]


def test_a_file_that_appears_meanwhile_is_not_renamed_over_either(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.unlink()

    def late(*_: object) -> int:
        if not file.exists():
            file.write_bytes(b"theirs")
        return errno.EINVAL

    monkeypatch.setattr(replace, "_renameat2", late)
    assert replace.change(str(file), lambda old: (old or b"none") + b"+")
    assert file.read_bytes() == b"theirs+"


def test_what_is_written_beside_is_private_and_locked(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, umask = replace.privatefiles.write_all, os.umask(0)

    def look(fd: int, content: bytes) -> None:
        (beside,) = file.parent.glob(".mcpd-*")
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600
        with beside.open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        write(fd, content)

    monkeypatch.setattr(replace.privatefiles, "write_all", look)
    file.chmod(0o644)
    try:
        assert replace.change(str(file), to(b"new"))
    finally:
        os.umask(umask)


def test_only_what_the_dead_have_left_is_removed(file: Path) -> None:
    prefix = replace._prefix(str(file))
    Path(f"{prefix}dead").touch()
    with replace._beside(str(file)) as (living, _):
        Path(f"{prefix}link").symlink_to(file)
        assert replace.change(str(file), to(b"new"))
        assert set(file.parent.iterdir()) == {file, Path(living), Path(f"{prefix}link")}


def test_the_file_is_on_the_disk_before_its_name_is(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    rename = replace._rename

    def renamed(source: str, target: str, flags: int) -> bool:
        steps.append("rename")
        return rename(source, target, flags)

    def synced(fd: int) -> None:
        steps.append("directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")

    monkeypatch.setattr(replace, "_rename", renamed)
    monkeypatch.setattr(os, "fsync", synced)
    replace.change(str(file), to(b"new"))
    assert steps == ["file", "rename", "directory"]


def test_a_file_that_is_edited_is_bounded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replace, "SIZE_LIMIT", 2)
    with pytest.raises(ConfigError, match="expected less than"):
        replace.change(str(file), to(b"new"))


def test_an_edit_that_fails_while_the_file_changes_raises_at_last(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replace, "TRIES", 3)

    def fail(old: bytes | None) -> bytes:
        file.write_bytes((old or b"") + b"+")
        raise ConfigError("cut off")

    with pytest.raises(ConfigError, match="cut off"):
        replace.change(str(file), fail)
    assert file.read_bytes() == b"old+++"


def test_what_is_written_meanwhile_is_not_lost_where_files_cannot_be_exchanged(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = replace.privatefiles.write_all

    def late(fd: int, content: bytes) -> None:
        if file.read_bytes() == b"old":
            file.write_bytes(b"theirs")
        write(fd, content)

    monkeypatch.setattr(replace.privatefiles, "write_all", late)
    monkeypatch.setattr(replace, "_renameat2", lambda *_: errno.ENOSYS)
    assert replace.change(str(file), lambda old: (old or b"") + b"+")
    assert file.read_bytes() == b"theirs+"
