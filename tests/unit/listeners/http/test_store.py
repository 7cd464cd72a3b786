"""Sessions on disk."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from mcpd.core.interface.commands import SessionState
from mcpd.listeners.http import store as stores
from mcpd.listeners.http.store import DIRECTORY, Saved, SessionStore
from tests.support.waiting import wait_until_async

AA, BB, CC = ("a" * 64, "b" * 64, "c" * 64)
STATE = SessionState(
    version="2025-06-18",
    capabilities=b'{"sampling":{},"x":"\\ud800"}',
    info='{"name":"é"}'.encode(),
    level="debug",
    subscribed=(("fake://a", "one"), ("fake://b", "two")),
    is_initialized=False,
)
SAVED = Saved(token="ada", token_sha256="12", server=None, state=STATE, lists="0")


def make(path: Path) -> tuple[SessionStore, list[OSError | None]]:
    troubles: list[OSError | None] = []
    return SessionStore(str(path), troubles.append), troubles


def test_what_was_saved_is_read_back(tmp_path):
    store, troubles = make(tmp_path)
    store.save(AA, SAVED)
    store.save(BB, Saved(token=None, server="one", state=SessionState(version="2025-03-26")))
    assert dict(store.load())[AA] == SAVED
    assert dict(store.load())[BB].state.info is None
    assert not troubles


def test_files_are_private_and_hold_no_id(tmp_path):
    store, _ = make(tmp_path)
    store.save(AA, SAVED)
    (file,) = (tmp_path / DIRECTORY).iterdir()
    assert file.name == f"{AA}.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_file_is_replaced_and_removed(tmp_path):
    store, _ = make(tmp_path)
    store.save(AA, SAVED)
    store.save(AA, Saved(token="bob", server=None, state=STATE))
    assert dict(store.load())[AA].token == "bob"
    store.remove(AA)
    store.remove(AA)
    assert not dict(store.load())


def test_a_session_of_a_verbose_client_is_read_back(tmp_path):
    """
    ``max_request_bytes`` bounds what a client says of itself, nothing else does.
    """
    store, _ = make(tmp_path)
    large = SessionState(version="2025-06-18", capabilities=b'{"x":"%b"}' % (b"x" * 3_000_000))
    store.save(AA, Saved(token=None, server=None, state=large))
    assert dict(store.load())[AA].state == large


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"token":5}',
        b"\xff",
        b'{"version":"\xff"}',
        b"\0" * 100,
        b"{" * 100_000,
        b"x" * (1024 * 1024 + 2),
    ],
    ids=range(10),
)
def test_what_is_no_session_is_removed(tmp_path, data):
    store, troubles = make(tmp_path)
    store.save(AA, SAVED)
    (tmp_path / DIRECTORY / f"{BB}.json").write_bytes(data)
    assert set(dict(store.load())) == {AA}
    assert [each.name for each in (tmp_path / DIRECTORY).iterdir()] == [f"{AA}.json"]
    assert not troubles


def test_what_a_killed_daemon_left_half_written_is_removed(tmp_path):
    store, _ = make(tmp_path)
    store.save(AA, SAVED)
    (tmp_path / DIRECTORY / f".{BB}.json.123").write_bytes(b"{")
    assert set(dict(store.load())) == {AA}
    assert [each.name for each in (tmp_path / DIRECTORY).iterdir()] == [f"{AA}.json"]


def test_strangers_are_left_alone(tmp_path):
    store, _ = make(tmp_path)
    store.save(AA, SAVED)
    for name in ("README", "..json", "a b.json", "bb.json"):
        (tmp_path / DIRECTORY / name).write_text("x")
    (tmp_path / DIRECTORY / "link").symlink_to("/etc/passwd")
    assert set(dict(store.load())) == {AA}
    assert len(list((tmp_path / DIRECTORY).iterdir())) == 6


@pytest.mark.parametrize("is_all", [True, False])
def test_a_file_that_cannot_be_opened_now_is_not_lost(tmp_path, monkeypatch, is_all):
    """
    A daemon without a free descriptor must not end the sessions of all.
    """
    store, _ = make(tmp_path)
    store.save(AA, SAVED)
    opened = os.open

    def refuse(name: str, *more: Any, **named: Any) -> int:
        if is_all or str(name).endswith(".json"):
            raise OSError(24, "Too many open files")
        return opened(name, *more, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert not dict(store.load())
    assert dict(store.load())[AA] == SAVED


async def test_a_disk_that_is_full_is_told_and_leaves_what_there_was(tmp_path, monkeypatch):
    store, troubles = make(tmp_path)
    store.save(AA, SAVED)

    def refuse(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", refuse)
    store.save(AA, Saved(token="bob", server=None, state=STATE))
    assert [each and each.errno for each in troubles] == [28]
    assert dict(store.load())[AA] == SAVED
    assert len(list((tmp_path / DIRECTORY).iterdir())) == 1


async def test_a_directory_that_is_missing_has_no_sessions(tmp_path):
    store, troubles = make(tmp_path / "gone")
    assert not dict(store.load()) and not troubles
    (tmp_path / "file").write_text("")
    store, troubles = make(tmp_path / "file")
    store.save(AA, SAVED)
    assert troubles
    store.close()


async def test_what_cannot_be_written_is_told_once_and_written_later(tmp_path, monkeypatch):
    kept, told = make(tmp_path)
    monkeypatch.setattr(stores, "RETRY_S", 0.01)
    (tmp_path / DIRECTORY).write_text("no directory")
    for digest in (AA, BB, CC):
        kept.save(digest, SAVED)
    kept.remove(CC)
    assert [type(error) for error in told] == [NotADirectoryError]
    (tmp_path / DIRECTORY).unlink()
    await wait_until_async(lambda: len(told) == 2)
    assert told[1] is None
    assert {digest for digest, _ in kept.load()} == {AA, BB}


async def test_the_end_is_a_last_try(tmp_path):
    kept, told = make(tmp_path)
    (tmp_path / DIRECTORY).write_text("no directory")
    kept.save(AA, SAVED)
    (tmp_path / DIRECTORY).unlink()
    kept.close()
    assert told[1:] == [None]
    assert [digest for digest, _ in kept.load()] == [AA]


def changed(**members: object) -> bytes:
    """Return a file of a session with some members changed."""
    whole = {
        "format": 1,
        "token": None,
        "token_sha256": None,
        "server": None,
        "version": "2025-06-18",
        "capabilities": "{}",
        "info": None,
        "level": None,
        "subscribed": [],
        "is_initialized": True,
    }
    return json.dumps(whole | members).encode()


@pytest.mark.parametrize(
    "content",
    [
        changed(format=2),
        changed(version="2026-07-28"),
        changed(version="1999-01-01"),
        changed(capabilities="{"),
        changed(capabilities="[]"),
        changed(info="1"),
        changed(info="[" * 100_000),
        changed(subscribed=[["fake://a"]]),
        changed(token=1),
        changed()[:-5],
    ],
    ids=range(10),
)
def test_a_file_of_another_version_is_no_session(tmp_path, content):
    store, _ = make(tmp_path)
    store.save(AA, SAVED)
    (tmp_path / DIRECTORY / f"{BB}.json").write_bytes(changed())
    (tmp_path / DIRECTORY / f"{CC}.json").write_bytes(content)
    assert set(dict(store.load())) == {AA, BB}
    assert not (tmp_path / DIRECTORY / f"{CC}.json").exists()


def test_links_and_pipes_are_removed_and_never_followed(tmp_path):
    store, _ = make(tmp_path)
    store.save(AA, SAVED)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(changed())
    at = tmp_path / DIRECTORY
    (at / f"{BB}.json").symlink_to(elsewhere)
    os.mkfifo(at / f"{CC}.json")
    (at / f"{'d' * 64}.json").mkdir()
    assert set(dict(store.load())) == {AA}
    assert {each.name for each in at.iterdir()} == {f"{AA}.json", f"{'d' * 64}.json"}
    assert elsewhere.exists()


async def test_a_directory_that_leads_elsewhere_is_not_used(tmp_path):
    store, troubles = make(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / DIRECTORY).symlink_to(elsewhere)
    store.save(AA, SAVED)
    assert not dict(store.load())
    assert len(troubles) == 2
    assert not [*elsewhere.iterdir()]
    store.close()
