"""The official conformance suite, where `make conformance` has installed it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.conformance.suite import Suite


@pytest.fixture(scope="session")
def suite() -> Suite:
    """The suite; skips where it is not installed."""
    place = os.environ.get("MCPD_CONFORMANCE")
    if not place:
        pytest.skip(
            "MCPD_CONFORMANCE is not set: `make conformance` installs the suite and sets it"
        )
    if not (Path(place) / "node_modules").is_dir():
        missing = "" if shutil.which("npm") else ": npm is missing"
        pytest.skip(f"no suite in {place}{missing}; install Node.js, then `make conformance`")
    return Suite(Path(place) / "node_modules")
