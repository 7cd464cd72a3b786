"""Why an aggregate is empty, and who is told which files were read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from mcpd.core.downstream.nothing_to_offer import notice
from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Entry
from mcpd.principal import EVERYTHING, Scope

HERE = "/home/ada/src"


def told(
    *entries: Entry,
    scope: Scope = EVERYTHING,
    kind: str = "local",
    sources: str = "read: /home/ada/mcp.json",
) -> str | None:
    usable = [each.name for each in entries if each.is_listed and each.unavailable is None]
    state = SimpleNamespace(
        shown=SimpleNamespace(ours={HERE: SimpleNamespace(servers=lambda: usable)}.__getitem__),
        views=SimpleNamespace(of={HERE: {each.name: each for each in entries}}.__getitem__),
        scope_of=lambda principal: principal.scope,
        sources=sources,
    )
    session = SimpleNamespace(principal=SimpleNamespace(scope=scope, kind=kind), workspace=HERE)
    return notice(cast(Any, state), cast(Any, session))


def off(name: str, kind: str = "server_disabled") -> Entry:
    return Entry(name=name, launch="", unavailable=Failure(kind, "no", name))


def test_the_reason_is_that_of_the_entries() -> None:
    assert told(Entry(name="a", launch="a")) is None
    assert "no server is configured (read: /home/ada/mcp.json)" in str(told())
    assert "its only server is disabled" in str(told(off("a")))
    assert "all of its 2 servers are disabled" in str(told(off("a"), off("b")))
    assert "none of the servers can be used" in str(told(off("a"), off("b", "config_invalid")))
    assert "no server is configured" in str(told(Entry(name="a", launch="a", is_listed=False)))


def test_files_are_named_to_users_of_this_machine_only() -> None:
    assert "/home/ada" in str(told())
    assert "/home/ada" not in str(told(kind="token"))
    assert "no server is configured" in str(told(kind="token"))
    assert "no server is configured;" in str(told(sources=""))


def test_who_may_use_some_servers_only_is_told_nothing() -> None:
    assert told(scope=Scope(servers=frozenset(("a",)))) is None
