"""Where secrets are put, and how they are moved and removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpd.secrets import places
from mcpd.secrets.places import Mode, SecretsError
from mcpd.secrets.store import KeyringLocked, KeyringUnavailable, Store
from mcpd.signin.protocol import KeyringOrder, Problem, Value


class Ring:
    """A keyring of this test alone."""

    def __init__(self, problem: Problem | None = None) -> None:
        self.problem = problem
        self.secrets: dict[str, str] = {}
        self.services: set[str] = set()

    def __call__(self, order: KeyringOrder) -> Value:
        self.services.add(order.service)
        if self.problem is not None:
            return Value(problem=self.problem)
        match order.action:
            case "set":
                self.secrets[order.name] = order.value
                return Value(is_done=True)
            case "delete":
                return Value(is_done=self.secrets.pop(order.name, None) is not None)
            case _:
                wanted = {name: self.secrets.get(name) for name in order.names}
                return Value(found={n: v for n, v in wanted.items() if v is not None})


def store(tmp_path: Path, ring: Ring, mode: Mode = "auto") -> Store:
    return Store(str(tmp_path), mode, {}, ring)


def in_file(tmp_path: Path) -> dict[str, str]:
    return places.in_file(places.path_in(str(tmp_path)))


def test_a_keyring_is_used_where_there_is_one(tmp_path: Path) -> None:
    ring = Ring()
    assert store(tmp_path, ring).set("gh", "v") == "keyring"
    assert ring.secrets == {"gh": "v"} and ring.services == {"mcpd"}
    assert not (tmp_path / "secrets.json").exists()


@pytest.mark.parametrize("problem", ["none", "unavailable"])
def test_without_a_keyring_the_file_is_used(tmp_path: Path, problem: Problem) -> None:
    assert store(tmp_path, Ring(problem)).set("gh", "v") == "file"
    assert in_file(tmp_path) == {"gh": "v"}


def test_what_a_keyring_takes_is_not_left_in_the_file(tmp_path: Path) -> None:
    """The file counts where the keyring cannot be used: an older value would."""
    store(tmp_path, Ring("none")).set("gh", "old")
    store(tmp_path, Ring()).set("gh", "new")
    assert in_file(tmp_path) == {}


@pytest.mark.parametrize(
    ("mode", "problem", "error"),
    [
        ("auto", "locked", KeyringLocked),
        ("system", "locked", KeyringLocked),
        ("system", "none", KeyringUnavailable),
        ("system", "unavailable", KeyringUnavailable),
        ("off", None, SecretsError),
    ],
)
def test_what_is_not_kept_is_an_error_and_in_no_file(
    tmp_path: Path, mode: Mode, problem: Problem | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        store(tmp_path, Ring(problem), mode).set("gh", "v")
    assert not (tmp_path / "secrets.json").exists()


@pytest.mark.parametrize(("name", "value"), [("a b", "v"), ("gh", ""), ("gh", "a\0b")])
def test_a_name_or_a_value_that_cannot_be(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(SecretsError):
        store(tmp_path, Ring()).set(name, value)


def test_where_each_is(tmp_path: Path) -> None:
    ring = Ring()
    store(tmp_path, ring, "file").set("a", "1")
    store(tmp_path, ring).set("b", "2")
    found = store(tmp_path, ring).where(("a", "b", "c"))
    assert found.places == {"a": ["file"], "b": ["keyring"], "c": []} and found.problem is None
    assert store(tmp_path, ring).values(("a", "b", "c")).found == {"a": "1", "b": "2"}
    assert store(tmp_path, ring).names() == ["a"]


def test_one_is_removed_wherever_it_is(tmp_path: Path) -> None:
    ring = Ring()
    ring.secrets["gh"] = "new"
    store(tmp_path, ring, "file").set("gh", "old")
    assert store(tmp_path, ring).remove("gh") == ["keyring", "file"]
    assert ring.secrets == {} and in_file(tmp_path) == {}
    with pytest.raises(SecretsError, match="no secret gh"):
        store(tmp_path, ring).remove("gh")


def test_one_that_may_be_in_a_locked_keyring_is_not_said_to_be_gone(tmp_path: Path) -> None:
    with pytest.raises(KeyringLocked):
        store(tmp_path, Ring("locked")).remove("gh")


def test_secrets_are_moved_to_the_keyring(tmp_path: Path) -> None:
    ring = Ring("none")
    for name in "abc":
        store(tmp_path, ring).set(name, name)
    with pytest.raises(KeyringUnavailable):
        store(tmp_path, ring).move()
    assert in_file(tmp_path) == {"a": "a", "b": "b", "c": "c"}
    ring.problem = None
    assert store(tmp_path, ring).move(["b"]) == ["b"]
    assert store(tmp_path, ring).move() == ["a", "c"] and in_file(tmp_path) == {}
    assert ring.secrets == {"a": "a", "b": "b", "c": "c"}
    with pytest.raises(SecretsError):
        store(tmp_path, ring).move(["b"])
