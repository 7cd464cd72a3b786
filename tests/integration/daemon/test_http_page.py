"""What docs/http.md has people type, in a home directory where nothing is."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Box
from tests.support.page import check, run

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "http.md").read_text()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.fixture
def home(box: Box) -> Iterator[Path]:
    home = box.root / "home"
    config = home / ".config" / "mcpd"
    config.mkdir(parents=True, mode=0o700)
    notes = {"command": sys.executable, "args": [str(ROOT / "examples" / "notes_server.py")]}
    (config / "mcp.json").write_text(json.dumps({"mcpServers": {"notes": notes}}))
    yield home
    run(box, home, "mcpctl down")


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_every_line_of_the_page_says_what_the_page_shows(box: Box, home: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    page = PAGE.replace("127.0.0.1:6273", address).replace("/home/ada", str(home))
    page = page.replace("mcpctl http on\n", f"mcpctl http on --listen {address}\n", 1)
    page = page.replace("pid 19607, /run/user/1000/mcpd/mcpd.sock", "pid …")
    check(page, lambda script: run(box, home, script))
