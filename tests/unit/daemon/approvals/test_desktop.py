"""Desktop notifications of questions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd.core.facts import AskedCall
from mcpd.daemon.approvals import desktop
from mcpd.daemon.approvals.desktop import Desktop
from mcpd.ids import SessionId
from mcpd.supervise.process import Child
from mcpd.supervise.reaper import Reaper
from tests.support.waiting import wait_until_async as wait_until


class Registry:
    """Takes the processes that are started, in place of the reaper."""

    def __init__(self) -> None:
        self.children: list[Child] = []

    def register(self, child: Child) -> Child:
        self.children.append(child)
        return child


def question(number: int, **more: str) -> AskedCall:
    names = {"server": "letters", "tool": "send", "client": "acme", **more}
    return AskedCall(number=number, session=SessionId(1), principal="local", version=None,
                     identity="", pin=b"", reason="", arguments=b'{"to":"sesame"}', **names)  # fmt: skip


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a ``notify-send`` that writes down its arguments; notifications come soon."""
    record, program = tmp_path / "shown", tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {record}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("DISPLAY", ":99")
    monkeypatch.setattr(desktop, "AFTER_S", 0.05)
    return record


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    yield made
    for child in made.children:
        child._process.wait()


def on_screen(registry: Registry, *, is_on: bool = True) -> Desktop:
    reaper: Reaper = registry  # type: ignore[assignment]
    return Desktop(reaper, lambda: is_on)


async def test_it_has_names_and_no_arguments(shown: Path, registry: Registry) -> None:
    screen = on_screen(registry)
    screen.asked(question(1, tool="<b>\u202esend"))
    await wait_until(lambda: shown.exists() and shown.read_text().endswith("\n"))
    text = shown.read_text()
    assert "acme wants to run letters \u203a &lt;b&gt;⟨U+202E⟩send" in text
    assert "sesame" not in text and "mcpctl approvals" in text
    screen.close()


async def test_many_are_one_and_the_rest_waits(shown: Path, registry: Registry) -> None:
    screen = on_screen(registry)
    for number in range(5):
        screen.asked(question(number))
    await wait_until(lambda: len(registry.children) == 1)
    screen.asked(question(9))
    await wait_until(lambda: 9 in screen._due)
    assert len(registry.children) == 1 and screen._next is not None
    screen.close()


async def test_what_is_over_is_not_shown(shown: Path, registry: Registry) -> None:
    screen = on_screen(registry)
    screen.asked(question(1))
    screen.over(1)
    screen.asked(question(2))
    await wait_until(lambda: bool(registry.children))
    assert "more" not in shown.read_text() if shown.exists() else True
    assert not screen._waiting and not screen._timers
    screen.close()


async def test_it_can_be_off(shown: Path, registry: Registry) -> None:
    screen = on_screen(registry, is_on=False)
    screen.asked(question(1))
    assert not screen._waiting


async def test_a_program_that_hangs_is_ended_and_nobody_waits(
    shown: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shown.parent / "notify-send").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(desktop, "PATIENCE_S", 0.05)
    screen = on_screen(registry)
    screen.asked(question(1))
    await wait_until(lambda: bool(registry.children) and not screen._children)
    assert registry.children[0]._process.wait() < 0
    screen.close()
