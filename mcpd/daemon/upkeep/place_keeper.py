"""The daemon's note of where it is, for clients whose environment does not say it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable

from mcpd import paths, privatefiles, tasks
from mcpd.daemon_start import place
from mcpd.daemon_start.place import Place
from mcpd.errors import PathRefused
from mcpd.service import privatedir

CHECK_EVERY_S = 60.0
"""Seconds between two checks whether the note is still there."""

TIMEOUT_S = 1.0
"""Seconds for the removal, when the daemon ends, and for a look; the file system may hang."""


class PlaceKeeper:
    """Notes the daemon's place in ``place.json`` while it runs, beside those of other daemons.

    The file system is used in threads: the home directory may be on a network file system that
    hangs, and all other files of the daemon elsewhere. A note that is lost, because two daemons
    were started at the same time or somebody removed the file, is written again.
    """

    def __init__(self, own: Place, on_trouble: Callable[[str], None]) -> None:
        """``on_trouble`` is called with a reason when the note cannot be written."""
        self._own = own
        self._on_trouble = on_trouble
        self._keeping: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[list[Place]] | None = None
        self._turn = threading.Lock()  # a note must not be written once it was removed
        self._is_removed = False
        self.trouble: str | None = None
        """Why the note could not be written, ``None`` if it could."""

    def start(self) -> None:
        """Write the note and keep it."""
        self._keeping = tasks.spawn(self._keep(), name="daemon.place")

    async def close(self) -> None:
        """Remove the note."""
        if self._keeping is None:
            return
        self._keeping.cancel()
        await asyncio.wait((self._keeping,))
        removal = tasks.spawn(asyncio.to_thread(self.remove), name="daemon.place")
        await asyncio.wait((removal,), timeout=TIMEOUT_S)

    async def others(self) -> list[Place]:
        """Return the other daemons of this home directory that run; none if it hangs."""
        if self._looking is None or self._looking.done():  # one hung thread is enough
            look = asyncio.to_thread(place.others, self._own.socket)
            self._looking = tasks.spawn(look, name="daemon.places")
        looking = self._looking
        await asyncio.wait((looking,), timeout=TIMEOUT_S)
        return looking.result() if looking.done() else []

    def write(self) -> None:
        """Write the note unless it is there, without those of daemons that have ended."""
        with self._turn:
            noted = place.read()
            if not self._is_removed and not self._is_in(noted):
                self._replace([*self._without_own(noted), self._own])

    def remove(self) -> None:
        """Remove the note, and the file if it has no other."""
        with self._turn, contextlib.suppress(OSError, PathRefused):
            self._is_removed = True
            noted = place.read()
            if self._is_in(noted):
                self._replace(self._without_own(noted))

    async def _keep(self) -> None:
        while True:
            trouble = await asyncio.to_thread(self._try)
            if trouble is not None and trouble != self.trouble:
                self._on_trouble(trouble)
            self.trouble = trouble
            await asyncio.sleep(CHECK_EVERY_S)

    def _try(self) -> str | None:
        """Write the note; return why it could not be written."""
        try:
            self.write()
        except PathRefused as refusal:
            return refusal.message
        except OSError as error:
            return f"{paths.place_path()}: {error.strerror}"
        return None

    def _is_in(self, noted: list[Place]) -> bool:
        return any(vars(each) == vars(self._own) for each in noted)

    def _without_own(self, noted: list[Place]) -> list[Place]:
        own = self._own
        return [each for each in noted if each.socket != own.socket and each.is_living]

    def _replace(self, places: list[Place]) -> None:
        directory, name = os.path.split(paths.place_path())
        if not os.path.isdir(paths.home()):
            return  # the user of a service has none, and no client looks there
        privatedir.ensure_private(directory, own=True, elsewhere="HOME")
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if places:
                privatefiles.replace_file(name, place.written(places), directory=fd)
            else:
                privatefiles.remove(name, directory=fd)
        finally:
            os.close(fd)
