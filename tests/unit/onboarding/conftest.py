"""A home directory for files of clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clients import Home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home directory of our own; the state directory is in it."""
    path = tmp_path / "home"
    path.mkdir()
    for name in ("MCPD_STATE_DIR", "MCPD_SOCKET", "MCPD_CONFIG", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(path / ".config"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("HOME", str(path))
    return Home(path)
