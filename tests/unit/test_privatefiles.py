from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mcpd import privatefiles


def test_a_missing_directory_is_made_private(tmp_path: Path):
    os.close(privatefiles.open_directory(str(tmp_path / "state" / "logs")))
    assert (tmp_path / "state" / "logs").stat().st_mode & 0o777 == 0o700


def test_a_link_in_a_directorys_place_is_refused(tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "logs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        privatefiles.open_directory(str(tmp_path / "logs"))


@pytest.mark.parametrize("which", ["state", "state/logs"])
def test_a_directory_that_others_can_write_in_is_refused(tmp_path: Path, which: str):
    os.close(privatefiles.open_directory(str(tmp_path / "state" / "logs")))
    (tmp_path / which).chmod(0o777)
    with pytest.raises(PermissionError):
        privatefiles.open_directory(str(tmp_path / "state" / "logs"))


def test_nothing_is_made_behind_a_link_above(tmp_path: Path):
    """
    The state's directory was replaced by a link to somewhere else.
    """
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        privatefiles.open_directory(str(tmp_path / "state" / "logs"))
    assert os.listdir(tmp_path / "elsewhere") == []


def test_what_a_chosen_directory_is_in_does_not_matter(tmp_path: Path):
    """
    A home directory may be behind a link; only what is ours by its place has to be in a safe one.
    """
    (tmp_path / "real" / "state").mkdir(parents=True)
    (tmp_path / "home").symlink_to(tmp_path / "real")
    os.close(privatefiles.open_checked(str(tmp_path / "home" / "state")))


def test_a_link_in_a_files_place_is_refused(tmp_path: Path):
    """B118: what we write is never reached through links."""
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "log").symlink_to(target)
    directory = privatefiles.open_directory(str(tmp_path))
    with pytest.raises(OSError):
        privatefiles.open_file("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, directory=directory)
    os.close(directory)
    assert target.read_text() == "mine"


def test_a_pipe_in_a_files_place_is_refused_and_blocks_nobody(tmp_path: Path):
    os.mkfifo(tmp_path / "log")
    directory = privatefiles.open_directory(str(tmp_path))
    with pytest.raises(OSError):
        privatefiles.open_file("log", os.O_RDONLY, directory=directory)
    os.close(directory)


def test_a_replaced_file_is_private_and_whole(tmp_path: Path):
    directory = privatefiles.open_directory(str(tmp_path))
    old = os.umask(0)
    try:
        privatefiles.replace_file("ledger.json", b"{}", directory=directory)
        privatefiles.replace_file("ledger.json", b"[]", directory=directory)
    finally:
        os.umask(old)
        os.close(directory)
    assert (tmp_path / "ledger.json").read_bytes() == b"[]"
    assert (tmp_path / "ledger.json").stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["ledger.json"]


def test_a_link_in_the_place_of_the_file_that_is_replaced_goes_away(tmp_path: Path):
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "ledger.json").symlink_to(target)
    directory = privatefiles.open_directory(str(tmp_path))
    privatefiles.replace_file("ledger.json", b"{}", directory=directory)
    os.close(directory)
    assert target.read_text() == "mine"
    assert not (tmp_path / "ledger.json").is_symlink()


def test_what_is_durable_has_its_name_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A file that was replaced can be the old one again after a power cut, if its directory is not
    written, too: an answer that was taken back would count.
    """
    written: list[bool] = []

    def sync(fd: int) -> None:
        written.append(stat.S_ISDIR(os.fstat(fd).st_mode))

    monkeypatch.setattr(os, "fsync", sync)
    privatefiles.replace_durably(str(tmp_path / "a"), b"x")
    assert written == [False, True]
    directory = os.open(tmp_path, os.O_RDONLY)
    privatefiles.replace_file("b", b"x", directory=directory, is_durable=True)
    os.close(directory)
    assert written == [False, True, False, True]
