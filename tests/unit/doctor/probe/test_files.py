"""The configuration and its commands as they are found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpd.doctor.facts import Command, Files
from mcpd.doctor.probe.files import files


@pytest.fixture
def look(tmp_path: Path) -> Any:
    (tmp_path / "bin").mkdir()

    def found(path: str | None = None, **entry: Any) -> Command:
        config = tmp_path / "c.json"
        config.write_text(json.dumps({"mcpServers": {"a": {"cwd": str(tmp_path), **entry}}}))
        config.chmod(0o600)
        env = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin", "SECRET": "sentinel-value"}
        seen: Files = files(str(config), env, is_daemons=True, path=path)
        return seen.commands[0]

    return found


def program(path: Path, text: str = "") -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_command_is_looked_for_where_the_daemon_would(look: Any, tmp_path: Path) -> None:
    missing = look(command="tool")
    assert missing.trouble and missing.searched == (f"{tmp_path}/bin",)
    program(tmp_path / "bin" / "tool")
    assert look(command="tool").trouble is None
    assert look(command="tool", path="/nowhere").trouble
    assert look(command="tool", path="/nowhere", env={"PATH": f"{tmp_path}/bin"}).trouble is None


def test_the_path_of_an_env_file_counts(look: Any, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "tool")
    variables = tmp_path / "variables"
    variables.write_text(f"PATH={tmp_path}/bin\n")
    variables.chmod(0o600)
    assert look(command="tool", path="/nowhere", env_file=str(variables)).trouble is None


def test_what_depends_on_the_workspace_is_not_looked_for(tmp_path: Path) -> None:
    """
    Where it is, only a project can tell.
    """
    config = tmp_path / "c.json"
    entry = {"command": "${workspaceFolder}/tool", "cwd": "${workspaceFolder}"}
    config.write_text(json.dumps({"mcpServers": {"a": entry}}))
    config.chmod(0o600)
    found = files(str(config), {"HOME": str(tmp_path)}, is_daemons=True, path=None)
    assert found.commands == ()


def test_a_directory_that_is_not_there(look: Any, tmp_path: Path) -> None:
    assert "does not exist" in look(command="/bin/sh", cwd=str(tmp_path / "none")).trouble


@pytest.mark.parametrize(
    ("first", "lacks"),
    [
        ("#!/usr/bin/env no-such", "no-such"),
        ("#!/usr/bin/env -S no-such -x", "no-such"),
        ("#!/no/such/python", "/no/such/python"),
        ("#!/bin/sh", None),
        ("#!", None),
        ("no script", None),
    ],
)
def test_the_interpreter_of_a_script_is_looked_for(
    look: Any, tmp_path: Path, first: str, lacks: str | None
) -> None:
    script = program(tmp_path / "server", f"{first}\n")
    assert look(command=str(script)).lacks == lacks


def test_an_interpreter_beside_a_script_is_found(look: Any, tmp_path: Path) -> None:
    """
    B029: version managers put node and npx into one directory, which the child's PATH has then.
    """
    (tmp_path / "other").mkdir()
    script = program(tmp_path / "other" / "npx", "#!/usr/bin/env node\n")
    assert look(command=str(script)).lacks == "node"
    program(tmp_path / "other" / "node")
    assert look(command=str(script)).lacks is None
