"""Approved definitions on disk: ``trust/pins/NAME.json`` of the state directory."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from mcpd import paths, privatefiles, statefile, tasks
from mcpd.core.catalog.pins import Pins
from mcpd.logfiles.line import stamp
from mcpd.redact import Redactor

VERSION = 1
LIMIT_BYTES = 256 * 1024 * 1024

AD_HOC_DAYS = 30
"""How long the pins of a server that a client brought are kept after it was last used."""

_AD_HOC = "adhoc-"


class _Kept(msgspec.Struct):
    version: int
    pins: Pins
    since: dict[str, str] = {}


class Loaded(NamedTuple):
    """What is known of a server's approved definitions. ``is_lost``: they cannot be read."""

    pins: Pins | None = None
    is_lost: bool = False


class PinStore:
    """One file for each server. Known secrets are masked in it.

    Invariant: a file is read or written only where it is private, ours and no link.
    """

    def __init__(
        self,
        state_dir: str,
        *,
        on_lost: Callable[[str, str], object] = lambda _, __: None,
        on_trouble: Callable[[OSError], object] = lambda _: None,
    ) -> None:
        """``on_lost`` is called with a name, and with what was done about its unreadable file.

        ``on_trouble`` is called once with the reason why nothing can be written.
        """
        self._directory = os.path.join(state_dir, "trust", "pins")
        self._on_lost = on_lost
        self._on_trouble = on_trouble
        self._since: dict[str, dict[str, str]] = {}
        self._states: dict[str, dict[str, str]] = {}
        self._waiting: dict[str, tuple[Pins | None, Redactor]] = {}
        self._writer: asyncio.Task[None] | None = None
        self._is_tidy = False
        self.trouble: OSError | None = None
        """Why the last file could not be written; ``None`` when it was."""

    def load(self, name: str, *, is_held: bool) -> Loaded:
        """Return what was approved of a server.

        What cannot be read is lost where definitions are held, and moved aside where they are not.
        """
        try:
            data = self._read(name)
        except FileNotFoundError:
            return Loaded()
        except OSError as error:
            return self._lost(name, error.strerror or str(error), is_held=is_held)
        try:
            kept = statefile.decode(data, _Kept)
            if kept.version != VERSION:
                raise ValueError(f"it is of version {kept.version}")
        except ValueError as error:
            return self._lost(name, str(error), is_held=is_held)
        self._since[name] = kept.since
        self._states[name] = _states(kept.pins)
        return Loaded(kept.pins)

    def since(self, name: str, kind: str, item: str) -> str | None:
        """Return since when a definition is in its state; RFC 3339, UTC."""
        return self._since.get(name, {}).get(f"{kind}:{item}")

    def keep(self, name: str, pins: Pins | None, redactor: Redactor) -> None:
        """Write soon, in a thread; ``None`` removes the file."""
        before, now = self._states.get(name, {}), {} if pins is None else _states(pins)
        at, since = stamp(datetime.now(UTC)), self._since.get(name, {})
        self._since[name] = {
            key: since.get(key, at) if before.get(key) == state else at
            for key, state in now.items()
        }
        self._states[name] = now
        self._waiting[name] = (pins, redactor)
        if self._writer is None or self._writer.done():
            self._writer = tasks.spawn(self._write(), name="pins.write")

    async def flush(self) -> None:
        """Wait until everything is written."""
        if self._writer is not None:
            await asyncio.wait((self._writer,))

    async def _write(self) -> None:
        while self._waiting:
            name, (pins, redactor) = self._waiting.popitem()
            before = self.trouble
            since = self._since.get(name, {})
            self.trouble = await asyncio.to_thread(self._write_one, name, pins, since, redactor)
            if self.trouble is not None and before is None:
                self._on_trouble(self.trouble)

    def _write_one(
        self, name: str, pins: Pins | None, since: Mapping[str, str], redactor: Redactor
    ) -> OSError | None:
        try:
            directory = self._open()
            try:
                if pins is None:
                    privatefiles.remove(_file(name), directory=directory)
                else:
                    data = statefile.encode(_Kept(VERSION, pins, dict(since)))
                    data = redactor.mask_bytes(data)
                    file = _file(name)
                    privatefiles.replace_file(file, data, directory=directory, is_durable=True)
            finally:
                os.close(directory)
        except OSError as error:
            return error
        return None

    def _open(self) -> int:
        """Return a descriptor of the directory of the pins; no link leads there."""
        above = privatefiles.open_directory(os.path.dirname(self._directory))
        try:
            return privatefiles.open_below(above, os.path.basename(self._directory))
        finally:
            os.close(above)

    def _read(self, name: str) -> bytes:
        if not os.path.lexists(self._directory):
            raise FileNotFoundError(self._directory)
        directory = self._open()
        try:
            if name.startswith(_AD_HOC) and not self._is_tidy:
                self._tidy(directory)
            fd = privatefiles.open_file(_file(name), os.O_RDONLY, directory=directory)
        finally:
            os.close(directory)
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(fd)
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
                raise PermissionError(errno.EPERM, "it can be read or written by others")
            data = file.read(LIMIT_BYTES + 1)
            if name.startswith(_AD_HOC):
                os.utime(fd)
        if len(data) > LIMIT_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return data

    def _tidy(self, directory: int) -> None:
        """Remove what was approved of servers that no client has brought for a month."""
        self._is_tidy = True
        oldest = datetime.now(UTC).timestamp() - AD_HOC_DAYS * 86400
        for file in os.listdir(directory):
            if file.startswith(_AD_HOC):
                with contextlib.suppress(OSError):
                    if os.stat(file, dir_fd=directory, follow_symlinks=False).st_mtime < oldest:
                        os.unlink(file, dir_fd=directory)

    def _lost(self, name: str, why: str, *, is_held: bool) -> Loaded:
        where = os.path.join(self._directory, _file(name))
        if is_held:
            self._on_lost(name, f"{where} cannot be read ({why}): its definitions are held")
            return Loaded(is_lost=True)
        aside = f"{_file(name)}.bad-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        done = f"moved aside as {aside}"
        try:
            directory = self._open()
            try:
                os.rename(_file(name), aside, src_dir_fd=directory, dst_dir_fd=directory)
            finally:
                os.close(directory)
        except OSError as error:
            done = f"it stays where it is ({error.strerror})"
        self._on_lost(name, f"{where} cannot be read ({why}): {done}, a new baseline begins")
        return Loaded()


def ad_hoc_name(identity: str) -> str:
    """Return the name under which the pins of a server that a client brought are kept."""
    return _AD_HOC + identity


def _file(name: str) -> str:
    return paths.file_name(name) + ".json"


def _states(pins: Pins) -> dict[str, str]:
    return {
        f"{kind}:{name}": f"{pin.state} {pin.hash}" for (kind, name), pin in pins.merged().items()
    }
