"""A place in which clients start a fake ``mcpd``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd.daemon_start import spawn
from tests.support.fakemcpd import Place


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    made = Place(Path(tempfile.mkdtemp(prefix="mcpd-", dir="/tmp")))
    monkeypatch.setenv("MCPD_STATE_DIR", str(made.state))
    monkeypatch.setenv("FAKE_MCPD", str(made.mcpd))
    monkeypatch.setattr(spawn, "daemon_command", lambda: [sys.executable, str(made.mcpd)])
    yield made
    made.close()
