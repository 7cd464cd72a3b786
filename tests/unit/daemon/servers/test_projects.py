"""Servers of projects in the daemon: when they are read, known, held and forgotten."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcpd.config.load import Loaded
from mcpd.config.policy import TrustConfig
from mcpd.config.schema import DaemonConfig
from mcpd.core.facts import Failure
from mcpd.daemon.servers import projects
from mcpd.daemon.servers.cache import CatalogCache
from mcpd.daemon.servers.pinstore import PinStore
from mcpd.daemon.servers.projects import Projects
from mcpd.daemon.servers.registry import Registry
from mcpd.ids import SessionId
from mcpd.observe.journal import Journal
from mcpd.projects import kept
from tests.support.waiting import wait_until_async

ENTRY = {"command": "serve", "args": ["$SECRET"]}
ONE, TWO = SessionId(1), SessionId(2)


class Log:
    """The lines of the daemon's log, by name."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, level: str) -> Any:
        return lambda name, **fields: self.lines.append((name, fields))


class Place:
    """A daemon's projects, and one workspace."""

    def __init__(self, folder: Path) -> None:
        self.env = {"PATH": "/bin", "HOME": str(folder), "SECRET": "value-of-secret"}
        self.state, self.shop = folder / "state", folder / "shop"
        for made in (self.state, self.shop):
            made.mkdir(mode=0o700)
        self.workspace = str(self.shop)
        self.registry = Registry(
            str(self.state), CatalogCache(str(self.state)), PinStore(str(self.state)), self.env
        )
        self.journal, self.log, self.changes = Journal(), Log(), 0
        log: Any = self.log
        self.projects = Projects(
            self.registry,
            str(self.state),
            "then",
            changed=self._changed,
            log=log,
            journal=self.journal,
        )

    def _changed(self) -> None:
        self.changes += 1

    def offer(self, **servers: object) -> None:
        (self.shop / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def beside(self, name: str) -> str:
        """Make another workspace."""
        made = self.shop.parent / name
        made.mkdir(mode=0o700)
        return str(made)

    def configure(self, **daemon: Any) -> None:
        trusted = daemon.pop("trusted", ())
        config = DaemonConfig(**daemon)
        trust = TrustConfig(trusted_projects=trusted)
        self.registry.apply(Loaded(daemon=config, trust=trust))
        self.projects.configured()

    def hashes(self) -> dict[str, str]:
        project, _ = self.projects.of(self.workspace)
        return {name: offer.hash for name, offer in project.offers.items()}

    def trust(self, *names: str) -> None:
        hashes = self.hashes()
        shown = {name: hashes[name] for name in names or hashes}
        assert self.projects.trust(self.workspace, shown) is None

    def known(self) -> dict[str, bool]:
        """Return the servers of projects, and whether each can be run."""
        found = (each for each in self.registry if each.entry.workspace is not None)
        return {each.entry.local_name: each.backend is not None for each in found}

    def events(self) -> list[tuple[str, list[str]]]:
        return [(each["event"], each["servers"]) for each in self.journal.since(0)]


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    """A workspace that offers one server."""
    monkeypatch.setenv("HOME", str(tmp_path))
    tmp_path.chmod(0o755)
    made = Place(tmp_path)
    made.offer(one=ENTRY)
    yield made
    made.projects.close()


async def test_what_waits_is_known_and_nothing_of_it_is_resolved(place: Place) -> None:
    place.projects.enter(ONE, place.workspace)
    assert place.known() == {"one": False}
    (server,) = place.registry
    assert server.name == f"one@{place.workspace}"
    assert server.entry.is_untrusted
    assert server.entry.unavailable is not None
    assert server.entry.unavailable.details == {"reason": "project"}
    assert server.configured.config is None
    assert "value-of-secret" not in repr(server)
    assert place.events() == [("project.untrusted", ["one"])]


async def test_what_is_trusted_can_be_run(place: Place) -> None:
    place.projects.enter(ONE, place.workspace)
    place.trust()
    assert place.known() == {"one": True}
    (server,) = place.registry
    assert (server.entry.workspace, server.entry.local_name) == (place.workspace, "one")
    assert server.configured.launch is not None
    assert server.configured.launch.args == ("value-of-secret",)
    assert place.events()[1:] == [("project.trusted", ["one"])]


async def test_one_that_has_changed_is_held_alone(place: Place) -> None:
    place.offer(one=ENTRY, two={"command": "x"})
    place.projects.enter(ONE, place.workspace)
    place.trust()
    place.offer(one={**ENTRY, "cwd": "sub"}, two={"command": "x"})
    place.projects.enter(TWO, place.workspace)
    assert place.known() == {"one": False, "two": True}
    assert place.events()[-1] == ("project.changed", ["one"])
    place.offer(one=ENTRY, two={"command": "x"})
    place.projects.look()
    assert place.known() == {"one": True, "two": True}


async def test_nothing_is_told_twice(place: Place) -> None:
    place.projects.enter(ONE, place.workspace)
    place.projects.enter(TWO, place.workspace)
    place.projects.look()
    place.configure()
    assert place.events() == [("project.untrusted", ["one"])]
    assert place.changes == 2


async def test_only_what_was_shown_is_trusted(place: Place) -> None:
    shown = place.hashes()
    place.offer(one={"command": "evil"})
    failure = place.projects.trust(place.workspace, shown)
    assert failure is not None
    assert (failure.kind, failure.details) == ("denied", {"reason": "project"})
    assert not (place.state / "projects.json").exists()
    gone = place.projects.trust(place.workspace, {"other": "1"})
    assert isinstance(gone, Failure)


async def test_to_ask_whether_one_may_trust_takes_nothing_back(place: Place) -> None:
    path = str(place.state / "projects.json")
    kept.refuse(path, place.workspace, None)
    assert place.projects.trust(place.workspace, {}) is None
    assert kept.read(path)[place.workspace].is_never


async def test_what_is_taken_back_waits_again(place: Place) -> None:
    place.projects.enter(ONE, place.workspace)
    place.trust()
    kept.forget(str(place.state / "projects.json"), place.workspace, None)
    place.projects.look()
    assert place.known() == {"one": False}
    kept.refuse(str(place.state / "projects.json"), place.workspace, None)
    place.projects.look()
    assert place.known() == {}


async def test_a_file_of_answers_that_is_damaged_trusts_nothing(place: Place) -> None:
    place.projects.enter(ONE, place.workspace)
    place.trust()
    (place.state / "projects.json").write_text("{")
    place.projects.look()
    place.projects.look()
    assert place.known() == {"one": False}
    assert [name for name, _ in place.log.lines].count("project.trust_lost") == 1


async def test_a_directory_of_the_configuration_needs_no_question(place: Place) -> None:
    place.projects.enter(ONE, place.workspace)
    place.configure(trusted=(f"{place.shop.parent}/*",))
    assert place.known() == {"one": True}
    place.configure()
    assert place.known() == {"one": False}


async def test_it_is_turned_off_and_on(place: Place) -> None:
    place.configure(projects=False)
    place.projects.enter(ONE, place.workspace)
    assert place.known() == {}
    place.configure()
    assert place.known() == {"one": False}


async def test_files_of_open_sessions_are_watched(place: Place) -> None:
    place.projects.enter(ONE, place.workspace, is_session=True)
    place.offer(one=ENTRY, two={"command": "x"})
    await wait_until_async(lambda: len(place.known()) == 2, what="the new server to be seen")
    kept_file = str(place.state / "projects.json")
    project, _ = place.projects.of(place.workspace)
    answers = kept.answers(project.offers.values(), project.directory)
    kept.trust(kept_file, project.home, answers)
    await wait_until_async(lambda: all(place.known().values()), what="the answer to be seen")


async def test_they_are_kept_for_a_while(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projects, "KEPT_S", 0.0)
    place.projects.enter(ONE, place.workspace)
    place.projects.enter(TWO, place.workspace)
    place.projects.leave(ONE)
    await asyncio.sleep(0)
    assert place.known() == {"one": False}
    place.projects.leave(TWO)
    await wait_until_async(lambda: not place.known(), what="the workspace to be forgotten")


async def test_workspaces_are_bounded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projects, "MOST", 1)
    place.projects.enter(ONE, place.workspace)
    other = place.shop.parent / "other"
    other.mkdir()
    place.projects.enter(TWO, str(other))
    assert [name for name, _ in place.log.lines][-1] == "project.ignored"
    assert place.known() == {"one": False}
    place.projects.leave(ONE)
    place.projects.enter(TWO, str(other))
    assert place.known() == {}


@pytest.mark.parametrize("workspace", ["/a\0b", "/\ud800", "/" + "x" * 5000, None])
async def test_a_workspace_that_cannot_be_has_no_servers(
    place: Place, workspace: str | None
) -> None:
    place.projects.enter(ONE, workspace, is_session=True)
    place.projects.look()
    assert place.known() == {}
    place.projects.leave(ONE)


async def test_a_connection_that_moves_leaves_its_workspace(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projects, "MOST", 1)
    place.projects.enter(ONE, place.workspace)
    other = place.beside("other")
    place.projects.enter(ONE, other)
    assert [project.workspace for project, _ in place.projects.known()] == [other]


async def test_who_comes_back_in_time_finds_the_servers(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projects, "KEPT_S", 0.0)
    place.projects.enter(ONE, place.workspace)
    place.projects.enter(TWO, place.workspace)
    place.projects.leave(ONE)
    await asyncio.sleep(0.01)
    assert place.known() == {"one": False}
    place.projects.leave(TWO)
    place.projects.enter(ONE, place.workspace)
    await asyncio.sleep(0.01)
    assert place.known() == {"one": False}


async def test_the_workspace_that_was_left_first_is_replaced_first(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projects, "MOST", 2)
    first, second, third = (place.beside(name) for name in ("a", "b", "c"))
    place.projects.enter(ONE, first)
    place.projects.enter(TWO, second)
    place.projects.leave(TWO)
    place.projects.leave(ONE)
    place.projects.enter(ONE, third)
    assert {project.workspace for project, _ in place.projects.known()} == {first, third}


async def test_a_trouble_is_logged_once_until_it_has_gone(place: Place) -> None:
    path = place.state / "projects.json"
    place.projects.enter(ONE, place.workspace)
    for text in ("{", "[", '{"version": 1}', "{"):
        path.write_text(text)
        path.chmod(0o600)
        place.projects.look()
    assert [name for name, _ in place.log.lines].count("project.trust_lost") == 2


async def test_a_problem_of_a_file_is_logged_once(place: Place) -> None:
    place.offer(one=ENTRY, two=5)
    place.projects.enter(ONE, place.workspace)
    (place.shop / ".mcpd.toml").write_text('[servers.three]\ncommand = "x"\n')
    place.projects.look()
    assert place.known() == {"one": False, "three": False}
    assert [name for name, _ in place.log.lines].count("project.problem") == 1


async def test_what_was_trusted_before_is_no_news(place: Place) -> None:
    place.trust()
    place.projects.enter(ONE, place.workspace)
    assert place.known() == {"one": True}
    assert place.events() == []


async def test_another_content_that_waits_is_news(place: Place) -> None:
    place.projects.enter(ONE, place.workspace)
    place.offer(one={"command": "x"})
    place.projects.look()
    assert place.events() == [("project.untrusted", ["one"])] * 2


async def test_an_answer_that_cannot_be_written_is_an_error(place: Place) -> None:
    (place.state / "projects.json").mkdir()
    failure = place.projects.trust(place.workspace, place.hashes())
    assert failure is not None
    assert (failure.kind, failure.server) == ("internal", None)


class Watches:
    """The files that are watched, in place of watching them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now: list[tuple[str, ...]] = []
        monkeypatch.setattr(projects, "WATCH_AFTER_S", 0.0)
        monkeypatch.setattr(projects, "FileWatch", self._made)

    def _made(self, paths: tuple[str, ...], _: object) -> SimpleNamespace:
        self.now.append(paths)
        return SimpleNamespace(close=lambda: self.now.remove(paths))


@pytest.fixture
def watches(monkeypatch: pytest.MonkeyPatch) -> Watches:
    """What is watched."""
    return Watches(monkeypatch)


async def test_the_latest_workspaces_with_sessions_are_watched(
    place: Place, watches: Watches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projects, "MOST_WATCHED", 1)
    place.projects.enter(ONE, place.workspace)
    await asyncio.sleep(0.01)
    assert watches.now == []
    place.projects.enter(TWO, place.workspace, is_session=True)
    await asyncio.sleep(0.01)
    other = place.beside("other")
    place.projects.enter(SessionId(3), other, is_session=True)
    place.projects.enter(SessionId(4), place.beside("plain"))
    await asyncio.sleep(0.01)
    ((kept_file, *paths),) = watches.now
    assert kept_file == str(place.state / "projects.json")
    assert {path.startswith(f"{other}/") for path in paths} == {True}


@pytest.mark.parametrize("setting", ["watch", "projects"])
async def test_nothing_is_watched_where_that_is_off(
    place: Place, watches: Watches, setting: str
) -> None:
    place.configure(**{setting: False})
    place.projects.enter(ONE, place.workspace, is_session=True)
    await asyncio.sleep(0.01)
    assert watches.now == []


async def test_after_the_end_nothing_is_watched_or_forgotten(
    place: Place, watches: Watches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projects, "KEPT_S", 0.0)
    place.projects.enter(ONE, place.workspace, is_session=True)
    await asyncio.sleep(0.01)
    place.projects.leave(ONE)
    place.projects.close()
    place.projects.look()
    await asyncio.sleep(0.01)
    assert watches.now == []
    assert place.known() == {"one": False}
