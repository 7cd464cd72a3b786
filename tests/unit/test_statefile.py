"""Private files of the state directory."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import msgspec
import pytest

from mcpd.errors import ConfigError
from mcpd.statefile import StateFile, decode, encode


class Numbers(msgspec.Struct, frozen=True):
    version: int
    numbers: tuple[int, ...] = ()


FILE = StateFile(Numbers(version=1), "numbers", ConfigError, most_bytes=1000)


def more(number: int) -> object:
    return lambda file: msgspec.structs.replace(file, numbers=(*file.numbers, number))


def test_what_is_written_is_private_and_read_again(tmp_path: Path) -> None:
    path = str(tmp_path / "numbers.json")
    assert FILE.read(path).numbers == ()
    FILE.change(path, more(1))  # type: ignore[arg-type]
    FILE.change(path, more(2))  # type: ignore[arg-type]
    assert FILE.read(path).numbers == (1, 2)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_names_of_half_a_pair_are_written_and_read() -> None:
    """
    JSON has such names, and UTF-8 has no bytes for them.
    """
    names = {"a\ud800": ["\udc00", "\U0001f600"]}
    assert decode(encode(names), dict[str, list[str]]) == names
    told = encode({"name": "\ud800", "raw": msgspec.Raw(b'{"x": 1}'), "own": Numbers(1)})
    own = {"version": 1, "numbers": []}
    assert json.loads(told) == {"name": "\ud800", "raw": {"x": 1}, "own": own}


@pytest.mark.parametrize(
    "data", [b"", b'{"a":', b'{"version":"\\ud800"}', b'{"x":' + b"[" * 100_000]
)
def test_what_is_no_such_value_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode(data, Numbers)


def test_what_does_not_change_is_not_written(tmp_path: Path) -> None:
    path = str(tmp_path / "numbers.json")
    FILE.change(path, lambda file: file)
    assert not os.path.exists(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{}", "not a file of numbers"),
        ("nonsense", "not a file of numbers"),
        ('{"version":1,"numbers":["x"]}', "not a file of numbers"),
        ('{"version":2}', "another version of mcpd"),
        (" " * 1001, "cannot read"),
    ],
)
def test_a_file_that_is_not_ours_is_left_alone(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "numbers.json"
    path.write_text(content)
    path.chmod(0o600)
    for use in (lambda: FILE.read(str(path)), lambda: FILE.change(str(path), more(1))):  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=says):
            use()
    assert path.read_text() == content


def test_a_file_that_others_can_read_says_what_to_type(tmp_path: Path) -> None:
    path = tmp_path / "numbers.json"
    path.write_text('{"version":1}')
    path.chmod(0o644)
    with pytest.raises(ConfigError) as caught:
        FILE.read(str(path))
    assert caught.value.hint == f"chmod 600 {path}"


class Names(msgspec.Struct, frozen=True):
    version: int
    names: tuple[str, ...] = ()


def test_a_name_that_is_not_text_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "names.json")
    file = StateFile(Names(version=1), "names", ConfigError)
    with pytest.raises(ConfigError, match="not UTF-8"):
        file.change(path, lambda found: msgspec.structs.replace(found, names=("\udcff",)))
    assert not os.path.exists(path)
