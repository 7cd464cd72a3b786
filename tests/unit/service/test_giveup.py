"""A start that fails in the same way again and again ends with 0 at last."""

from __future__ import annotations

import time

import pytest

from mcpd.service import giveup


def test_the_status_stays_until_it_has_failed_often_enough(tmp_path):
    """B152."""
    said = [giveup.judge(78, str(tmp_path)) for _ in range(giveup.MOST + 2)]
    assert said == [78] * (giveup.MOST - 1) + [0] * 3
    assert [status for _, status in giveup.failures(str(tmp_path))] == [78] * giveup.MOST
    assert (tmp_path / giveup.FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("status", [0, 1, 70, -9])
def test_what_a_new_start_may_mend_is_not_counted(tmp_path, status: int):
    assert giveup.judge(status, str(tmp_path)) == status
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ago", [giveup.WITHIN_S + 1, -100])
def test_failures_of_long_ago_or_of_another_boot_are_forgotten(tmp_path, ago: float):
    at = time.monotonic() - ago
    (tmp_path / giveup.FILE).write_text(f"{at} 78\n" * giveup.MOST)
    assert giveup.judge(75, str(tmp_path)) == 75
    assert [status for _, status in giveup.failures(str(tmp_path))] == [75]


@pytest.mark.parametrize("content", ["nonsense", "1\n", "\0" * 9, "x 78\n"])
def test_a_file_that_holds_something_else_counts_for_nothing(tmp_path, content: str):
    (tmp_path / giveup.FILE).write_text(content)
    assert giveup.judge(78, str(tmp_path)) == 78


def test_where_nothing_can_be_counted_the_first_time_is_the_last(tmp_path):
    """
    Nor is a link followed, whose target would be written over.
    """
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / giveup.FILE).symlink_to("elsewhere")
    assert giveup.judge(78, str(tmp_path)) == 0
    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert giveup.judge(78, str(tmp_path / "missing")) == 0
