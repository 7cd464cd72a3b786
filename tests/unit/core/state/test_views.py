"""Which servers the sessions of a workspace know."""

from __future__ import annotations

from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Entry
from mcpd.core.state.views import Views
from mcpd.principal import bearer
from tests.unit.core.mux.world import World

WAITS = Failure("denied", "it waits")
VIEWS = Views(
    [
        Entry(name="git", launch="1"),
        Entry(name="time", launch="2"),
        Entry(name="git@/a", launch="3", workspace="/a", local_name="git"),
        Entry(name="time@/a", launch="", workspace="/a", local_name="time", unavailable=WAITS),
        Entry(name="new@/a", launch="", workspace="/a", local_name="new", unavailable=WAITS),
        Entry(name="new@/b", launch="", workspace="/b", local_name="new", unavailable=WAITS),
    ]
)


def named(name: str, workspace: str | None) -> str | None:
    found = VIEWS.named(name, workspace)
    return None if found is None else found.name


def test_a_project_stands_over_the_user():
    assert [*VIEWS.of("/a")] == ["time", "git@/a"]
    assert [*VIEWS.of("/b")] == [*VIEWS.of(None)] == ["git", "time"]
    assert named("git", "/a") == "git@/a"
    assert named("git", "/b") == named("git", None) == "git"


def test_what_waits_is_meant_only_where_the_user_has_none_of_that_name():
    assert named("time", "/a") == "time"
    assert named("new", "/a") == "new@/a"
    assert named("new", None) is None
    assert [entry.local_name for entry in VIEWS.waiting("/a")] == ["time", "new"]
    assert VIEWS.waiting(None) == VIEWS.waiting("/c") == []


def test_nobody_means_a_server_of_another_project():
    assert named("git@/a", "/a") is None
    assert named("git@/a", "/b") is None
    assert named("git@/a", None) is None


def test_a_workspace_without_a_server_of_its_own_has_no_view_of_its_own():
    assert VIEWS.key("/a") == "/a"
    assert VIEWS.key("/b") is None
    assert VIEWS.key(None) is None


def test_over_http_there_are_no_projects():
    world = World()
    world.run("!! server git", "!! server own@/a")
    assert world.mux.refusal("git", bearer(None)) is None
    for name in ("own", "own@/a"):
        refusal = world.mux.refusal(name, bearer(None))
        assert refusal is not None
        assert refusal.kind == "server_not_found"
        assert world.mux.tool_schema(name, "echo", bearer(None)) is None
