"""The keyring of the operating system, in a process that is killed when it does not answer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mcpd.schemas.channel import Process
from mcpd.signin.process import KeyringProcess
from tests.support import signins

BACKEND = """
import pathlib, time
from keyring.backend import KeyringBackend
HERE = pathlib.Path(__file__).parent
class Keyring(KeyringBackend):
    priority = 5
    def _path(self, service, name):
        return HERE / f"{service} {name}".replace("/", "_")
    def get_password(self, service, name):
        path = self._path(service, name)
        return path.read_text() if path.exists() else None
    def set_password(self, service, name, value):
        self._path(service, name).write_text(value)
    def delete_password(self, service, name):
        self._path(service, name).unlink()
class Dropping(Keyring):
    def set_password(self, service, name, value):
        pass
class Hanging(Keyring):
    def get_password(self, service, name):
        time.sleep(60)
    set_password = get_password
class Plain(Keyring):
    priority = 0.5
class Broken(Keyring):
    def set_password(self, service, name, value):
        raise RuntimeError("no")
"""


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[KeyringProcess]:
    (tmp_path / "backends.py").write_text(BACKEND)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return KeyringProcess


def of(name: str, timeout: float = 20.0) -> KeyringProcess:
    def spawn(argv: list[str], environment: tuple[str, ...]) -> Process:
        return signins.spawn(argv, environment, backend=f"backends.{name}")

    return KeyringProcess(spawn, "mcpd", timeout)


@pytest.mark.usefixtures("keyring")
async def test_a_keyring_keeps_what_it_is_given() -> None:
    found = of("Keyring")
    assert await found.is_usable() and await found.get("far") is None
    assert await found.set("far", "SECRET") and await found.get("far") == "SECRET"
    await found.delete("far")
    assert await found.get("far") is None


@pytest.mark.usefixtures("keyring")
@pytest.mark.parametrize("name", ["Dropping", "Broken"])
async def test_a_keyring_that_keeps_nothing_is_not_used(name: str) -> None:
    found = of(name)
    assert not await found.is_usable() and not await found.set("far", "SECRET")


@pytest.mark.usefixtures("keyring")
async def test_a_keyring_that_shows_a_prompt_to_nobody_is_given_up() -> None:
    found = of("Hanging", timeout=1.5)
    started = time.monotonic()
    assert not await found.is_usable() and await found.get("far") is None
    assert time.monotonic() - started < 20


async def test_without_a_keyring_there_is_none() -> None:
    found = KeyringProcess(signins.spawn, "mcpd", 20.0)
    assert not await found.is_usable() and await found.get("far") is None
    await found.delete("far")
