"""Desktop notifications of questions that nobody answers: names only, never arguments."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Final

from mcpd import visible
from mcpd.core.facts import AskedCall
from mcpd.supervise.process import Child
from mcpd.supervise.proctable import procfs
from mcpd.supervise.reaper import Reaper

AFTER_S: Final = 2.0
"""How long a question waits for an answer before the desktop shows it."""

EVERY_S: Final = 10.0
"""Seconds between two notifications."""

PATIENCE_S: Final = 10.0
"""How long the program that shows one may take; then it is killed."""

_NAME_LENGTH: Final = 80
_DESKTOPS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")


class Desktop:
    """Shows that calls wait, at most once in ``EVERY_S``, and waits for nothing."""

    def __init__(self, reaper: Reaper, is_on: Callable[[], bool]) -> None:
        self._reaper = reaper
        self._is_on = is_on
        self._waiting: dict[int, AskedCall] = {}
        """Questions that are open and were not shown."""
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._due: set[int] = set()
        self._next: asyncio.TimerHandle | None = None
        self._shown_at = -EVERY_S
        self._children: dict[Child, asyncio.TimerHandle] = {}

    def asked(self, question: AskedCall) -> None:
        """Show a question if it is still open in a moment."""
        loop, number = asyncio.get_running_loop(), question.number
        if number in self._waiting or not self._is_on() or not _has_desktop():
            return
        self._waiting[number] = question
        self._timers[number] = loop.call_later(AFTER_S, self._is_due, number)

    def over(self, number: int) -> None:
        """Do not show a question that has an answer, or an end."""
        self._waiting.pop(number, None)
        self._due.discard(number)
        timer = self._timers.pop(number, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Show nothing more."""
        for number in list(self._waiting):
            self.over(number)
        if self._next is not None:
            self._next.cancel()
        for child in list(self._children):
            self._end(child)

    def _is_due(self, number: int) -> None:
        self._timers.pop(number, None)
        self._due.add(number)
        if self._next is None:
            loop = asyncio.get_running_loop()
            wait = self._shown_at + EVERY_S - loop.time()
            self._next = loop.call_later(max(0.0, wait), self._show)

    def _show(self) -> None:
        self._next = None
        found = [self._waiting.pop(number) for number in sorted(self._due)]
        self._due.clear()
        if not found or not self._is_on():
            return
        self._shown_at = asyncio.get_running_loop().time()
        first = found[0]
        who = "" if first.client is None else f"{first.client[:_NAME_LENGTH]} wants to run "
        what = _plain(who + visible.tool(first.server, first.tool, _NAME_LENGTH))
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        argv = _command("mcpd asks", f"{what}{more}. To answer: mcpctl approvals")
        if argv is not None:
            self._start(argv)

    def _start(self, argv: list[str]) -> None:
        try:
            popen = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            return  # who is asked in other places still is
        identity = procfs.identify(popen.pid)
        started = procfs.ticks_now() if identity is None else identity.started
        child = self._reaper.register(Child(popen, started))
        loop = asyncio.get_running_loop()
        self._children[child] = loop.call_later(PATIENCE_S, self._end, child)

    def _end(self, child: Child) -> None:
        timer = self._children.pop(child, None)
        if timer is not None:
            timer.cancel()
        if child.returncode is None:  # until then its pid cannot be another process's
            os.kill(child.pid, signal.SIGKILL)


def _has_desktop() -> bool:
    return sys.platform == "darwin" or any(os.environ.get(name) for name in _DESKTOPS)


def _command(title: str, text: str) -> list[str] | None:
    """Return what shows a notification; ``None`` where the system has no program for it."""
    if sys.platform == "darwin":
        script = (
            "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend"
        )
        return ["/usr/bin/osascript", "-e", script, title, text]
    program = shutil.which("notify-send")
    return None if program is None else [program, "--app-name=mcpd", "--", title, text]


def _plain(text: str) -> str:
    """Return a text that can do nothing: the desktop may take markup."""
    return visible.text(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
