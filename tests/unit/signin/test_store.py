"""Where sign-ins are kept: in a private file, their secrets in the keyring where there is one."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import msgspec
import pytest

from mcpd.signin.credentials import Client, Credentials
from mcpd.signin.file import StoreError, read
from mcpd.signin.store import Store
from tests.support.signins import MemoryKeyring

MADE = Credentials(
    server="far",
    url="https://h/mcp",
    issuer="https://as",
    token_endpoint="https://as/token",
    client=Client(client_id="c", client_secret="SENTINELCLIENT", kind="registered"),
    access_token="SENTINELACCESS",
    refresh_token="SENTINELREFRESH",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "credentials.json"


async def test_what_is_kept_is_found_again(path: Path) -> None:
    store = Store(str(path.parent))
    other = msgspec.structs.replace(MADE, server="other")
    await store.save(MADE)
    await store.save(other)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert await Store(str(path.parent)).load("far", MADE.url) == MADE
    assert await store.load("far", "https://elsewhere/mcp") is None
    await store.forget("far")
    assert await store.load("far", MADE.url) is None
    assert await store.load("other", MADE.url) == other


async def test_secrets_are_in_the_keyring_alone(path: Path) -> None:
    keyring = MemoryKeyring(works=True)
    store = Store(str(path.parent), keyring)
    await store.save(MADE)
    assert "SENTINEL" not in path.read_text() and [*keyring.kept] == ["far https://as"]
    assert await Store(str(path.parent), keyring).load("far", MADE.url) == MADE
    marked = msgspec.structs.replace(MADE, spent="x")
    await store.mark(marked)
    assert "SENTINEL" not in path.read_text()
    assert await store.load("far", MADE.url) == marked
    await store.forget("far")
    assert keyring.kept == {} and read(str(path)) == ()


async def test_a_keyring_that_forgets_leaves_a_sign_in_without_tokens(path: Path) -> None:
    keyring = MemoryKeyring(works=True)
    store = Store(str(path.parent), keyring)
    await store.save(MADE)
    keyring.kept.clear()
    found = await store.load("far", MADE.url)
    assert found is not None and not found.secrets


async def test_a_keyring_that_drops_what_it_takes_is_noticed(path: Path) -> None:
    keyring = MemoryKeyring(works=True)
    keyring.drops = True
    store = Store(str(path.parent), keyring)
    await store.save(MADE)
    assert await store.load("far", MADE.url) == MADE and "SENTINELREFRESH" in path.read_text()


@pytest.mark.parametrize("content", [b"", b"nonsense", b"{}", b'{"version": 9}', b"\xff\xfe"])
async def test_a_file_that_is_none_of_ours_is_left_alone(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    path.chmod(0o600)
    store = Store(str(path.parent))
    for work in (store.prepare(), store.save(MADE), store.forget("far")):
        with pytest.raises(StoreError):
            await work
    assert path.read_bytes() == content


async def test_a_link_or_a_file_of_others_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.symlink_to(path.parent / "elsewhere")
    (path.parent / "elsewhere").write_text("{}")
    store = Store(str(path.parent))
    with pytest.raises(StoreError):
        await store.prepare()
    path.unlink()
    await store.save(MADE)
    path.chmod(0o640)
    with pytest.raises(StoreError, match="others") as raised:
        await store.load("far", MADE.url)
    assert raised.value.hint == f"chmod 600 {path}"


async def test_two_changes_at_once_are_both_made(path: Path) -> None:
    names = [f"s{number}" for number in range(20)]
    stores = [Store(str(path.parent)) for _ in names]
    await asyncio.gather(
        *(
            store.save(msgspec.structs.replace(MADE, server=name))
            for store, name in zip(stores, names, strict=True)
        )
    )
    assert sorted(kept.credentials.server for kept in read(str(path))) == sorted(names)


async def test_one_daemon_renews_at_a_time(path: Path) -> None:
    one, other = Store(str(path.parent)), Store(str(path.parent))
    order: list[str] = []

    async def second() -> None:
        async with other.locked("far"):
            order.append("second")

    async with one.locked("far"):
        waiting = asyncio.ensure_future(second())
        async with other.locked("another"):
            order.append("first")
    await waiting
    assert order == ["first", "second"]
