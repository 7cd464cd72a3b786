from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcpd.config.entry import entry_from_json
from mcpd.config.load import Loaded
from mcpd.config.schema import DaemonConfig
from mcpd.core.catalog.model import Catalog
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mcp.offer import FULL, Verdict
from mcpd.core.mcp.versions import Era
from mcpd.daemon.servers.cache import CatalogCache, Remembered
from mcpd.daemon.servers.pinstore import PinStore
from mcpd.daemon.servers.registry import Registry
from mcpd.daemon.servers.server import assemble
from mcpd.redact import Redactor

SECRET = "hunter22-of-the-first"


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(
        str(tmp_path), CatalogCache(str(tmp_path)), PinStore(str(tmp_path)), {"PATH": "/bin"}
    )


def entry(name: str, **more: Any) -> Any:
    content = {"command": "cat", "env": {"API_TOKEN": SECRET}, **more}
    return entry_from_json(content, name=name, env={}, cwd="/", literal=True)


def add(registry: Registry, name: str) -> None:
    registry.add(assemble(entry(name), base_env=registry.environment, is_ad_hoc=True))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_logs_of_removed_servers_leave_no_descriptor(registry: Registry):
    """
    B143: ad-hoc servers come and go for weeks. Each writes something while it is being stopped.
    """
    before = descriptors()
    for number in range(20):
        name = f"brought-{number}"
        add(registry, name)
        log = registry.log(name)
        log.add("mcpd", "starting")
        registry.remove(name)
        registry.forget_logs({name})
        registry.log(name).add("mcpd", f"stopping {SECRET}")
        assert registry.log(name) is log
        assert SECRET not in log.tail(1)[0].text, "it knew its secrets to the end"
        registry.forget_logs(set())
    assert descriptors() == before
    assert registry.log_files() == []


def test_a_log_that_is_followed_stays_open(registry: Registry):
    """
    The name may be back in a moment.
    """
    add(registry, "x")
    log = registry.log("x")
    leave = log.follow(lambda line: None)
    registry.remove("x")
    registry.forget_logs(set())
    assert registry.log("x") is log
    leave()
    registry.forget_logs(set())
    assert registry.log("x") is not log


def test_logs_of_existing_servers_are_kept_and_get_new_limits(registry: Registry, tmp_path: Path):
    loaded = Loaded(entries={"a": entry("a"), "b/c": entry("b/c")})
    registry.apply(loaded)
    log = registry.log("a")
    log.add("stderr", "hello")
    registry.forget_logs(set())
    assert registry.log("a") is log
    assert set(registry.log_files()) == {"a.log", "b%2Fc.log"}
    daemon = DaemonConfig(log_max_bytes=1024, log_backups=1)
    registry.apply(msgspec.structs.replace(loaded, daemon=daemon))
    for _ in range(50):
        log.add("stderr", "x" * 100)
    sizes = [each.stat().st_size for each in (tmp_path / "logs").iterdir()]
    assert len(sizes) == 2
    assert max(sizes) <= 1024
    log.close()


def test_after_a_reload_earlier_secrets_are_still_masked(registry: Registry):
    """
    A process that was started before has them until it is stopped, and says something then.
    """
    for secret in ("the-first-secret", "the-second-secret"):
        configured = entry("a", env={"API_TOKEN": secret})
        registry.apply(Loaded(entries={"a": configured}))
        registry.log("a")
    log = registry.log("a")
    log.add("stderr", "the-first-secret, the-second-secret")
    assert log.tail(1)[0].text == "***, ***"
    registry.apply(Loaded(entries={"a": entry("a", env={"API_TOKEN": "the-third-secret"})}))
    assert registry.redactor("a").secrets == {"the-second-secret", "the-third-secret"}


def test_text_of_no_server_is_masked_for_the_secrets_of_all(registry: Registry):
    registry.apply(Loaded(entries={"a": entry("a", env={"API_TOKEN": "the-first-secret"})}))
    assert registry.redactor(None).mask("the-first-secret") == "***"
    add(registry, "brought")
    assert registry.redactor(None).mask(f"the-first-secret {SECRET}") == "*** ***"
    assert registry.redactor("no-such").mask(SECRET) == SECRET


async def test_the_era_of_a_remote_server_is_remembered(tmp_path: Path):
    """
    A server that is reached by URL has no program that could have been replaced.
    """
    configured = entry_from_json(
        {"url": "https://x.example/mcp"}, name="far", env={}, cwd="/", literal=True
    )
    server = assemble(configured, base_env={})
    cache = CatalogCache(str(tmp_path))
    introduction = Introduction("2025-11-25", {}, b'{"name":"x"}', None)
    cache.keep("far", server.cache_key, Remembered(introduction, Catalog()), Redactor())
    await cache.flush()
    registry = Registry(str(tmp_path), cache, PinStore(str(tmp_path)), {})
    registry.apply(Loaded(entries={"far": configured}))
    known = registry.get("far")
    assert known is not None
    assert known.entry.verdict == Verdict(Era.LEGACY, FULL)


def with_secret(name: str, secret: str = "gh", **more: Any) -> Any:
    content = {"command": "cat", "env": {"API_TOKEN": f"${{keyring:{secret}}}"}, **more}
    return entry_from_json(content, name=name, env={}, cwd="/")


def launch(registry: Registry, name: str) -> str:
    server = registry.get(name)
    assert server is not None
    return server.entry.launch


def test_a_secret_that_a_server_gets_is_masked_from_then_on(registry: Registry):
    entries = {"a": with_secret("a"), "b": with_secret("b", "other"), "c": entry("c")}
    registry.apply(Loaded(entries=entries))
    log = registry.log("a")
    assert registry.learn({"gh": SECRET}) and not registry.learn({"gh": SECRET})
    log.add("stderr", f"it is {SECRET}")
    assert log.tail(1)[0].text == "it is ***"
    server = registry.get("a")
    assert server is not None and server.entry.redactor.mask(SECRET) == "***"
    assert registry.mask("b", "of-the-other") == "of-the-other"
    assert registry.learn({"gh": "another-secret"})
    assert registry.mask("a", f"{SECRET} another-secret") == "*** ***", "it may still run with it"
    registry.apply(Loaded(entries={"a": entry("a", env={})}))
    assert registry.mask("a", SECRET) == "***", "nor is it forgotten with its name"


def test_a_secret_that_was_set_gives_its_servers_another_launch(registry: Registry):
    loaded = Loaded(entries={"a": with_secret("a"), "twin": with_secret("twin"), "c": entry("c")})
    registry.apply(loaded)
    before = {name: launch(registry, name) for name in loaded.entries}
    assert before["a"] == before["twin"]
    assert registry.renew("gh") == ["a", "twin"] and registry.renew("none") == []
    after = {name: launch(registry, name) for name in loaded.entries}
    assert after["a"] == after["twin"] != before["a"] and after["c"] == before["c"]
    registry.apply(loaded)
    assert launch(registry, "a") == after["a"], "a reload replaces nothing"
    registry.renew("gh")
    assert launch(registry, "a") not in (before["a"], after["a"])


def test_the_value_of_a_secret_is_no_part_of_a_launch(registry: Registry):
    registry.apply(Loaded(entries={"a": with_secret("a")}))
    before = launch(registry, "a")
    registry.learn({"gh": SECRET})
    assert launch(registry, "a") == before
