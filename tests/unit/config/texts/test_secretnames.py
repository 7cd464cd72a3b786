"""``${keyring:NAME}`` in entries: where it can stand, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

from mcpd.config.entry import ServerEntry, entry_from_json, masked
from mcpd.config.texts import secretnames, workspace
from mcpd.config.texts.interpolate import Unresolved, joined, resolve

ENV = {"HOME": "/home/ada", "V": "value"}


def entry(**content: Any) -> ServerEntry:
    return entry_from_json(content, name="x", env=ENV, cwd="/work")


@pytest.mark.parametrize(
    "written",
    ["${keyring:}", "${keyring:a b}", "${keyring:../x}", "${keyring:.x}", "${keyring:a:-b}",
     "${keyring:" + "a" * 129 + "}", "${keyring:ü}"],
)  # fmt: skip
def test_a_name_that_no_secret_can_have_is_refused(written: str) -> None:
    with pytest.raises(Unresolved, match="name of a secret"):
        resolve(written, ENV)


def test_a_placeholder_is_filled_and_everything_else_stays() -> None:
    text = joined(resolve("a ${keyring:gh}b${NO:-${keyring:d.e-f_1}} $$ $V", ENV))
    assert secretnames.names_in([text, "none"]) == ("d.e-f_1", "gh")
    assert secretnames.filled(text, {"gh": "${V}", "d.e-f_1": "\\1"}) == "a ${V}b\\1 $ value"
    assert secretnames.without(text) == "a xbx $ value"


def test_placeholders_of_secrets_and_workspaces_are_not_taken_for_each_other() -> None:
    template = (
        "${workspaceFolder}${keyring:workspaceFolder}workspaceFolder${keyring:x}"
        "${workspaceFolder}keyring:x;${workspaceFolderBasename}${workspaceFolder}"
    )
    text = joined(resolve(template, ENV))
    secrets = {"workspaceFolder": "S", "x": "T"}
    wanted = "/srv/appSworkspaceFolderT/srv/appkeyring:x;app/srv/app"
    assert secretnames.filled(workspace.placed(text, "/srv/app"), secrets) == wanted
    assert workspace.placed(secretnames.filled(text, secrets), "/srv/app") == wanted


def test_a_secret_stands_in_env_and_arguments_and_is_shown_by_its_name() -> None:
    found = entry(
        command="run",
        args=["--flag", "--token=${keyring:b}"],
        env={"TOKEN": "${keyring:a}", "PLAIN": "x${keyring:a}"},
    )
    assert found.error is None and found.secret_names == ("a", "b")
    assert found.launch is not None and not workspace.is_named_in(found.launch.env["TOKEN"])
    assert not found.launch.of_workspace
    [warning] = found.problems
    assert (
        warning.severity == "warning"
        and "ps" in warning.message
        and warning.key == "command.args[1]"
    )
    shown = masked(found)
    assert shown["env"] == {"TOKEN": "${keyring:a}", "PLAIN": "x${keyring:a}"}
    assert shown["args"] == ("--flag", "--token=${keyring:b}")
    assert not any("\0" in secret for secret in found.secrets)


def test_a_secret_stands_in_headers_and_auth() -> None:
    found = entry(
        url="https://x.example/mcp",
        headers={"X-Team": "blue ${keyring:a}"},
        auth={"type": "basic", "username": "ada", "password": "${keyring:b}"},
    )
    assert found.error is None and found.secret_names == ("a", "b") and found.problems == ()
    assert found.shown_remote is not None
    assert found.shown_remote.auth.password == "${keyring:b}"


@pytest.mark.parametrize(
    "content",
    [
        {"command": "${keyring:a}"},
        {"command": "x", "cwd": "/${keyring:a}"},
        {"command": "x", "env_file": "${keyring:a}"},
        {"url": "https://x.example/${keyring:a}"},
        {"url": "https://x.example/", "proxy": "http://u:${keyring:a}@p:1"},
        {"url": "https://x.example/", "ca_file": "${keyring:a}"},
        {
            "url": "https://x.example/",
            "auth": {"type": "oauth", "client_metadata_url": "https://x.example/${keyring:a}"},
        },
        {
            "url": "https://x.example/",
            "auth": {"type": "oauth", "authorize_params": {"a": "${keyring:a}"}},
        },
    ],
)
def test_a_secret_stands_nowhere_else(content: dict[str, Any]) -> None:
    found = entry(**content)
    assert found.error is not None and "env, args, headers and auth" in found.error
    assert found.launch is None and found.remote is None


def test_a_command_line_that_a_shell_has_expanded_names_no_secret() -> None:
    content = {"command": "echo", "args": ["${keyring:a}"]}
    found = entry_from_json(content, name="x", env=ENV, cwd="/", literal=True)
    assert found.secret_names == () and found.launch is not None
    assert found.launch.args == ("${keyring:a}",)
