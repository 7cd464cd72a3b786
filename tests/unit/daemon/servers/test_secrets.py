"""Starts wait for their secrets, and a server without them is not started."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mcpd.config.remote import AuthConfig, RemoteConfig
from mcpd.config.texts.secretnames import placeholder
from mcpd.core import facts
from mcpd.core.facts import Failure
from mcpd.daemon.servers.secrets import ServerSecrets, WithSecrets, filled
from mcpd.secrets.lookup import NotFound
from mcpd.upstreams.host import NotStarted
from mcpd.upstreams.http.spec import RemoteSpec
from mcpd.upstreams.run import Backend
from mcpd.upstreams.stdio.spec import ProcessSpec
from tests.support.memoryupstream import RULES


class Looking:
    """A lookup that answers when it may."""

    def __init__(self) -> None:
        self.found: dict[str, str] | NotFound = {"gh": "value"}
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def find(self, names: Sequence[str]) -> dict[str, str] | NotFound:
        self.asked += 1
        await self.may_answer.wait()
        return self.found


class Host:
    """A host that keeps what it is asked to start."""

    def __init__(self) -> None:
        self.started: list[Any] = []
        self.waits = False

    def must_wait(self, backend: Backend, then: object) -> bool:
        return self.waits

    def start(self, slot: object, backend: Backend, generation: int, reports: object) -> str:
        self.started.append(backend)
        return "run"


class World:
    """A host with secrets, and what came of it."""

    def __init__(self) -> None:
        self.looking: Any = Looking()
        self.host: Any = Host()
        self.learned: list[Mapping[str, str]] = []
        self.told: list[Any] = []
        self.secrets = ServerSecrets(
            lambda: self.looking, learned=self.learned.append, tell=self.told.append
        )
        self.with_secrets = WithSecrets(self.host, self.secrets)
        self.runs: list[Any] = []

    def pump(self) -> None:
        """Start what need not wait, as the queue of starts does."""
        if not self.with_secrets.must_wait(process(), self.pump):
            slot: Any = None
            self.runs.append(self.with_secrets.start(slot, process(), 1, slot))

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


def process(**changes: Any) -> ProcessSpec:
    fields: dict[str, Any] = {
        "server": "s",
        "rules": RULES,
        "grace": 1.0,
        "command": "run",
        "args": (f"--token={placeholder('gh')}",),
        "env": {"TOKEN": placeholder("gh"), "PLAIN": "x"},
        "base_env": {},
        "inherit": "all",
        "cwd": "/",
        "names_cwd": False,
        "scope": "tree",
        "secrets": ("gh",),
    }
    return ProcessSpec(**{**fields, **changes})


async def test_a_start_waits_for_its_secrets_and_nothing_of_them_is_kept() -> None:
    world = World()
    world.looking.may_answer.clear()
    world.pump()
    world.pump()
    await world.settle()
    assert world.runs == [] and world.looking.asked == 1
    world.looking.may_answer.set()
    await world.settle()
    [spec] = world.host.started
    assert spec.args == ("--token=value",) and spec.env == {"TOKEN": "value", "PLAIN": "x"}
    assert world.learned == [{"gh": "value"}] and world.runs == ["run"]
    assert "value" not in repr(vars(world.with_secrets))
    world.pump()
    await world.settle()
    assert world.looking.asked == 2, "it may be another one by now"


async def test_a_start_after_a_secret_was_set_does_not_get_the_older_value() -> None:
    world = World()
    world.looking.may_answer.clear()
    world.pump()
    await world.settle()
    world.secrets.changes += 1
    world.pump()
    await world.settle()
    assert world.looking.asked == 2
    world.looking.may_answer.set()
    await world.settle()
    assert world.runs, "and none of them waits for ever"


async def test_servers_that_need_the_same_secret_fail_each_for_itself() -> None:
    world = World()
    world.looking.found = NotFound("gh", "missing", "why", "what to type")
    failed: list[str | None] = []
    slot: Any = None

    def pump(spec: ProcessSpec) -> None:
        if not world.with_secrets.must_wait(spec, lambda: pump(spec)):
            run: Any = world.with_secrets.start(slot, spec, 1, slot)
            failed.append(run.failure.server)

    for name in ("one", "two"):
        pump(process(server=name))
    await world.settle()
    assert sorted(map(str, failed)) == ["one", "two"] and world.looking.asked == 1
    assert sorted(each.server for each in world.told) == ["one", "two"]


async def test_a_start_that_waits_for_something_else_asks_for_no_secret() -> None:
    world = World()
    world.host.waits = True
    world.pump()
    await world.settle()
    assert world.looking.asked == 0


async def test_a_server_without_secrets_is_started_at_once() -> None:
    world = World()
    spec = process(secrets=(), env={}, args=())
    assert not world.with_secrets.must_wait(spec, world.pump)
    slot: Any = None
    world.with_secrets.start(slot, spec, 1, slot)
    assert world.host.started == [spec] and world.looking.asked == 0


@pytest.mark.parametrize(
    ("reason", "kind", "details"),
    [
        ("missing", "config_invalid", {"secret": "gh"}),
        ("unusable", "config_invalid", {"secret": "gh"}),
        ("keyring_locked", "spawn_failed", {"secret": "gh", "reason": "keyring_locked"}),
        ("keyring_unavailable", "spawn_failed", {"secret": "gh", "reason": "keyring_unavailable"}),
    ],
)
async def test_a_secret_that_is_not_found_fails_the_start(
    reason: Any, kind: str, details: object
) -> None:
    world = World()
    world.looking.found = NotFound("gh", reason, "why", "what to type")
    world.pump()
    await world.settle()
    [run] = world.runs
    assert isinstance(run, NotStarted) and run.is_outside and world.host.started == []
    failure = run.failure
    assert (failure.kind, failure.server, failure.hint) == (kind, "s", "what to type")
    assert failure.details == details and failure.is_retryable is (kind == "spawn_failed")
    assert world.told == [facts.SecretUnavailable("s", "gh", reason, "why")]


def remote(**changes: Any) -> RemoteSpec:
    config = RemoteConfig(url="https://x.example/mcp", **changes)
    return RemoteSpec(server="s", rules=RULES, grace=1.0, remote=config, secrets=("gh",))


def test_headers_and_credentials_are_filled() -> None:
    spec = remote(
        headers={"X-A": f"a {placeholder('gh')}"},
        auth=AuthConfig(kind="basic", username="ada", password=placeholder("gh")),
    )
    found = filled(spec, {"gh": "v:1"})
    assert not isinstance(found, Failure)
    assert found.remote.headers == {"X-A": "a v:1"} and found.remote.auth.password == "v:1"
    assert found.secrets == ()


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"headers": {"X-A": placeholder("gh")}}, "SENT\nINEL"),
        ({"auth": AuthConfig(kind="bearer", token=placeholder("gh"))}, "SENT\rINEL"),
        ({"auth": AuthConfig(kind="basic", username=placeholder("gh"))}, "SENT:INEL"),
    ],
)
def test_a_secret_that_no_header_can_have_is_not_sent(changes: Any, value: str) -> None:
    found = filled(remote(**changes), {"gh": value})
    assert isinstance(found, Failure) and found.kind == "config_invalid"
    assert "SENT" not in found.message and "mcpctl secret set gh" in (found.hint or "")
