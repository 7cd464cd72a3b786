"""In which order secrets are looked up, and what is said of one that is not found."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mcpd.secrets import places
from mcpd.secrets.lookup import Lookup, NotFound
from mcpd.secrets.places import Mode
from mcpd.signin.protocol import Problem, Value


class Ring:
    """A keyring that answers when it may."""

    def __init__(self, problem: Problem | None = None, **secrets: str) -> None:
        self.problem = problem
        self.secrets = secrets
        self.asked: list[tuple[str, ...]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def find(self, names: tuple[str, ...]) -> Value:
        self.asked.append(names)
        await self.may_answer.wait()
        found = {name: self.secrets[name] for name in names if name in self.secrets}
        return Value(found=found, problem=self.problem)


def lookup(tmp_path: Path, ring: Ring, mode: Mode = "auto") -> Lookup:
    env = {"CREDENTIALS_DIRECTORY": str(tmp_path / "credentials")}
    return Lookup(str(tmp_path), env=env, mode=lambda: mode, keyring=ring)


async def test_systemd_is_first_the_keyring_second_the_file_last(tmp_path: Path) -> None:
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "a").write_text("systemd")
    for name in "abc":
        places.put(places.path_in(str(tmp_path)), name, "file")
    ring = Ring(a="keyring", b="keyring")
    found = await lookup(tmp_path, ring).find(("a", "b", "c"))
    assert found == {"a": "systemd", "b": "keyring", "c": "file"} and ring.asked == [("b", "c")]


@pytest.mark.parametrize(
    ("mode", "found"),
    [
        ("auto", {"r": "keyring", "f": "file"}),
        ("system", {"r": "keyring"}),
        ("file", {"f": "file"}),
        ("off", {}),
    ],
)
async def test_where_is_looked_is_configured(
    tmp_path: Path, mode: Mode, found: dict[str, str]
) -> None:
    places.put(places.path_in(str(tmp_path)), "f", "file")
    ring = Ring(r="keyring")
    looking = lookup(tmp_path, ring, mode)
    for name in ("r", "f"):
        said = await looking.find((name,))
        assert said == {name: found[name]} if name in found else isinstance(said, NotFound)
    assert bool(ring.asked) is (mode in ("auto", "system"))


@pytest.mark.parametrize(
    ("mode", "problem", "reason"),
    [
        ("auto", None, "missing"),
        ("auto", "none", "missing"),
        ("auto", "locked", "keyring_locked"),
        ("auto", "unavailable", "keyring_unavailable"),
        ("system", "none", "keyring_unavailable"),
        ("system", "locked", "keyring_locked"),
        ("file", "locked", "missing"),
        ("off", None, "missing"),
    ],
)
async def test_why_a_secret_cannot_be_used(
    tmp_path: Path, mode: Mode, problem: Problem | None, reason: str
) -> None:
    said = await lookup(tmp_path, Ring(problem), mode).find(("gh",))
    assert isinstance(said, NotFound) and (said.name, said.reason) == ("gh", reason)
    assert ("mcpctl secret set gh" in said.hint) is (reason == "missing")


async def test_what_the_file_has_needs_no_keyring_that_works(tmp_path: Path) -> None:
    places.put(places.path_in(str(tmp_path)), "gh", "file")
    assert await lookup(tmp_path, Ring("locked")).find(("gh",)) == {"gh": "file"}


async def test_a_file_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "secrets.json").write_text("{}")
    (tmp_path / "secrets.json").chmod(0o644)
    said = await lookup(tmp_path, Ring()).find(("gh",))
    assert isinstance(said, NotFound) and said.reason == "unusable" and "chmod" in said.hint


async def test_a_secret_that_no_variable_can_have(tmp_path: Path) -> None:
    said = await lookup(tmp_path, Ring(gh="SENT\0INEL")).find(("gh",))
    assert isinstance(said, NotFound) and said.reason == "unusable"
    assert "SENT" not in said.message + said.hint


async def test_the_keyring_is_asked_once_for_all_who_ask_meanwhile(tmp_path: Path) -> None:
    """A keyring shows a prompt for each use of it."""
    ring = Ring(a="1", b="2", c="3")
    ring.may_answer.clear()
    looking = lookup(tmp_path, ring)
    first = asyncio.ensure_future(looking.find(("a",)))
    while not ring.asked:
        await asyncio.sleep(0)
    others = [asyncio.ensure_future(looking.find((name,))) for name in ("b", "c", "b")]
    given_up = asyncio.ensure_future(looking.find(("c",)))
    while len(looking._names) < 2:  # they come from threads
        await asyncio.sleep(0)
    given_up.cancel()
    ring.may_answer.set()
    assert await first == {"a": "1"}
    assert await asyncio.gather(*others) == [{"b": "2"}, {"c": "3"}, {"b": "2"}]
    assert ring.asked[:2] == [("a",), ("b", "c")]
    assert await looking.find(("a",)) == {"a": "1"}, "nothing is remembered"
    assert ring.asked[-1] == ("a",)
