"""What README.md and pages of docs/ have people type, in a home directory where nothing is."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd import exits
from tests.support import terminal
from tests.support.daemon import Box, binary
from tests.support.fakemanager import FakeManager
from tests.support.page import check, recorded, run

ROOT = Path(__file__).parents[3]


@pytest.fixture
def home(box: Box) -> Iterator[Path]:
    home = box.root / "home"
    home.mkdir(exist_ok=True)
    (home / "mcpd").symlink_to(ROOT)
    yield home
    run(box, home, "mcpctl down")


def page_of(path: str, box: Box, home: Path) -> str:
    page = (ROOT / path).read_text().replace("/home/ada", str(home))
    return page.replace("/run/user/1000", str(box.root / "run"))


def test_every_line_of_the_page_about_adding_says_what_it_shows(box: Box, home: Path) -> None:
    page = page_of("docs/adding.md", box, home)
    check(
        re.sub(r" \d+ ms$", " … ms", page, flags=re.MULTILINE),
        lambda script: run(box, home, script),
    )


def test_the_first_minute_of_the_readme_goes_as_it_is_told(box: Box, home: Path) -> None:
    page = page_of("README.md", box, home)
    page = re.sub(r" +# .*$", "", page, flags=re.MULTILINE)
    page = re.sub(r"pid \d+|up \d+ s|\d+ s|\b\d{4,5}\b(?!-)|[\d.]+ MiB", "…", page)
    page = re.sub(r"(?<=\S) {2,}", "…", page)
    check(page, lambda script: run(box, home, script))


def type_what_is_recorded(
    box: Box, home: Path, heading: str, answers: dict[str, dict[str, str]]
) -> None:
    """Type the commands below a heading of the page about clients, beside a service manager."""
    page = page_of("docs/clients.md", box, home)
    page = page.replace(f"{home}/.local/bin/mcpctl", binary("mcpctl"))
    manager = FakeManager(box.root / "fake")
    box.env = {
        "HOME": str(home),
        "PATH": f"{manager.bin}:{Path(binary('mcpctl')).parent}:{os.environ['PATH']}",
        "XDG_RUNTIME_DIR": str(box.root / "run"),
        "MCPD_TEST_BOX": box.tag,
        "COLUMNS": "1000",
    }
    try:
        for command, pattern in recorded(page, heading):
            words, told = command.split()[1:], answers.get(command, {})
            status, said = terminal.typed(box, *words, answers=told)
            said = "".join(f"{line}\n" for line in said.splitlines() if line)
            assert status == exits.DONE, said
            assert re.fullmatch(pattern, said), f"$ {command}\n{said}\n{pattern}"
    finally:
        manager.close()


def test_the_recording_of_init_and_release_is_what_they_say(box: Box, home: Path) -> None:
    memory = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]}
    github = {"command": "uvx", "args": ["github-mcp"], "env": {"GITHUB_TOKEN": "ghp_0000"}}
    cursor, codex = home / ".cursor" / "mcp.json", home / ".codex" / "config.toml"
    for path in (cursor, codex):
        path.parent.mkdir()
    cursor.write_text(json.dumps({"mcpServers": {"memory": memory, "github": github}}, indent=2))
    cursor.chmod(0o644)
    codex.write_text(
        f'[mcp_servers.memory]\ncommand = "npx"\nargs = {json.dumps(memory["args"])}\n'
    )
    before = cursor.read_bytes(), codex.read_bytes()
    answers = {
        "mcpctl init": {"Write this to": "y", "Write this?": "y", "Install it?": "n"},
        "mcpctl release --all": {"Write this?": "y"},
    }
    type_what_is_recorded(box, home, "What it looks like", answers)
    assert (cursor.read_bytes(), codex.read_bytes()) == before


def test_the_recording_of_an_empty_machine_is_what_init_says(box: Box, home: Path) -> None:
    type_what_is_recorded(box, home, "On an empty machine", {})
