"""What is said of the configuration, from what was read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcpd.config.load import load
from mcpd.doctor.check.config import check
from mcpd.doctor.facts import Command, Files, Talk
from mcpd.doctor.finding import Finding
from mcpd.doctor.probe.files import files
from mcpd.supervise.refusals import command_not_found


def look(tmp_path: Path, servers: dict[str, Any], **daemon: Any) -> Files:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"daemon": daemon, "mcpServers": servers}, indent=1))
    path.chmod(0o600)
    env = {"HOME": "/nowhere", "PATH": "/usr/bin:/bin", "A_TOKEN": "sentinel-1", "X": "y"}
    return files(str(path), env, is_daemons=True, path=None)


def entry(*args: str, **more: Any) -> dict[str, Any]:
    return {"command": "/bin/sh", "args": args, "cwd": "/", **more}


def idents(found: Files, talk: Talk | None = None) -> dict[str, Finding]:
    return {each.id: each for each in check(found, talk)}


def test_a_good_configuration_is_in_order(tmp_path: Path) -> None:
    assert set(idents(look(tmp_path, {"a": entry()}))) == {"config"}


def test_no_servers_is_a_note_with_an_example(tmp_path: Path) -> None:
    found = idents(look(tmp_path, {}))["no_servers"]
    assert found.severity == "note" and "mcpServers" in str(found.remedy)


def test_problems_have_their_place_and_what_to_type(tmp_path: Path) -> None:
    servers = {"a": entry("${NOT_SET}"), "b": entry(colour=1)}
    found = idents(look(tmp_path, servers, shell_env=False))
    error, warning = found["config_error"], found["config_warning"]
    assert (error.server, error.severity) == ("a", "error")
    assert "config.json:9: mcpServers.a.args[0]: the variable NOT_SET is not set" in error.message
    assert str(error.remedy).startswith("`export NOT_SET=…`")
    assert (warning.server, warning.severity) == ("b", "warning")
    assert str(warning.remedy).endswith("config.json:17")
    running = Talk(hello={"version": "1.0"})
    told = idents(look(tmp_path, {"b": entry(colour=1)}), running)["config_warning"].remedy
    assert str(told).endswith(", then: mcpctl reload")


def test_what_only_the_login_shell_may_have_is_said_by_the_daemon(tmp_path: Path) -> None:
    files = look(tmp_path, {"a": entry("${NOT_SET}")})
    found = idents(files)["variables_unknown"]
    assert (found.server, found.severity) == ("a", "note") and "NOT_SET" in found.message
    text = "f, line 1: error: args[0]: the variable NOT_SET is not set: type `export NOT_SET=…`"
    listed = {"servers": [{"name": "a", "file": "f", "enabled": True, "config": {}, "error": text}]}
    found = idents(files, Talk(listed=listed))["config_error"]
    assert found.message.endswith("NOT_SET is not set") and found.remedy == "`export NOT_SET=…`"
    listed["servers"][0]["error"] = None
    assert not {"config_error", "variables_unknown"} & set(idents(files, Talk(listed=listed)))


def test_a_file_that_others_can_write_is_told_with_its_chmod(tmp_path: Path) -> None:
    look(tmp_path, {"a": entry()})
    path = tmp_path / "config.json"
    path.chmod(0o666)
    found = idents(files(str(path), {}, is_daemons=True, path=None))
    assert found["config_file"].remedy == f"chmod o-w {path}"
    assert "config" not in found and "no_servers" not in found


def test_a_file_of_another_user_is_to_be_trusted_first() -> None:
    loaded = load("/nowhere/x.json", {})
    message = "refused: it belongs to eve (uid 7), and only you and root may say what to run; if you trust what it says, type: sudo chown 1 /x"
    problem = type(loaded.problems[0])(severity="error", message=message, file="/x")
    loaded = type(loaded)(problems=(problem,), broken=True)
    (found,) = [
        e for e in check(Files(loaded=loaded, is_daemons=True), None) if e.severity == "error"
    ]
    assert found.remedy == "if you trust what it says: sudo chown 1 /x"


@pytest.mark.parametrize(
    ("args", "is_told"),
    [
        (["--api-key=abcdefgh"], True),
        (["--api-key", "abcdefgh"], True),
        (["-e", "API_KEY=abcdefgh"], True),
        (["https://me:abcdefgh@host/"], True),
        (["${A_TOKEN}"], True),
        (["--api-key", "${X}"], True),
        (["-e", "API_KEY"], False),
        (["--keyboard"], False),
        (["${HOME}/x"], False),
        (["${X}"], False),
    ],
)
def test_arguments_that_look_like_secrets(tmp_path: Path, args: list[str], is_told: bool) -> None:
    """
    B140: whoever types ps sees them; and we do not repeat them.
    """
    found = idents(look(tmp_path, {"a": entry(*args)}))
    assert ("secret_in_arguments" in found) == is_told
    assert "abcdefgh" not in repr(found) and "sentinel" not in repr(found)


@pytest.mark.parametrize(
    ("command", "args", "is_told"),
    [
        ("docker", ["run", "-i", "img"], True),
        ("/usr/bin/podman", ["run", "-i", "img"], True),
        ("docker", ["run", "-i", "--rm", "img"], False),
        ("docker", ["exec", "it"], False),
        ("sh", ["run"], False),
    ],
)
def test_containers_that_stay(tmp_path: Path, command: str, args: list[str], is_told: bool) -> None:
    """
    B009: each start leaves one more on the disk.
    """
    found = idents(look(tmp_path, {"a": {"command": command, "args": args, "cwd": "/"}}))
    assert ("container_options" in found) == is_told


def test_a_command_that_is_not_there_is_told_with_every_directory(tmp_path: Path) -> None:
    """
    B029: the PATH of a service is not that of a terminal.
    """
    searched = ["/a", "/b", "/c", "/d"]
    trouble = command_not_found("npx", searched).message
    command = Command(
        server="a", command="npx", trouble=trouble, hint="install Node.js", searched=tuple(searched)
    )
    found = look(tmp_path, {"a": entry()})
    found = Files(loaded=found.loaded, is_daemons=True, commands=(command,))
    told = idents(found)["command_not_found"]
    assert told.message == "command not found: 'npx' (looked in /a, /b, /c, /d)"
    assert told.remedy == "install Node.js"


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    script = tmp_path / "server"
    script.write_text("#!/usr/bin/env no-such-node\n")
    script.chmod(0o755)
    found = idents(look(tmp_path, {"a": {"command": str(script), "cwd": "/"}}))
    assert "'no-such-node'" in found["interpreter_not_found"].message


def test_a_file_of_secrets_that_others_can_read(tmp_path: Path) -> None:
    """
    B142: it is refused, and the line says what to type.
    """
    secrets = tmp_path / "secrets"
    secrets.write_text("A=b\n")
    secrets.chmod(0o644)
    found = idents(look(tmp_path, {"a": entry(env_file=str(secrets))}))["config_error"]
    assert "others can read" in found.message and found.remedy == f"chmod go= {secrets}"


def listed(found: Files, **changes: Any) -> Talk:
    servers = [
        {"name": name, "file": "f", "line": 1, "enabled": True, "config": values, "error": None}
        for name, values in found.masked.items()
    ]
    for server in servers:
        server.update(changes)
    return Talk(listed={"servers": servers, "files": [], "errors": []})


def test_files_that_have_changed_since_they_were_read(tmp_path: Path) -> None:
    before = look(tmp_path, {"a": entry("1"), "b": entry(), "c": entry()}, watch=False)
    assert "config_not_reloaded" not in idents(before, listed(before))
    now = look(tmp_path, {"a": entry("2"), "b": entry(), "d": entry()}, watch=False)
    found = idents(now, listed(before))["config_not_reloaded"]
    assert found.message.endswith("(watch = false, so nothing notices that): a, c, d")
    assert found.remedy == "mcpctl reload"


def test_servers_of_clients_are_in_no_file(tmp_path: Path) -> None:
    found = look(tmp_path, {})
    talk = Talk(listed={"servers": [{"name": "x-1", "file": "", "config": None, "error": None}]})
    assert "config_not_reloaded" not in idents(found, talk)


def test_another_environment_than_the_daemons_proves_nothing(tmp_path: Path) -> None:
    before, now = look(tmp_path, {"a": entry("1")}), look(tmp_path, {"a": entry("2")})
    blind = Files(loaded=now.loaded, is_daemons=False, masked=now.masked)
    assert "config_not_reloaded" not in idents(blind, listed(before))


def test_entries_that_do_not_count_are_told(tmp_path: Path) -> None:
    for name in ("mcp.json", "config.toml"):
        place = tmp_path / "mcpd" / name
        place.parent.mkdir(exist_ok=True)
        text = (
            '{"mcpServers": {"a": {"command": "sh"}}}'
            if name[-1] == "n"
            else '[servers.a]\ncommand = "sh"'
        )
        place.write_text(text)
        place.chmod(0o600)
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "PATH": os.defpath}
    found = idents(files(None, env, is_daemons=True, path=None))["entry_replaced"]
    assert (found.severity, found.server) == ("note", "a")
    assert "mcp.json:1" in found.message and "config.toml:1" in found.message
