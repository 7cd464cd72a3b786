"""Which files are read, and which are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcpd.config.files import trust
from mcpd.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my config.json"
    path.write_text("{}")
    path.chmod(0o644)
    return path


def test_an_ordinary_file_is_read(file: Path) -> None:
    assert trust.read(str(file)) == b"{}"


def test_a_file_that_is_not_there_is_none(file: Path) -> None:
    assert trust.read(str(file) + "x") is None
    assert trust.read(f"{file}/below-a-file.json") is None


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664])
def test_a_group_may_write(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert trust.read(str(file)) == b"{}"


def test_a_file_that_everyone_can_write_is_refused_with_what_to_type(file: Path) -> None:
    file.chmod(0o666)
    with pytest.raises(ConfigError) as caught:
        trust.read(str(file))
    assert f"type: chmod o-w '{file}'" in caught.value.message


def test_a_strangers_file_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Whoever owns it can write it whatever its mode. Root's are the system's.
    """
    owner = [4242]
    real = os.fstat

    def owned(fd: int) -> os.stat_result:
        status = list(real(fd))
        status[4] = owner[0]
        return os.stat_result(status)

    monkeypatch.setattr(os, "fstat", owned)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ConfigError, match=r"uid 4242.*only you and root"):
        trust.read(str(file))
    for owner[0] in (0, 1000):
        assert trust.read(str(file)) == b"{}"


def test_a_link_is_followed_and_its_target_counts(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(file.name)
    assert trust.read(str(link)) == b"{}"
    file.chmod(0o646)
    with pytest.raises(ConfigError, match="everyone can write"):
        trust.read(str(link))


def test_a_link_to_itself_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "loop.json").symlink_to("loop.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        trust.read(str(tmp_path / "loop.json"))


def test_what_is_no_regular_file_is_refused_and_nobody_is_waited_for(tmp_path: Path) -> None:
    """
    Opening a FIFO that nobody writes to would block for ever.
    """
    os.mkfifo(tmp_path / "fifo.json")
    (tmp_path / "directory.json").mkdir()
    for name in ("fifo.json", "directory.json"):
        with pytest.raises(ConfigError, match="regular file"):
            trust.read(str(tmp_path / name))


def test_a_file_stays_under_its_limit(file: Path) -> None:
    with file.open("r+b") as content:
        content.truncate(trust.SIZE_LIMIT - 1)
    assert len(trust.read(str(file)) or b"") == trust.SIZE_LIMIT - 1
    with file.open("r+b") as content:
        content.truncate(trust.SIZE_LIMIT)
    with pytest.raises(ConfigError, match="less than 4 MiB"):
        trust.read(str(file))


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o604, 0o666, 0o644])
def test_what_is_private_is_read_by_nobody_else(file: Path, mode: int) -> None:
    file.chmod(0o600)
    assert trust.read(str(file), is_private=True) == b"{}"
    file.chmod(mode)
    with pytest.raises(ConfigError) as caught:
        trust.read(str(file), is_private=True)
    assert f"type: chmod go= '{file}'" in caught.value.message


def test_what_is_private_and_roots_may_be_read_by_a_group(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    There is no other way for us to read it.
    """
    real = os.fstat

    def owned(fd: int) -> os.stat_result:
        status = list(real(fd))
        status[4] = 0
        return os.stat_result(status)

    monkeypatch.setattr(os, "fstat", owned)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    file.chmod(0o640)
    assert trust.read(str(file), is_private=True) == b"{}"
    for mode in (0o660, 0o644):
        file.chmod(mode)
        with pytest.raises(ConfigError, match="others can read or write"):
            trust.read(str(file), is_private=True)
