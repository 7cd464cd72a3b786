"""What docs/http.md has people type, in a home directory where nothing is."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Box, binary
from tests.support.page import check
from tests.support.waiting import scaled

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


def run(box: Box, home: Path, script: str) -> str:
    """Return what a script says in a shell that knows the home directory and nothing else."""
    environment = {
        "HOME": str(home),
        "PATH": f"{Path(binary('mcpctl')).parent}:{os.environ['PATH']}",
        "XDG_RUNTIME_DIR": str(box.root / "run"),
        "MCPD_TEST_BOX": box.tag,
    }
    done = subprocess.run(
        ["bash", "-c", script],
        check=False, cwd=home, env=environment, capture_output=True, text=True, timeout=scaled(60),
    )  # fmt: skip
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_every_line_of_the_page_says_what_the_page_shows(box: Box, home: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    page = PAGE.replace("127.0.0.1:6273", address).replace("/home/ada", str(home))
    page = page.replace("mcpctl http on\n", f"mcpctl http on --listen {address}\n", 1)
    page = page.replace("pid 19607, /run/user/1000/mcpd/mcpd.sock", "pid …")
    check(page, lambda script: run(box, home, script))
