"""Tokens that come, expire and are revoked while the daemon runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcpd import tokens
from mcpd.daemon.http.tokens import Record, TokenFile
from tests.support.waiting import wait_until_async


def now() -> float:
    return datetime.now(UTC).timestamp()


def recorder(records: list[tuple[Any, ...]]) -> Record:
    """Return what keeps the events that would be recorded, with what they are about."""

    def record(what: str, /, **detail: Any) -> None:
        records.append((what, detail.pop("subject"), detail))

    return record


async def test_a_token_is_found_at_once_and_gone_when_it_is_revoked(tmp_path: Path) -> None:
    ended: list[str] = []
    found = TokenFile(str(tmp_path), ended.append, recorder([]))
    token, text = tokens.create(tokens.path_in(str(tmp_path)), "a", now=now())
    assert found.find(text) == token
    assert found.named("a") == token
    tokens.revoke(tokens.path_in(str(tmp_path)), "a")
    assert found.find(text) is None
    assert ended == ["a"]
    found.close()


async def test_a_revoked_token_ends_though_nobody_asks(tmp_path: Path) -> None:
    ended: list[str] = []
    tokens.create(tokens.path_in(str(tmp_path)), "a", now=now())
    found = TokenFile(str(tmp_path), ended.append, recorder([]))
    tokens.revoke(tokens.path_in(str(tmp_path)), "a")
    await wait_until_async(lambda: ended == ["a"])
    found.close()


async def test_a_token_that_is_revoked_right_after_its_first_use_ends_though_nobody_asks(
    tmp_path: Path,
) -> None:
    """
    The file is then what it was before the token was made.
    """
    ended: list[str] = []
    path, records = tokens.path_in(str(tmp_path)), list[tuple[Any, ...]]()
    tokens.create(path, "old", now=now())
    found = TokenFile(str(tmp_path), ended.append, recorder(records))
    _, text = tokens.create(path, "a", now=now())
    assert found.find(text) is not None
    tokens.revoke(path, "a")
    await wait_until_async(lambda: ended == ["a"])
    assert [each[:2] for each in records] == [("token.made", "a"), ("token.revoked", "a")]
    found.close()


async def test_a_token_ends_when_it_expires(tmp_path: Path) -> None:
    ended: list[str] = []
    _, text = tokens.create(tokens.path_in(str(tmp_path)), "a", now=now(), lifetime=0.1)
    found = TokenFile(str(tmp_path), ended.append, recorder([]))
    await wait_until_async(lambda: ended == ["a"])
    assert found.find(text) is None
    found.close()


async def test_with_a_file_that_others_can_read_nobody_is_let_in(tmp_path: Path) -> None:
    path = tokens.path_in(str(tmp_path))
    _, text = tokens.create(path, "a", now=now())
    Path(path).chmod(0o644)
    found = TokenFile(str(tmp_path), lambda _: None, recorder([]))
    assert found.find(text) is None
    assert found.trouble is not None
    found.close()


async def test_what_is_done_to_tokens_is_recorded(tmp_path: Path) -> None:
    """
    Those that were made before the daemon are known already.
    """
    path, records = tokens.path_in(str(tmp_path)), list[tuple[Any, ...]]()
    tokens.create(path, "old", now=now())
    found = TokenFile(str(tmp_path), lambda _: None, recorder(records))
    _, text = tokens.create(path, "new", now=now(), servers=("files",), lifetime=0.5)
    assert found.find(text) is not None
    await wait_until_async(lambda: len(records) == 2)
    tokens.revoke(path, "old")
    await wait_until_async(lambda: len(records) == 3)
    assert [each[:2] for each in records] == [
        ("token.made", "new"), ("token.expired", "new"), ("token.revoked", "old"),
    ]  # fmt: skip
    assert records[0][2]["servers"] == ("files",)
    found.close()
