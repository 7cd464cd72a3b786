"""The keyring for a command, in a process that is killed when it does not answer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mcpd.secrets import keyring
from mcpd.signin.protocol import KeyringOrder, Value

BACKEND = """
import json, pathlib, time
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked
PLACE = pathlib.Path(__file__).with_suffix(".json")
class Keyring(KeyringBackend):
    priority = 9
    def get_password(self, service, name):
        return json.loads(PLACE.read_text()).get(name) if PLACE.exists() else None
    def set_password(self, service, name, value):
        PLACE.write_text(json.dumps({name: value}))
    def delete_password(self, service, name):
        PLACE.unlink()
class Locked(Keyring):
    def get_password(self, service, name):
        raise KeyringLocked("no")
class Hanging(Keyring):
    def get_password(self, service, name):
        time.sleep(60)
class Broken(Keyring):
    def get_password(self, service, name):
        raise RuntimeError("no")
class Crashing(Keyring):
    def get_password(self, service, name):
        import os
        os._exit(1)
"""
FIND = KeyringOrder(service="mcpd", action="find", names=("gh", "other"))


@pytest.fixture(autouse=True)
def backends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secretbackends.py").write_text(BACKEND)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def use(monkeypatch: pytest.MonkeyPatch, name: str, order: KeyringOrder = FIND) -> Value:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", name)
    return keyring.use(order, 1.5 if name.endswith("Hanging") else 20)


def test_a_keyring_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "secretbackends.Keyring"
    assert use(monkeypatch, name) == Value()
    order = KeyringOrder(service="mcpd", action="set", name="gh", value="v")
    assert use(monkeypatch, name, order).is_done
    assert use(monkeypatch, name).found == {"gh": "v"}
    order = KeyringOrder(service="mcpd", action="delete", name="gh")
    assert use(monkeypatch, name, order).is_done and use(monkeypatch, name).found == {}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("secretbackends.Locked", "locked"),
        ("secretbackends.Hanging", "locked"),
        ("secretbackends.Broken", "unavailable"),
        ("secretbackends.Crashing", "unavailable"),
        ("keyring.backends.fail.Keyring", "none"),
    ],
)
def test_a_keyring_that_does_not(monkeypatch: pytest.MonkeyPatch, name: str, problem: str) -> None:
    started = time.monotonic()
    assert use(monkeypatch, name).problem == problem
    assert time.monotonic() - started < 20


def test_a_keyring_that_keeps_nothing_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    order = KeyringOrder(service="mcpd", action="set", name="gh", value="v")
    assert use(monkeypatch, "keyring.backends.null.Keyring", order) == Value(problem="none")
