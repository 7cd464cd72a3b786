"""A directory as the daemon makes it, and a writer in it that ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.audit.support import Audit


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a private directory."""
    made = tmp_path / "state"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def audit(place: Path) -> Iterator[Audit]:
    made = Audit(place)
    yield made
    made.writer.close()
