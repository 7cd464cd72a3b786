"""Sessions on disk: what is written is read again, and anything else is no session."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import pytest

from mcpd.core.interface.commands import SessionState
from mcpd.listeners.http.store import DIRECTORY, Saved, SessionStore

DIGEST = "0" * 63 + "a"
SAVED = Saved(
    token="laptop",
    token_sha256="12",
    server="files",
    state=SessionState(
        version="2025-06-18",
        capabilities=b'{"sampling":{}}',
        info=b'{"name":"x"}',
        level="debug",
        subscribed=(("fake://a", "files"),),
    ),
    lists="34",
)


@pytest.fixture
def troubles() -> list[OSError]:
    return []


@pytest.fixture
def store(tmp_path: Path, troubles: list[OSError]) -> SessionStore:
    tmp_path.chmod(0o700)
    return SessionStore(str(tmp_path), troubles.append)


def folder(tmp_path: Path) -> Path:
    return tmp_path / DIRECTORY


def test_what_is_saved_is_private_and_loaded_again(store: SessionStore, tmp_path: Path) -> None:
    store.save(DIGEST, SAVED)
    assert [*store.load()] == [(DIGEST, SAVED)]
    assert stat.S_IMODE(folder(tmp_path).stat().st_mode) == 0o700
    [file] = folder(tmp_path).iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    store.remove(DIGEST)
    store.remove(DIGEST)
    assert [*store.load()] == []


def changed(**members: object) -> bytes:
    """Return a file of a session with some members changed."""
    whole = {
        "format": 1, "token": None, "token_sha256": None, "server": None, "version": "2025-06-18",
        "capabilities": "{}", "info": None, "level": None, "subscribed": [],
        "is_initialized": True,
    }  # fmt: skip
    return msgspec.json.encode(whole | members)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 100,
        b"{" * 100_000,
        b"x" * (1024 * 1024 + 2),
        changed()[:-5],
        changed(format=2),
        changed(version="2026-07-28"),
        changed(version="1999-01-01"),
        changed(capabilities="{"),
        changed(capabilities="[]"),
        changed(info="1"),
        changed(info="[" * 100_000),
        changed(subscribed=[["fake://a"]]),
        changed(token=1),
    ],
    ids=lambda content: content[:12].decode(),
)
def test_a_file_that_is_no_session_is_removed(
    store: SessionStore, tmp_path: Path, content: bytes
) -> None:
    store.save(DIGEST, SAVED)
    bad = folder(tmp_path) / f"{'b' * 64}.json"
    bad.write_bytes(content)
    assert [digest for digest, _ in store.load()] == [DIGEST]
    assert not bad.exists()


def test_a_changed_file_that_is_a_session_is_one(store: SessionStore, tmp_path: Path) -> None:
    """
    Else the test above would prove nothing.
    """
    store.save(DIGEST, SAVED)
    (folder(tmp_path) / f"{'b' * 64}.json").write_bytes(changed())
    assert len([*store.load()]) == 2


def test_links_pipes_and_what_a_crash_has_left_are_removed_and_never_followed(
    store: SessionStore, tmp_path: Path
) -> None:
    store.save(DIGEST, SAVED)
    at = folder(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(changed())
    (at / f"{'b' * 64}.json").symlink_to(elsewhere)
    os.mkfifo(at / f"{'c' * 64}.json")
    (at / f".{DIGEST}.json.1").write_bytes(b"")
    (at / f"{'d' * 64}.json").mkdir()
    assert [digest for digest, _ in store.load()] == [DIGEST]
    assert {each.name for each in at.iterdir()} == {f"{DIGEST}.json", f"{'d' * 64}.json"}
    assert elsewhere.exists()


def test_a_directory_that_leads_elsewhere_is_not_used(
    store: SessionStore, tmp_path: Path, troubles: list[OSError]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder(tmp_path).symlink_to(elsewhere)
    store.save(DIGEST, SAVED)
    assert [*store.load()] == []
    assert len(troubles) == 2
    assert not [*elsewhere.iterdir()]
