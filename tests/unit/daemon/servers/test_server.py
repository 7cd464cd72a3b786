"""What makes two processes different, and what an entry comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpd.config.entry import entry_from_json
from mcpd.config.load import load
from mcpd.core.interface.entries import Interactive, Sharing
from mcpd.core.mcp.versions import Era
from mcpd.daemon.servers.server import Server, assemble
from mcpd.upstreams.http.spec import RemoteSpec

BASE = {"PATH": "/bin", "HOME": "/home/ada", "TERM": "xterm"}


def server(
    base: dict[str, str] | None = None,
    *,
    name: str = "x",
    ignore: tuple[str, ...] = (),
    is_ad_hoc: bool = False,
    **values: Any,
) -> Server:
    configured = entry_from_json(
        {"command": "srv", **values}, name=name, env=base or BASE, cwd="/home/ada"
    )
    return assemble(configured, base_env=base or BASE, ignore_env=ignore, is_ad_hoc=is_ad_hoc)


def test_names_and_the_order_of_variables_make_no_difference() -> None:
    """
    B085: two entries with equal launches are one process.
    """
    one = server(env={"A": "1", "B": "2"}, name="one")
    two = server(env={"B": "2", "A": "1"}, name="two")
    assert one.entry.launch == two.entry.launch
    assert one.cache_key == two.cache_key


@pytest.mark.parametrize(
    "values",
    [
        {"env": {"A": "2"}},
        {"args": ["b", "a"]},
        {"cwd": "/elsewhere"},
        {"command": "other"},
        {"inherit_env": "none"},
        {"roots": ["file:///r"]},
    ],
)
def test_settings_that_a_process_sees_change_its_launch(values: dict[str, Any]) -> None:
    """
    B085.
    """
    plain = server(args=["a", "b"], env={"A": "1"})
    other = server(**{"args": ["a", "b"], "env": {"A": "1"}, **values})
    assert plain.entry.launch != other.entry.launch
    assert plain.cache_key != other.cache_key


@pytest.mark.parametrize("values", [{"idle_timeout": 5}, {"tools": {"deny": ["x"]}}])
def test_settings_that_no_process_sees_do_not_change_its_launch(values: dict[str, Any]) -> None:
    assert server().entry.launch == server(**values).entry.launch


def test_the_daemons_environment_counts_for_the_process_and_not_for_the_cache() -> None:
    """
    A new daemon has another one, and what servers listed is still true.
    """
    other = server({**BASE, "LANG": "C"})
    assert server().entry.launch != other.entry.launch
    assert server().cache_key == other.cache_key


def test_a_terminals_variables_count_only_in_an_entry() -> None:
    assert server().entry.launch == server({**BASE, "TERM": "vt100"}).entry.launch
    assert server().entry.launch != server(env={"TERM": "dumb"}).entry.launch


def test_a_clients_command_is_the_same_in_every_terminal() -> None:
    def brought(**env: str) -> Server:
        whole = {**BASE, **env}
        return server(is_ad_hoc=True, env=whole, inherit_env="none", ignore=("X_*", "Y"))

    assert brought().entry.launch == brought(TERM="vt100", X_1="1", Y="2").entry.launch
    assert brought().entry.launch != brought(YY="2").entry.launch


def test_a_clients_command_that_equals_a_configured_server_is_that_process() -> None:
    brought = server(is_ad_hoc=True, env=dict(BASE), inherit_env="none")
    assert brought.entry.launch == server().entry.launch


def test_rules_and_limits_are_those_of_the_entry() -> None:
    made = server(
        call_timeout="2s",
        idle_timeout=7,
        stop_grace=0.5,
        sharing="workspace",
        retry="never",
        restart={"policy": "never", "backoff": 1},
        tools={"deny": ["rm*"]},
    )
    assert made.entry.call_timeout == 2
    assert made.entry.stop_grace == 0.5
    assert made.entry.sharing is Sharing.WORKSPACE
    assert not made.entry.may_repeat
    assert not made.entry.filter.admits("rm_all")
    assert made.backend is not None
    assert made.backend.rules.idle_timeout == 7
    assert not made.backend.rules.restarts
    assert made.backend.grace == 0.5
    assert made.backend.cwd == "/home/ada"
    assert not made.backend.names_cwd


def test_automatic_sharing_is_shared() -> None:
    assert server().entry.sharing is Sharing.SHARED


@pytest.mark.parametrize(
    ("file", "text", "hint"),
    [
        ("a.toml", "[servers.x]\ncommand='s'\nenabled=false", "enabled = true"),
        ("a.toml", "[servers.x]\ncommand='s'\ndisabled=true", "disabled = false"),
        ("a.json", '{"servers": {"x": {"command": "s", "disabled": true}}}', '"disabled": false'),
        (
            "a.json",
            '{"servers": {"x": {"command": "s", "disabled": true, "enabled": false}}}',
            '"enabled": true and "disabled": false',
        ),
        (
            "a.json",
            '{"servers": {"x": {"command": "s", "disabled": true, "enabled": true}}}',
            '"disabled": false',
        ),
    ],
)
def test_a_disabled_server_says_how_to_enable_it(
    tmp_path: Path, file: str, text: str, hint: str
) -> None:
    """
    ``enabled`` beside a ``disabled`` that says otherwise would change nothing.
    """
    path = tmp_path / file
    path.write_text(text)
    made = assemble(load(str(path), BASE).entries["x"], base_env=BASE)
    assert made.backend is None
    assert made.entry.unavailable is not None
    assert made.entry.unavailable.kind == "server_disabled"
    assert made.entry.unavailable.hint == f"set {hint} for x in {path}"


def test_a_wrong_entry_says_what_is_wrong() -> None:
    made = server(env={"A": "${NOT_SET_ANYWHERE}"})
    assert made.entry.unavailable is not None
    assert made.entry.unavailable.kind == "config_invalid"
    assert "NOT_SET_ANYWHERE" in made.entry.unavailable.message


@pytest.mark.parametrize(
    ("values", "helps"),
    [
        ({"env": {"A": "$NO"}}, "type `export NO=…`, then `mcpctl restart --daemon`"),
        ({"args": "x"}, "when that is mended: mcpctl reload"),
    ],
)
def test_a_wrong_entry_says_how_to_correct_it(values: dict[str, Any], helps: str) -> None:
    """
    Reading the files again gives the daemon no variable.
    """
    made = server(**values)
    assert made.entry.unavailable is not None
    assert made.entry.unavailable.hint == helps


def test_a_browser_is_not_shared() -> None:
    """
    B084: what is known to keep state for each client is not shared unless its entry says so.
    """
    package = ["@playwright/mcp@latest"]
    alone = server(command="npx", args=package)
    assert alone.entry.sharing is Sharing.SESSION
    assert alone.sharing_reason == "@playwright/mcp keeps state for each client"
    shared = server(command="npx", args=package, sharing="shared")
    assert shared.entry.sharing is Sharing.SHARED
    assert shared.sharing_reason is not None and "all share it" in shared.sharing_reason
    one_each = server(command="npx", args=package, sharing="workspace")
    assert (one_each.entry.sharing, one_each.sharing_reason) == (Sharing.WORKSPACE, None)


def test_the_roots_of_a_session_need_a_process_of_its_own() -> None:
    found = server(roots="session")
    assert found.entry.sharing is Sharing.SESSION
    assert found.entry.asks_for_roots
    assert found.sharing_reason == "its roots are those of a session"
    assert not server().entry.asks_for_roots
    assert server().sharing_reason is None


def test_the_core_gets_what_an_entry_says_of_eras_and_questions() -> None:
    entry = server(
        era="modern",
        interactive="off",
        question_timeout=1,
        question_wait=2,
        parked_timeout=3,
        startup_timeout=4,
    ).entry
    assert entry.era is Era.MODERN
    assert entry.interactive is Interactive.OFF
    assert (entry.question_timeout, entry.question_wait, entry.parked_timeout) == (1, 2, 3)
    assert entry.startup_timeout == 4
    assert server().entry.era is None


def test_a_secret_of_a_file_makes_a_difference_and_is_in_no_key(tmp_path: Path) -> None:
    """
    B142: what is on disk must not change with it, nor can anybody try guesses on what is shown.
    """
    file = tmp_path / "env"
    found = []
    for secret in ("one-secret", "another"):
        file.write_text(f"A={secret}")
        file.chmod(0o600)
        found.append(server(env_file=str(file)))
    one, other = found
    assert one.entry.launch != other.entry.launch
    assert one.cache_key == other.cache_key
    assert one.backend is not None
    assert one.backend.env == {"A": "one-secret"}
    assert "one-secret" not in str(one.environment)
    guess = server(env={"A": "one-secret"})
    assert guess.entry.launch != one.entry.launch


def test_the_supervisor_and_the_core_know_a_package_runner() -> None:
    fetched = server(command="npx", args=["-y", "pkg@1"], startup_timeout_max=9)
    assert fetched.backend is not None and fetched.backend.package == ("npx", "pkg@1")
    assert fetched.entry.is_fetched
    assert fetched.backend.rules.startup_timeout_max == 9
    plain = server()
    assert plain.backend is not None and plain.backend.package is None
    assert not plain.entry.is_fetched


@pytest.mark.parametrize(
    ("values", "sharing"),
    [
        ({}, Sharing.WORKSPACE),
        ({"sharing": "workspace"}, Sharing.WORKSPACE),
        ({"sharing": "session"}, Sharing.SESSION),
        ({"roots": "session"}, Sharing.WORKSPACE),
    ],
)
def test_a_server_that_names_the_workspace_is_started_for_one(
    values: dict[str, Any], sharing: Sharing
) -> None:
    """
    B103.
    """
    made = server(args=["${workspaceFolder}"], **values)
    assert made.entry.sharing is sharing
    assert made.entry.of_workspace
    assert made.backend is not None
    assert made.backend.of_workspace


def far(*, name: str = "far", **values: Any) -> Server:
    content = {"url": "https://x.example/mcp", **values}
    configured = entry_from_json(content, name=name, env={**BASE, "T": "one"}, cwd="/")
    return assemble(configured, base_env=BASE)


def test_a_remote_server_is_reached_as_its_entry_says() -> None:
    made = far(headers={"X-A": "$T"}, idle_timeout=7, stop_grace=0.5, tools={"deny": ["rm*"]})
    assert isinstance(made.backend, RemoteSpec)
    assert made.backend.remote.headers == {"X-A": "one"}
    assert made.backend.rules.idle_timeout == 7
    assert made.backend.grace == 0.5
    assert (made.backend.package, made.backend.of_workspace) == (None, False)
    assert made.entry.sharing is Sharing.SHARED
    assert made.entry.filter.deny == ("rm*",)
    assert not made.entry.is_fetched


def test_the_sharing_of_a_remote_server_is_that_of_its_entry() -> None:
    assert far(sharing="session").entry.sharing is Sharing.SESSION
    made = far(roots="session")
    assert (made.entry.sharing, made.entry.asks_for_roots) == (Sharing.SESSION, True)


def test_equal_remote_servers_are_one_in_any_spelling() -> None:
    other = far(name="two", url="", serverUrl="https://x.example/mcp", http_headers={"X-A": "b"})
    assert far(headers={"X-A": "b"}).entry.launch == other.entry.launch


@pytest.mark.parametrize(
    "values",
    [
        {"url": "https://x.example/other"},
        {"url": "https://x.example/mcp?a=b"},
        {"transport": "sse"},
        {"headers": {"X-A": "b"}},
        {"headers": {"X-A": "$T"}},
        {"auth": "none"},
        {"auth": "Bearer ${T}"},
        {"proxy": "none"},
        {"era": "legacy"},
        {"roots": ["file:///x"]},
    ],
)
def test_what_a_remote_server_sees_changes_its_launch(values: dict[str, Any]) -> None:
    assert far().entry.launch != far(**values).entry.launch
    assert far().cache_key != far(**values).cache_key


def test_a_variable_counts_for_the_connection_and_not_for_the_cache() -> None:
    one = far(auth="Bearer ${T}")
    content = {"url": "https://x.example/mcp", "auth": "Bearer ${T}"}
    two = assemble(entry_from_json(content, name="far", env={"T": "two"}, cwd="/"), base_env=BASE)
    assert one.entry.launch != two.entry.launch
    assert one.cache_key == two.cache_key


def test_a_remote_server_that_cannot_be_used_says_why() -> None:
    made = far(headers={"X-A": "${NO}"})
    assert made.backend is None
    assert made.entry.unavailable is not None
    assert made.entry.unavailable.kind == "config_invalid"
    assert "variable NO is not set" in made.entry.unavailable.message
    assert "export NO=" in str(made.entry.unavailable.hint)


def test_what_was_approved_is_of_a_command_and_its_arguments() -> None:
    """
    Pins and answers hold whatever the values of its environment, and for no other command.
    """
    plain, env = server(), server(env={"TOKEN": "another"})
    assert plain.entry.identity == env.entry.identity != ""
    assert plain.entry.rules.identity == env.entry.rules.identity
    assert server(args=["--other"]).entry.identity != plain.entry.identity
