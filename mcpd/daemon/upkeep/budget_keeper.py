"""What servers have had sampled today, on disk: a restart of the daemon is no refill."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from mcpd import privatefiles, statefile, tasks
from mcpd.core.interface.commands import KeepBudget

FILE_NAME: Final = "budget.json"
SAVE_S: Final = 10.0
"""Between what was spent and its being on disk; a daemon that ends writes at once."""

CLOSE_S: Final = 5.0
"""How long the end of the daemon waits for the disk."""

MOST_BYTES: Final = 1024 * 1024


class _File(msgspec.Struct):
    day: str
    spent: dict[str, int]


class BudgetKeeper:
    """The file, and the days."""

    def __init__(
        self,
        path: str,
        began: Callable[[Mapping[str, int] | None], None],
        on_trouble: Callable[[OSError], None],
    ) -> None:
        """``began`` is told of each day what was spent on it, ``None`` where that is unknown.

        ``on_trouble`` is called where the file cannot be written.
        """
        self._path = path
        self._began = began
        self._on_trouble = on_trouble
        self._day = ""
        self._spent: dict[str, int] = {}
        self._saving: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._midnight: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Read the file, and begin the day."""
        self._day = _today()
        try:
            found = statefile.decode(privatefiles.read_private(self._path, MOST_BYTES), _File)
        except FileNotFoundError:
            self._begin({})
        except (OSError, ValueError):
            self._begin(None)
        else:
            self._begin(found.spent if found.day == self._day else {})

    def keep(self, command: KeepBudget) -> None:
        """Note what a server has spent today; it is on disk soon."""
        self._check_day()
        self._spent[command.server] = command.tokens
        self._await_midnight()
        if self._saving is None:
            self._saving = asyncio.get_running_loop().call_later(SAVE_S, self._save_soon)

    async def close(self) -> None:
        """Write what is not on disk yet."""
        if self._midnight is not None:
            self._midnight.cancel()
        if self._saving is not None:
            self._saving.cancel()
            self._save_soon()
        if self._writing is not None:
            await asyncio.wait((self._writing,), timeout=CLOSE_S)

    def _begin(self, spent: dict[str, int] | None) -> None:
        self._spent = dict(spent or {})
        if spent != {}:
            self._began(spent)
            self._await_midnight()

    def _await_midnight(self) -> None:
        """Begin another day in time, while something is spent of this one."""
        if self._midnight is None:
            now = datetime.now(UTC)
            end = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), UTC)
            wait = (end - now).total_seconds() + 1
            self._midnight = asyncio.get_running_loop().call_later(wait, self._next_day)

    def _next_day(self) -> None:
        self._midnight = None
        self._check_day()
        if self._spent:  # the clock was set back
            self._await_midnight()

    def _check_day(self) -> None:
        """Begin another day, if it is one."""
        today = _today()
        if today != self._day:
            self._day = today
            self._spent = {}
            self._began({})

    def _save_soon(self) -> None:
        """Write in a thread: the loop does not wait for a disk."""
        self._saving = None
        self._writing = tasks.spawn(self._save(self._writing), name="budget.write")

    async def _save(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait((before,))
        content = msgspec.json.encode(_File(self._day, self._spent))
        try:
            await asyncio.to_thread(privatefiles.replace_durably, self._path, content)
        except OSError as error:
            self._on_trouble(error)


def _today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")
