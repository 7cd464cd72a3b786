"""A place for configuration files, like a user's and a system's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpd.config.load import Loaded, load


class Place:
    """A home directory and a system directory of one test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.system = root / "etc"
        self.user = root / "home" / ".config" / "mcpd"
        self.env = {"HOME": str(root / "home")}

    def write(self, file: str, content: object, *, of: str = "user") -> Path:
        """Write a file of the user's or the system's directory; data is written as JSON."""
        path = (self.user if of == "user" else self.system) / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        path.chmod(0o644)
        return path

    def load(self, explicit: Path | str | None = None) -> Loaded:
        """Load what is there."""
        return load(None if explicit is None else str(explicit), self.env, system=str(self.system))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
