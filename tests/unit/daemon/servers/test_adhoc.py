"""Servers that clients bring: what they are called, who shares them, when they go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpd.config.entry import entry_from_json
from mcpd.config.load import Loaded
from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Settings
from mcpd.core.interface.events import EntriesChanged
from mcpd.core.mux.mux import Mux
from mcpd.core.policy.stateful import known_stateful
from mcpd.daemon.servers import adhoc
from mcpd.daemon.servers.adhoc import AdHoc, stem_of
from mcpd.daemon.servers.cache import CatalogCache
from mcpd.daemon.servers.pinstore import PinStore
from mcpd.daemon.servers.registry import Registry
from tests.support.waiting import wait_until_async

ENV = {"PATH": "/bin", "HOME": "/home/ada"}


@pytest.mark.parametrize(
    ("command", "args", "stem"),
    [
        ("uvx", ["mcp-server-git", "--repository", "/r"], "mcp-server-git"),
        ("npx", ["-y", "@modelcontextprotocol/server-git"], "server-git"),
        ("npx", ["-y", "@scope/server@1.2.3", "/home/ada"], "server"),
        ("npm", ["exec", "server-x"], "server-x"),
        ("/usr/bin/python3.12", ["-u", "/opt/my server/run.py", "--x"], "run"),
        ("node", ["build/index.js"], "index"),
        ("/opt/bin/files-server", ["--port", "1"], "files-server"),
        ("uvx", ["mcp-server-time==1.0"], "mcp-server-time"),
        ("bash", ["-c", "exec srv | cat"], "exec-srv-cat"),
        ("python", [], "python"),
        ("/", [], "server"),
        ("x" * 90, [], "x" * 40),
    ],
)
def test_its_name_comes_from_the_program_or_package(
    command: str, args: list[str], stem: str
) -> None:
    assert stem_of(command, tuple(args)) == stem


class Place:
    """A registry with one configured server, and what is told to the mux."""

    def __init__(self, folder: Path) -> None:
        configured = entry_from_json({"command": "srv"}, name="conf", env=ENV, cwd="/home/ada")
        self.registry = Registry(str(folder), CatalogCache(str(folder)), PinStore(str(folder)), ENV)
        self.registry.apply(Loaded(entries={"conf": configured}))
        self.mux = Mux(Settings(version="0"), suggest=lambda *_: [])
        self.changes = 0
        self.ad_hoc = AdHoc(self.registry, self.mux, self._changed)

    def _changed(self) -> None:
        self.changes += 1
        self.mux.handle(EntriesChanged(self.registry.entries()), 0.0)

    def bring(self, **more: Any) -> str | Failure:
        command = {"command": "/opt/tool", "inherit_env": "none", "env": dict(ENV), **more}
        return self.ad_hoc.bring(command, "/home/ada")

    def names(self) -> list[str]:
        return [server.name for server in self.registry]


@pytest.fixture
async def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_equal_commands_are_one_server(place: Place) -> None:
    first = place.bring()
    assert isinstance(first, str)
    assert first.startswith("tool-")
    assert len(first) == len("tool-3f2a")
    assert place.bring() == first
    assert place.bring(env={**ENV, "TERM": "other"}) == first
    assert place.bring(args=["more"]) != first
    assert place.bring(env={**ENV, "MINE": "1"}) != first
    assert place.changes == 3


async def test_a_command_that_equals_a_configured_server_is_that_server(place: Place) -> None:
    assert place.bring(command="srv") == "conf"
    assert place.names() == ["conf"]


async def test_arguments_from_a_command_line_are_not_expanded_again(place: Place) -> None:
    name = place.bring(args=["$HOME", "~", "${NOPE}"])
    assert isinstance(name, str)
    server = place.registry.get(name)
    assert server is not None
    assert server.backend is not None
    assert server.backend.args == ("$HOME", "~", "${NOPE}")
    assert server.backend.env == ENV


async def test_an_entry_that_inherits_is_read_like_one_of_a_file(place: Place) -> None:
    name = place.ad_hoc.bring({"command": "/opt/tool", "args": ["${HOME}/x"]}, None)
    assert isinstance(name, str)
    server = place.registry.get(name)
    assert server is not None
    assert server.backend is not None
    assert server.backend.args == ("/home/ada/x",)


async def test_a_command_that_is_no_valid_entry_is_refused(place: Place) -> None:
    refused = place.bring(command=5)
    assert isinstance(refused, Failure)
    assert refused.kind == "config_invalid"
    assert "command" in refused.message
    assert place.changes == 0


async def test_a_brought_server_is_removed_after_its_last_session(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adhoc, "KEPT_S", 0.02)
    name = place.bring()
    assert isinstance(name, str)
    await wait_until_async(lambda: place.names() == ["conf"])
    assert place.changes == 2
    again = place.bring()
    assert again == name
    place.ad_hoc.session_closed(name)
    place.ad_hoc.session_closed(None)
    place.ad_hoc.session_closed("conf")
    await wait_until_async(lambda: place.names() == ["conf"])


async def test_one_too_many_replaces_a_server_without_sessions(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A client that brings one command after another made a server of each, for a minute at least.
    """
    monkeypatch.setattr(adhoc, "MOST", 2)
    first, second = place.bring(args=["1"]), place.bring(args=["2"])
    place.bring(args=["1"])  # it is the newer one again
    third = place.bring(args=["3"])
    assert place.names() == ["conf", first, third]
    assert second not in place.names()


async def test_one_too_many_is_refused_where_all_are_in_use(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adhoc, "MOST", 1)
    name = place.bring(args=["1"])
    monkeypatch.setattr(place.ad_hoc, "_remove_one", lambda: False)
    refused = place.bring(args=["2"])
    assert isinstance(refused, Failure)
    assert (refused.kind, refused.is_retryable) == ("rate_limited", True)
    assert place.names() == ["conf", name]


@pytest.mark.parametrize(
    "more", [{"args": [""] * 20_000}, {"env": {str(n): "" for n in range(20_000)}}]
)
async def test_a_command_with_too_many_words_is_refused(place: Place, more: dict[str, Any]) -> None:
    refused = place.bring(**more)
    assert isinstance(refused, Failure)
    assert refused.kind == "config_invalid"


async def test_status_names_the_variables_in_which_a_server_differs(place: Place) -> None:
    place.bring()
    other = place.bring(env={**ENV, "B": "1", "A": "secret"})
    assert isinstance(other, str)
    server = place.registry.get(other)
    assert server is not None
    said = place.ad_hoc.differs_in(server)
    assert said is not None
    assert said.endswith("in its environment: A, B")
    assert "secret" not in said


def test_a_word_of_megabytes_is_named_in_linear_time():
    """
    The search for its version was quadratic: minutes, for everybody.
    """
    assert stem_of("npx", ("@" * 2_000_000 + "/x",)) == "x"
    assert known_stateful("npx", ["[" * 2_000_000 + "\n"]) is None


async def test_no_secret_becomes_a_name(place: Place) -> None:
    """
    B139: the first argument that is no option may be the value of one.
    """
    for args in (["--pat", "sentinel-1234"], ["-H", "Authorization: sentinel-1234"]):
        name = place.bring(command="node", args=[*args, "server.js"])
        assert isinstance(name, str)
        assert "sentinel" not in name


async def test_a_server_that_is_reached_by_url_needs_an_entry(place: Place) -> None:
    refused = place.ad_hoc.bring({"url": "https://x.example/mcp"}, None)
    assert isinstance(refused, Failure)
    assert refused.kind == "config_invalid"
    assert "needs an entry in the configuration" in refused.message
