"""``mcpctl scan``, ``import``, ``adopt`` and ``release`` as processes, also on a terminal."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mcpd.onboarding.clients.table import BY_ID
from mcpd.onboarding.running import process_of
from tests.support.clients import SECRET, Home, entry, tree
from tests.support.waiting import scaled, wait_until

MCPCTL = str(Path(sys.executable).parent / "mcpctl")
FILES = entry("uvx", "server-files")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.path.mkdir()
    (home.path / "work").mkdir()
    run = tmp_path / "run"
    run.mkdir(0o700)
    home.env |= {"XDG_RUNTIME_DIR": str(run), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    return home


def ran(home: Home, *args: str | Path, status: int = 0, **env: str) -> str:
    """Run it without a terminal; return all it wrote."""
    done = subprocess.run(
        [MCPCTL, *map(str, args)],
        env=home.env | env,
        cwd=home.path / "work",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=scaled(30),
    )
    assert done.returncode == status, done.stdout
    assert "Traceback" not in done.stdout
    return done.stdout


def document(home: Home, *args: str | Path, status: int = 0) -> Any:
    return json.loads(ran(home, *args, "--json", status=status))


def typed(home: Home, *args: str, answers: Sequence[tuple[str, str]] = ()) -> tuple[int, str]:
    """Run it on a terminal; answer each question, which is waited for. Return status and output."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(home.path / "work")
        os.execve(MCPCTL, [MCPCTL, *args], home.env | {"TERM": "xterm"})
    out, waiting = "", list(answers)
    while True:
        try:
            chunk = os.read(terminal, 1 << 16)
        except OSError:  # Linux tells the end of a terminal so
            break
        out += chunk.decode()
        if waiting and waiting[0][0] in out:
            os.write(terminal, f"{waiting.pop(0)[1]}\n".encode())
    os.close(terminal)
    assert waiting == []
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), out


def own(home: Home) -> Any:
    path = home.path / ".config/mcpd/mcp.json"
    return json.loads(path.read_text())["mcpServers"] if path.exists() else {}


def connected(home: Home) -> list[str]:
    return [each.name for each in home.users("cursor")[0].servers if each.connects]


# -- scan --------------------------------------------------------------------------------------------


def test_scan_says_what_there_is(home: Home) -> None:
    home.client("cursor", {"a": entry("uvx", "x", env={"TOKEN": SECRET})}, 0o644)
    home.client("vscode", {"b": entry("uvx", "x", env={"K": "${input:k}"}), "c": FILES})
    home.client("codex", {"c": FILES, "ours": entry(MCPCTL, "connect", "c")})
    home.put(".config/mcpd/mcp.json", {"mcpServers": {"files": FILES}})
    home.put(home.file("windsurf"), "{\n nope")
    before = tree(home.path)
    shown = ran(home, "scan")
    assert SECRET not in shown
    for part in (
        "in the clear: env.TOKEN",
        "others can read this file",
        "cannot be moved: only the client can resolve ${input:k}",
        "mcpd has it as files",
        "runs mcpctl connect c",
        "line 2",
        "mcpctl adopt --all",
    ):
        assert part in shown
    files = document(home, "scan")["files"]
    assert [(each["client"], each["scope"]) for each in files] == [
        ("cursor", "user"),
        ("vscode", "user"),
        ("windsurf", "user"),
        ("codex", "user"),
    ]
    assert files[1]["servers"][1]["same"] == files[3]["servers"][0]["same"]
    assert tree(home.path) == before


def test_scan_of_an_empty_machine(home: Home) -> None:
    assert "no client" in ran(home, "scan")
    assert document(home, "scan") == {"files": []}


def test_scan_loads_what_it_needs_and_no_more() -> None:
    """It takes 300 ms at most, and most of that is imports."""
    script = (
        "import sys, mcpctl.commands.scan, mcpd.onboarding.scan, mcpd.onboarding.own, "
        "mcpd.onboarding.clients.search; print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    heavy = {"asyncio", "structlog", "psutil", "logging", "tomlkit", "ruamel.yaml", "subprocess"}
    assert loaded.isdisjoint(heavy | {"mcpd.config.load", "mcpd.config.entry", "mcpd.client"})


# -- import ------------------------------------------------------------------------------------------


def test_import_shows_asks_and_writes(home: Home) -> None:
    home.client("cursor", {"files": FILES})
    status, out = typed(home, "import", "cursor", answers=[("[y/N]", "n")])
    assert (status, own(home)) == (0, {})
    assert "server-files" in out
    status, _ = typed(home, "import", "cursor", answers=[("[y/N]", "y")])
    assert (status, own(home)) == (0, {"files": FILES})
    assert "mcpd has it already" in ran(home, "import", "--yes")


def test_import_asks_for_what_vs_code_asks_for(home: Home) -> None:
    asked = {"id": "key", "type": "promptString", "description": "The API's", "password": True}
    hard = entry("uvx", "x", env={"K": "${input:key}"})
    path = home.client("vscode", {"hard": hard}, inputs=[asked])
    before = path.read_bytes()
    answers = [("the server stays", "se$cret"), ("[y/N]", "y")]
    status, out = typed(home, "import", answers=answers)
    assert status == 0
    assert "The API's" in out
    assert "cret" not in out
    assert own(home)["hard"]["env"] == {"K": "se$$cret"}
    assert path.read_bytes() == before


def test_without_an_answer_the_server_stays_and_the_file_says_so(home: Home) -> None:
    asked = [{"id": "key", "type": "promptString"}]
    hard = entry("uvx", "x", env={"K": "${input:key}"})
    home.client("vscode", {"hard": hard, "easy": FILES}, inputs=asked)
    status, out = typed(home, "import", answers=[("the server stays", ""), ("[y/N]", "y")])
    assert status == 1
    assert "left: hard of vscode" in out
    text = (home.path / ".config/mcpd/mcp.json").read_text()
    assert "// hard of vscode was left out: only the client can resolve ${input:key}\n" in text


def test_import_needs_a_yes(home: Home) -> None:
    home.client("cursor", {"files": FILES})
    before = tree(home.path)
    assert "--yes" in ran(home, "import", status=2)
    ran(home, "import", "--json", status=2)
    ran(home, "import", "--dry-run")
    assert tree(home.path) == before


@pytest.mark.parametrize("command", ["import", "adopt", "release"])
def test_a_client_that_does_not_exist(home: Home, command: str) -> None:
    shown = ran(home, command, "kursor", "--yes", status=2)
    assert "Did you mean cursor" in shown
    shown = ran(home, command, "nosuch", "--yes", status=2)
    assert "Did you mean" not in shown and "antigravity" in shown
    assert "no such file" in ran(home, "import", "./nope.json", status=2)


def test_a_client_without_a_file_is_named(home: Home) -> None:
    assert "it has no file" in ran(home, "import", "cursor", "--yes", status=1)


def test_our_own_file_that_cannot_be_parsed_is_left(home: Home) -> None:
    home.client("cursor", {"files": FILES})
    path = home.put(".config/mcpd/mcp.json", '{\n "mcpServers": nope}')
    for command in (["import"], ["adopt", "--all"]):
        assert "line 2" in ran(home, *command, "--yes", status=2)
    assert path.read_text() == '{\n "mcpServers": nope}'
    assert connected(home) == []


# -- adopt and release -------------------------------------------------------------------------------


def test_adopt_and_release_on_a_terminal(home: Home) -> None:
    one = entry("uvx", "x", env={"TOKEN": SECRET})
    path = home.client("cursor", {"files": one}, 0o644)
    before = path.read_bytes()
    status, out = typed(home, "adopt", "cursor", answers=[("[y/N]", "n")])
    assert (status, path.read_bytes(), own(home)) == (0, before, {})
    status, out = typed(home, "adopt", "cursor", answers=[("[y/N]", "y")])
    assert status == 0
    assert SECRET not in out
    assert "mcpctl release" in out
    assert own(home) == {"files": one}
    assert json.loads(path.read_text())["mcpServers"] == {
        "files": entry(MCPCTL, "connect", "files")
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert "cursor" in ran(home, "adopt", "--status")
    status, out = typed(home, "release", "cursor", answers=[("[y/N]", "n")])
    assert connected(home) == ["files"]
    status, out = typed(home, "release", "cursor", answers=[("[y/N]", "y")])
    assert (status, path.read_bytes()) == (0, before)
    assert SECRET not in out
    assert "nothing is adopted" in ran(home, "adopt", "--status")
    assert own(home) == {"files": one}


def test_adopt_says_what_it_did_as_json(home: Home) -> None:
    path = str(home.client("vscode", {"a": FILES, "b": entry("x", "${workspaceFolder}")}))
    row = {"client": "vscode", "path": path, "name": "a", "server": "a"}
    for more in ("--dry-run", "--yes"):
        done = document(home, "adopt", "vscode", more, status=1)
        assert done["done"] == [row]
        assert [(each["name"], each["client"]) for each in done["left"]] == [("b", "vscode")]
    (adopted,) = document(home, "adopt", "--status")["adopted"]
    assert {key: adopted[key] for key in row} == row
    assert document(home, "release", "--all", "--yes")["done"] == [row]


def test_adopt_wants_to_know_whose_files(home: Home) -> None:
    assert "--all" in ran(home, "adopt", "--yes", status=2)
    assert "--all" in ran(home, "release", "--yes", status=2)
    assert "--all" in ran(home, "adopt", "cursor", "--all", "--yes", status=2)


def test_the_aggregate_says_what_it_renames(home: Home) -> None:
    home.client("cursor", {"a": FILES, "b": entry("uvx", "b")})
    shown = ran(home, "adopt", "cursor", "--aggregate", "--yes")
    assert "SERVER__NAME" in shown
    assert connected(home) == ["mcpd"]
    assert sorted(own(home)) == ["a", "b"]


def test_an_entry_whose_mcpctl_is_gone_is_repaired(home: Home) -> None:
    home.client("cursor", {"files": entry("/gone/mcpctl", "connect", "files", "--session", "x")})
    home.put(".config/mcpd/mcp.json", {"mcpServers": {"files": FILES}})
    assert "/gone/mcpctl" in ran(home, "doctor", status=1)
    ran(home, "adopt", "cursor", "--yes")
    (found,) = home.users("cursor")[0].servers
    assert found.content == entry(MCPCTL, "connect", "files", "--session", "x")
    assert "nothing to adopt" in ran(home, "adopt", "cursor", "--yes")


def test_a_shared_file_says_that_it_is(home: Home) -> None:
    path = home.put("work/.mcp.json", {"mcpServers": {"files": FILES}}, 0o644)
    assert "others who use it" in ran(home, "adopt", path, "--dry-run")
    ran(home, "adopt", "--all", "--yes")
    assert "mcpctl" not in path.read_text()
    ran(home, "adopt", path, "--yes")
    assert "mcpctl" in path.read_text()
    ran(home, "release", path, "--yes")
    assert json.loads(path.read_text()) == {"mcpServers": {"files": FILES}}


def test_a_server_that_is_disabled_in_mcpd_is_said(home: Home) -> None:
    home.put(".config/mcpd/mcp.json", {"mcpServers": {"files": FILES | {"enabled": False}}})
    home.client("cursor", {"files": FILES})
    assert "mcpctl enable files" in ran(home, "adopt", "cursor", "--dry-run")


def test_a_socket_that_is_named_is_written_into_the_entry(home: Home) -> None:
    home.client("cursor", {"files": FILES})
    ran(home, "--socket", "/tmp/other.sock", "adopt", "cursor", "--yes")
    (found,) = home.users("cursor")[0].servers
    assert found.connects is not None
    assert found.connects.socket == "/tmp/other.sock"


@pytest.fixture
def claude(home: Home) -> Iterator[subprocess.Popen[bytes]]:
    """A client that runs."""
    sleep = shutil.which("sleep")
    assert sleep is not None
    program = home.path / "claude"
    program.symlink_to(Path(sleep).resolve())
    process = subprocess.Popen([program, "60"], env=home.env)
    wait_until(lambda: process_of(BY_ID["claude-code"], home.env) == process.pid)
    yield process
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_client_that_runs_and_rewrites_its_file_is_named(
    home: Home, claude: subprocess.Popen[bytes]
) -> None:
    path = home.client("claude-code", {"files": FILES})
    home.client("cursor", {"other": entry("uvx", "o")})
    before = path.read_bytes()
    shown = ran(home, "adopt", "--all", "--yes", status=1)
    assert f"Claude Code runs (process {claude.pid})" in shown
    assert "--force" in shown
    assert path.read_bytes() == before
    assert list(own(home)) == ["other"]
    ran(home, "adopt", "claude-code", "--force", "--yes")
    during = path.read_bytes()
    assert during != before
    assert "--force" in ran(home, "release", "claude-code", "--yes", status=1)
    assert path.read_bytes() == during
    ran(home, "release", "claude-code", "--force", "--yes")
    assert path.read_bytes() == before


def test_an_entry_that_somebody_changed_stays_and_the_originals_are_named(home: Home) -> None:
    path = home.client("cursor", {"files": FILES})
    ran(home, "adopt", "cursor", "--yes")
    path.write_text(path.read_text().replace('"connect"', '"connect", "-v"'))
    before = path.read_bytes()
    for more in ("--dry-run", "--yes"):
        shown = ran(home, "release", "cursor", more, status=1)
        assert "was changed since" in shown
        assert "mcpd/adopted" in shown
        assert "nothing to release" not in shown
    assert path.read_bytes() == before


def test_a_file_that_broke_since_is_left_with_its_line(home: Home) -> None:
    path = home.client("cursor", {"files": FILES})
    ran(home, "adopt", "cursor", "--yes")
    path.write_text("{\n nope")
    assert "line 2" in ran(home, "release", "--all", "--yes", status=2)
    assert path.read_text() == "{\n nope"
    assert "files" in ran(home, "adopt", "--status")


def test_an_original_that_cannot_be_used_is_named(home: Home) -> None:
    """Restored from a backup, others can read it: what it holds could be theirs."""
    home.client("cursor", {"files": entry("uvx", "x")})
    ran(home, "adopt", "cursor", "--yes")
    (row,) = document(home, "adopt", "--status")["adopted"]
    original = Path(row["original"])
    original.chmod(0o644)
    done = document(home, "release", "--all", "--yes", status=1)
    assert done["done"] == []
    assert [each["path"] for each in done["left"]] == [str(original)]
    assert str(original) in ran(home, "release", "--all", "--yes", status=1)
    original.chmod(0o600)
    assert document(home, "release", "--all", "--yes")["left"] == []
