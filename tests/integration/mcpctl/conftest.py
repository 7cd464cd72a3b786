"""A box in which nothing but the home directory names the configuration."""

from __future__ import annotations

import pytest

from tests.support.daemon import Box


@pytest.fixture
def home(box: Box) -> Box:
    """A box whose configuration is the user's own: nothing names another."""
    box.env = {k: v for k, v in box.env.items() if k not in ("MCPD_CONFIG", "XDG_CONFIG_HOME")}
    box.env["HOME"] = str(box.root / "home")
    return box
