"""The most verbose of several log levels; the rest is in the transcripts."""

from __future__ import annotations

import pytest

from mcpd.core.upstream.log_level import most_verbose


@pytest.mark.parametrize(
    ("levels", "most"),
    [
        ([], None),
        (["error"], "error"),
        (["emergency", "notice", "error"], "notice"),
        (["info", "debug"], "debug"),
    ],
)
def test_the_most_verbose_level_shows_what_all_others_do(levels: list[str], most: str | None):
    assert most_verbose(levels) == most
