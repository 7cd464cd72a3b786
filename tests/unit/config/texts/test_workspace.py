"""What is filled in when the workspace is known."""

from __future__ import annotations

from mcpd.config.texts import workspace
from mcpd.config.texts.workspace import BASENAME, FOLDER


def test_both_words_are_filled_in_once() -> None:
    """
    B103.
    """
    assert workspace.placed(f"{FOLDER}/x:{BASENAME}", "/src/my app") == "/src/my app/x:my app"
    assert workspace.placed("/plain", "/src") == "/plain"
    assert workspace.placed(FOLDER, BASENAME) == BASENAME  # what a root holds is no word of ours
    assert workspace.is_named_in(f"a{FOLDER}")
    assert not workspace.is_named_in("workspaceFolder")
