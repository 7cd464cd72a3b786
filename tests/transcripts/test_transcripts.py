"""Conversations with the mux, written down: ``tests/support/transcript.py`` has the notation."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.transcript import play

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*/*.txt"))
REWRITE = os.environ.get("MCPD_REWRITE_TRANSCRIPTS") == "1"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HERE)))
def test_a_conversation_goes_as_it_is_written_down(path: Path) -> None:
    """
    ``make transcripts`` writes down what the mux does now; whoever reviews reads the difference.
    """
    text = path.read_text("utf-8")
    played = play(text)
    if REWRITE and played != text:
        path.write_text(played, "utf-8")
    else:
        assert played.splitlines() == text.splitlines()
