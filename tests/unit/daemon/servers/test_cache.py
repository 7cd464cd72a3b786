"""What servers listed survives the daemon, and nothing in the file can hurt it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from mcpd.config.entry import entry_from_json
from mcpd.core.catalog.model import Catalog, Kind, merge_pages, parse_page
from mcpd.core.mcp.introduction import Introduction
from mcpd.daemon.servers.cache import CatalogCache, Remembered, program_mtime
from mcpd.daemon.servers.server import assemble
from mcpd.redact import Redactor
from mcpd.upstreams.stdio.spec import ProcessSpec

TOOLS = b'{"tools":[{"name":"echo","n":1.0,"key":"hunter22-and-more"}]}'
INTRODUCTION = Introduction("2025-11-25", {"tools": Raw(b"{}")}, b'{"name":"x"}', b'"be kind"')


def catalog() -> Catalog:
    page = parse_page(Kind.TOOLS, TOOLS)
    return Catalog().replaced(Kind.TOOLS, merge_pages([page]))


async def keep(folder: Path, *, secrets: tuple[str, ...] = (), name: str = "a/b") -> None:
    cache = CatalogCache(str(folder))
    said = Remembered(INTRODUCTION, catalog(), has_asked=True, stamp=7)
    cache.keep(name, "key", said, Redactor(secrets))
    await cache.flush()


def the_file(folder: Path) -> Path:
    (found,) = (folder / "catalog").iterdir()
    return found


async def test_a_catalog_is_read_back_byte_for_byte(tmp_path: Path) -> None:
    await keep(tmp_path)
    found = CatalogCache(str(tmp_path)).load("a/b", "key")
    assert found is not None
    assert found.introduction == INTRODUCTION
    assert found.catalog.lists[Kind.TOOLS].page() == TOOLS
    assert (found.has_asked, found.stamp) == (True, 7)


async def test_lists_of_clients_are_kept_and_those_like_ours_once(tmp_path: Path) -> None:
    others = merge_pages([parse_page(Kind.PROMPTS, b'{"prompts":[{"name":"ask"}]}')])
    both = catalog()
    mine, like_ours = Catalog({**both.lists, Kind.PROMPTS: others}), Catalog(both.lists)
    said = Remembered(INTRODUCTION, both, of_clients={'{"roots":{}}': mine, "{}": like_ours})
    cache = CatalogCache(str(tmp_path))
    cache.keep("a", "key", said, Redactor(()))
    await cache.flush()
    assert the_file(tmp_path).read_bytes().count(b"hunter22") == 1
    found = CatalogCache(str(tmp_path)).load("a", "key")
    assert found is not None
    assert found.of_clients == said.of_clients
    ours = found.catalog.get(Kind.TOOLS)
    assert all(lists.get(Kind.TOOLS) is ours for lists in found.of_clients.values())


async def test_the_file_is_private_and_has_a_harmless_name(tmp_path: Path) -> None:
    await keep(tmp_path, name="../../x")
    assert the_file(tmp_path).name == "%2E%2E%2F%2E%2E%2Fx.json"
    assert the_file(tmp_path).stat().st_mode & 0o777 == 0o600


async def test_a_catalog_of_another_launch_is_not_used(tmp_path: Path) -> None:
    await keep(tmp_path)
    assert CatalogCache(str(tmp_path)).load("a/b", "other") is None
    assert CatalogCache(str(tmp_path)).load("c", "key") is None


async def test_secrets_are_not_stored(tmp_path: Path) -> None:
    """
    B139.
    """
    await keep(tmp_path, secrets=("hunter22-and-more",))
    assert b"hunter22" not in the_file(tmp_path).read_bytes()
    assert CatalogCache(str(tmp_path)).load("a/b", "key") is not None


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[1", b'{"version":1,"launch":"key","introduction":{},"catalog":"{}"}', b"\xff"],
)
async def test_a_file_with_other_content_counts_as_none(tmp_path: Path, content: bytes) -> None:
    await keep(tmp_path)
    the_file(tmp_path).write_bytes(content)
    assert CatalogCache(str(tmp_path)).load("a/b", "key") is None


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """
    B118.
    """
    await keep(tmp_path)
    real = the_file(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    real.rename(elsewhere)
    real.symlink_to(elsewhere)
    assert CatalogCache(str(tmp_path)).load("a/b", "key") is None
    before = elsewhere.read_bytes()
    await keep(tmp_path, secrets=("hunter22-and-more",))
    assert elsewhere.read_bytes() == before


async def test_a_directory_that_cannot_be_written_costs_only_the_cache(tmp_path: Path) -> None:
    (tmp_path / "catalog").write_text("in the way")
    await keep(tmp_path)
    assert CatalogCache(str(tmp_path)).load("a/b", "key") is None


async def test_the_last_of_many_writes_counts(tmp_path: Path) -> None:
    cache = CatalogCache(str(tmp_path))
    for number in range(20):
        said = Remembered(INTRODUCTION, catalog())
        cache.keep("s", f"key{number}", said, Redactor(()))
    await cache.flush()
    assert CatalogCache(str(tmp_path)).load("s", "key19") is not None
    assert os.listdir(tmp_path / "catalog") == ["s.json"]


async def test_a_file_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    """
    It knew nothing of questions, nor of which program it was.
    """
    await keep(tmp_path)
    kept = json.loads(the_file(tmp_path).read_bytes())
    del kept["has_asked"], kept["stamp"]
    the_file(tmp_path).write_bytes(json.dumps(kept).encode())
    found = CatalogCache(str(tmp_path)).load("a/b", "key")
    assert found is not None
    assert (found.has_asked, found.stamp) == (False, None)


async def test_a_failed_write_is_repeated_with_the_next(tmp_path: Path) -> None:
    """
    B121: nobody would write it again, and after the next start its tools would be missing.
    """
    blocker = tmp_path / "catalog"
    blocker.write_text("in the way")
    cache = CatalogCache(str(tmp_path))
    said = Remembered(INTRODUCTION, catalog())
    cache.keep("first", "key", said, Redactor(()))
    cache.keep("gone", "old", said, Redactor(()))
    await cache.flush()
    blocker.unlink()
    cache.keep("gone", "key", said, Redactor(()))
    await cache.flush()
    for name in ("first", "gone"):
        assert cache.load(name, "key") is not None
    assert sorted(each.name for each in blocker.iterdir()) == ["first.json", "gone.json"]


async def test_a_failed_write_is_repeated_at_the_end(tmp_path: Path) -> None:
    blocker = tmp_path / "catalog"
    blocker.write_text("in the way")
    cache = CatalogCache(str(tmp_path))
    cache.keep("a", "key", Remembered(INTRODUCTION, catalog()), Redactor(()))
    await cache.flush()
    blocker.unlink()
    await cache.flush()
    assert cache.load("a", "key") is not None


def spec(command: str, **values: Any) -> ProcessSpec:
    configured = entry_from_json({"command": command, **values}, name="x", env={}, cwd="/")
    found = assemble(configured, base_env={"PATH": "/nowhere"}).backend
    assert found is not None
    return found


def executable(folder: Path) -> Path:
    file = folder / "srv"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def test_program_mtime_is_that_of_the_file_behind_a_link(tmp_path: Path) -> None:
    file = executable(tmp_path)
    os.utime(file, ns=(1, 1_700_000_000_123_456_000))
    link = tmp_path / "link"
    link.symlink_to(file)
    for command in (str(file), str(link)):
        assert program_mtime(spec(command)) == 1_700_000_000_123_456_000


def test_a_program_is_found_on_the_path_of_its_server(tmp_path: Path) -> None:
    file = executable(tmp_path)
    assert program_mtime(spec("srv", env={"PATH": str(tmp_path)})) == file.stat().st_mtime_ns


def test_a_missing_program_has_no_mtime(tmp_path: Path) -> None:
    assert program_mtime(spec(str(tmp_path / "missing"))) is None
