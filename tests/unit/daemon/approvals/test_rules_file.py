"""Remembered answers on disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from msgspec import structs

from mcpd.core.facts import Rule
from mcpd.daemon.approvals import rules_file
from mcpd.daemon.approvals.rules_file import Uses

RULE = Rule(3, "always", "local", "files", "id", "write", b"\x01\x02", "control (mcpctl)",
            definition=b'{"name":"write"}')  # fmt: skip


@pytest.fixture
def state(tmp_path: Path) -> str:
    tmp_path.chmod(0o700)
    return str(tmp_path)


def written(state: str, *rules: Rule, now: float = 100.0) -> Path:
    content = rules_file.encoded(rules, lambda rule: Uses(5.0, 2, 7.0), now)
    rules_file.write(state, content)
    return Path(state, "trust", "rules.json")


def test_what_is_written_is_read(state: str) -> None:
    path = written(state, RULE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    (kept,) = rules_file.read(state)
    assert (kept.since, kept.uses, kept.last) == (5.0, 2, 7.0)
    assert rules_file.rule_of(kept, rules_file.wall_clock()) == RULE


def test_a_name_of_half_a_pair_is_read_as_it_was(state: str) -> None:
    """
    JSON has such names, and UTF-8 has no bytes for them.
    """
    rule = structs.replace(RULE, tool="a\ud800", by="\udc00")
    written(state, rule)
    (kept,) = rules_file.read(state)
    assert rules_file.rule_of(kept, rules_file.wall_clock()) == rule


def test_an_hour_goes_on_by_the_wall_clock(state: str) -> None:
    """
    The monotonic clock of a daemon says nothing to the next one; no clock makes it longer.
    """
    written(state, Rule(1, "1h", "local", "s", "i", "t", b"", "x", until=160.0), now=100.0)
    (kept,) = rules_file.read(state)
    wall = rules_file.wall_clock()
    early, soon = rules_file.rule_of(kept, wall - 1e6), rules_file.rule_of(kept, wall + 30)
    assert early is not None and early.until == 3600.0
    assert soon is not None and soon.until is not None and 25 < soon.until <= 30
    assert rules_file.rule_of(kept, wall + 61) is None


def test_no_file_is_no_rules(state: str) -> None:
    assert rules_file.read(state) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"rules":[{}]}',
        b'{"rules":[],"version":9}',
        b'{"x":' + b"[" * 100_000,
        b'{"rules":[{"id":1,"answer":"once","principal":"local","server":"s","identity":"i",'
        b'"tool":"t","pin":"","by":"x","since":1}]}',
    ],
)
def test_what_cannot_be_read_is_said(state: str, content: bytes) -> None:
    path = written(state, RULE)
    path.write_bytes(content)
    with pytest.raises(ValueError):
        rules_file.read(state)


def test_a_file_that_others_can_write_is_not_read(state: str) -> None:
    written(state, RULE).chmod(0o620)
    with pytest.raises(PermissionError):
        rules_file.read(state)


def test_a_link_is_not_followed(state: str) -> None:
    path = written(state, RULE)
    elsewhere = Path(state, "elsewhere")
    os.rename(path, elsewhere)
    path.symlink_to(elsewhere)
    with pytest.raises(OSError):
        rules_file.read(state)


def test_questions_of_the_next_daemon_have_other_numbers(tmp_path: Path) -> None:
    """
    Who types the id of an old question answers no other one.
    """
    state = str(tmp_path)
    assert rules_file.first_number(state) == 1
    rules_file.take_numbers(state, 101)
    assert rules_file.first_number(state) == 102
    (tmp_path / "trust" / "asked").write_text("a lot")
    assert rules_file.first_number(state) == 1
