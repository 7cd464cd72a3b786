"""Sessions on disk: what cannot be written is written later, what is broken is removed."""

from __future__ import annotations

import pytest

from mcpd.core.interface.commands import SessionState
from mcpd.listeners.http import store
from mcpd.listeners.http.store import DIRECTORY, Saved, SessionStore
from tests.support.waiting import wait_until_async


def saved(level=None):
    state = SessionState(version="2025-11-25", level=level)
    return Saved(token="laptop", server=None, state=state)


@pytest.fixture
def told():
    return []


@pytest.fixture
def kept(tmp_path, told):
    return SessionStore(str(tmp_path), told.append)


def test_what_is_saved_is_loaded(kept, tmp_path):
    kept.save("aa", saved())
    kept.save("aa", saved("error"))
    kept.save("bb", saved())
    kept.remove("bb")
    (tmp_path / DIRECTORY / "cc.json").write_text("{")
    assert list(kept.load()) == [("aa", saved("error"))]
    assert [path.name for path in (tmp_path / DIRECTORY).iterdir()] == ["aa.json"]


async def test_what_cannot_be_written_is_told_once_and_written_later(
    kept, told, tmp_path, monkeypatch
):
    monkeypatch.setattr(store, "RETRY_S", 0.01)
    (tmp_path / DIRECTORY).write_text("no directory")
    for digest in ("aa", "bb", "cc"):
        kept.save(digest, saved())
    kept.remove("cc")
    assert [type(error) for error in told] == [FileExistsError]
    (tmp_path / DIRECTORY).unlink()
    await wait_until_async(lambda: len(told) == 2)
    assert told[1] is None
    assert {digest for digest, _ in kept.load()} == {"aa", "bb"}


async def test_the_end_is_a_last_try(kept, told, tmp_path):
    (tmp_path / DIRECTORY).write_text("no directory")
    kept.save("aa", saved())
    (tmp_path / DIRECTORY).unlink()
    kept.close()
    assert told[1:] == [None]
    assert [digest for digest, _ in kept.load()] == ["aa"]
