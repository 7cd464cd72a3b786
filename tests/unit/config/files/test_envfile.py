"""Files of variables: what a line means, and what is said of one that means nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcpd.config.files import envfile
from mcpd.errors import ConfigError


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("K=v", "v"),
        ("  export K = v w  ", "v w"),
        ("export\tK=v", "v"),
        ("K=", ""),
        ("K=a=b", "a=b"),
        ("K=a#b", "a#b"),
        ("K=a  # said of it", "a"),
        ("K= # nothing", ""),
        ("K=$HOME `id` ${X:-y} \\n", "$HOME `id` ${X:-y} \\n"),
        ("K='a b  # $x \\n \"'", 'a b  # $x \\n "'),
        ('K="a b # \\" \\\\ \\$x \\n\\t \\d \'" # said of it', "a b # \" \\ $x \n\t \\d '"),
        ("K=it's", "it's"),
        ("K=''", ""),
        ("K=✓", "✓"),
    ],
)
def test_a_line_is_a_variable(line: str, value: str) -> None:
    assert envfile.parse(line.encode()) == {"K": value}


def test_blanks_comments_and_line_ends_mean_nothing_and_the_last_of_a_name_counts() -> None:
    content = b"\xef\xbb\xbf# top\r\n\r\nA=1\r\n   # more\r\nB=2\r\nA=3"
    assert envfile.parse(content) == {"A": "3", "B": "2"}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (b"sentinel", "KEY=VALUE"),
        (b"export sentinel", "KEY=VALUE"),
        (b"=sentinel", "name of a variable"),
        (b"sentinel name=x", "name of a variable"),
        (b"1sentinel=x", "name of a variable"),
        (b"K='sentinel", "closing quote"),
        (b'K="sentinel\\"', "closing quote"),
        (b"K='sentinel' x", "after the closing quote"),
        (b"K=sentinel\0", "NUL"),
        (b"K=sentinel\xff", "UTF-8"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_without_its_value(
    tmp_path: Path, line: bytes, wanted: str
) -> None:
    file = tmp_path / "env"
    file.write_bytes(b"A=1\n\n" + line + b"\n")
    file.chmod(0o600)
    with pytest.raises(ConfigError) as caught:
        envfile.read(str(file))
    assert caught.value.message.startswith(f"{file}:3: ")
    assert wanted in caught.value.message
    assert "sentinel" not in caught.value.message


def test_a_file_that_is_not_there_or_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        envfile.read(str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="regular file"):
        envfile.read(str(tmp_path))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    with pytest.raises(ConfigError, match="regular file"):
        envfile.read(str(fifo))
    large = tmp_path / "large"
    large.write_bytes(b"A=" + b"x" * 262_144)
    large.chmod(0o600)
    with pytest.raises(ConfigError, match="less than 256 KiB"):
        envfile.read(str(large))


def test_a_link_is_followed_and_its_targets_mode_counts(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("A=1")
    link.symlink_to(target)
    target.chmod(0o600)
    assert envfile.read(str(link)) == {"A": "1"}
    target.chmod(0o640)
    with pytest.raises(ConfigError, match="others can read"):
        envfile.read(str(link))
