"""What servers said of themselves and listed, on disk, to answer while they do not run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping

import msgspec

from mcpd import paths, privatefiles, tasks
from mcpd.core.catalog.model import Catalog, Kind
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mcp.offer import FULL, Offer
from mcpd.core.mcp.versions import LEGACY
from mcpd.errors import SpawnFailed
from mcpd.redact import Redactor
from mcpd.supervise import spawn
from mcpd.upstreams.run import Backend
from mcpd.upstreams.stdio.spec import ProcessSpec

VERSION = 1
LIMIT_BYTES = 256 * 1024 * 1024


class Remembered(msgspec.Struct, frozen=True):
    """What the last process of a launch said and did.

    ``stamp`` is the ``program_mtime`` of its program, ``offer`` the part of ``initialize`` that it
    accepted, ``capabilities`` what was declared to it, as JSON, and ``of_clients`` what it listed
    for clients that declare other capabilities, by those.
    """

    introduction: Introduction
    catalog: Catalog
    has_asked: bool = False
    stamp: int | None = None
    offer: Offer = FULL
    capabilities: bytes = b"{}"
    of_clients: Mapping[str, Catalog] = {}


class _OfClient(msgspec.Struct):
    """Lists that are others than ours, and the kinds of those that are the same."""

    catalog: str
    same: list[Kind]


class _Kept(msgspec.Struct):
    version: int
    launch: str
    introduction: dict[str, object]
    catalog: str
    has_asked: bool = False
    stamp: int | None = None
    offer: Offer = FULL
    capabilities: str = "{}"
    of_clients: dict[str, _OfClient] = {}


_decode = msgspec.json.Decoder(_Kept).decode


class CatalogCache:
    """One file for each server in ``catalog/`` of the state directory.

    Invariant: a file that was not written here counts as none, and a full disk costs nothing but
    the cache. Known secrets are masked.
    """

    def __init__(
        self, state_dir: str, *, on_trouble: Callable[[OSError], object] = lambda _: None
    ) -> None:
        """``on_trouble`` is called once with the reason why nothing can be written."""
        self._on_trouble = on_trouble
        self._directory = os.path.join(state_dir, "catalog")
        self._waiting: dict[str, tuple[str, Remembered, Redactor]] = {}
        self._writer: asyncio.Task[None] | None = None
        self._late: dict[str, tuple[str, Remembered, Redactor]] = {}
        """What could not be written; tried again with the next write."""
        self.trouble: OSError | None = None
        """Why the last one could not be written; ``None`` when it was."""

    def load(self, server: str, launch: str) -> Remembered | None:
        """Return what the last process of this launch said, ``None`` where that is not known."""
        try:
            directory = privatefiles.open_directory(self._directory)
            try:
                fd = privatefiles.open_file(_name(server), os.O_RDONLY, directory=directory)
            finally:
                os.close(directory)
            with os.fdopen(fd, "rb") as file:
                kept = _decode(file.read(LIMIT_BYTES))
            is_known = kept.version == VERSION and kept.offer.version in LEGACY
            if not is_known or kept.launch != launch:
                return None
            introduction = Introduction.from_cache(kept.introduction)
            catalog = Catalog.from_cache(kept.catalog.encode())
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        if catalog is None:
            return None
        return Remembered(
            introduction,
            catalog,
            kept.has_asked,
            kept.stamp,
            kept.offer,
            kept.capabilities.encode(),
            _of_clients(kept, catalog),
        )

    def keep(self, server: str, launch: str, said: Remembered, redactor: Redactor) -> None:
        """Write soon, in a thread. A later call for the same server replaces one that waits."""
        self._waiting = {**self._late, **self._waiting, server: (launch, said, redactor)}
        self._late.clear()
        if self._writer is None or self._writer.done():
            self._writer = tasks.spawn(self._write(), name="cache.write")

    async def flush(self) -> None:
        """Wait until everything is written, or was tried once more."""
        if self._writer is not None:
            await asyncio.wait((self._writer,))
        if self._late:
            self._waiting, self._late = self._late, {}
            await self._write()

    async def _write(self) -> None:
        while self._waiting:
            server, what = self._waiting.popitem()
            before = self.trouble
            self.trouble = await asyncio.to_thread(self._write_one, server, *what)
            if self.trouble is None:
                self._late.pop(server, None)
                continue
            self._late[server] = what
            if before is None:
                self._on_trouble(self.trouble)

    def _write_one(
        self, server: str, launch: str, said: Remembered, redactor: Redactor
    ) -> OSError | None:
        pages = said.catalog.to_cache().decode()
        introduction = said.introduction.to_cache()
        kept = _Kept(
            VERSION,
            launch,
            introduction,
            pages,
            said.has_asked,
            said.stamp,
            said.offer,
            said.capabilities.decode(),
            {key: _of_client(lists, said.catalog) for key, lists in said.of_clients.items()},
        )
        data = redactor.mask_bytes(msgspec.json.encode(kept))
        try:
            directory = privatefiles.open_directory(self._directory)
            try:
                privatefiles.replace_file(_name(server), data, directory=directory)
            finally:
                os.close(directory)
        except OSError as error:
            return error
        return None


def _of_client(catalog: Catalog, ours: Catalog) -> _OfClient:
    own = {kind: lists for kind, lists in catalog.lists.items() if lists is not ours.get(kind)}
    return _OfClient(Catalog(own).to_cache().decode(), [*(catalog.lists.keys() - own.keys())])


def _of_clients(kept: _Kept, ours: Catalog) -> dict[str, Catalog]:
    """Return what was listed for clients; what cannot be read is read from the server again."""
    found = {}
    for key, each in kept.of_clients.items():
        own = Catalog.from_cache(each.catalog.encode())
        same = {kind: listing for kind in each.same if (listing := ours.get(kind)) is not None}
        if own is not None:
            found[key] = Catalog({**same, **own.lists})
    return found


def _name(server: str) -> str:
    return paths.file_name(server) + ".json"


def program_mtime(backend: Backend) -> int | None:
    """Return when the program of a server was written, in nanoseconds since the epoch.

    It tells a program from another one in the same place, after an upgrade; what an interpreter or
    a package runner runs is not covered. ``None`` where there is no program.
    """
    if not isinstance(backend, ProcessSpec):
        return None
    try:
        launch = spawn.prepare(
            backend.command,
            backend.args,
            env=backend.env,
            cwd=backend.cwd,
            tag="",
            inherit=backend.inherit,
            base_env=backend.base_env,
        )
        return os.stat(launch.program).st_mtime_ns
    except (SpawnFailed, OSError):
        return None
