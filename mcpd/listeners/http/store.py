"""Sessions on disk, so that the next daemon takes them up: one private file each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from mcpd import privatefiles
from mcpd.core.interface.commands import SessionState
from mcpd.core.mcp.versions import LEGACY

DIRECTORY: Final = "http-sessions"
"""In the state directory."""

RETRY_S: Final = 5.0
"""Between two tries to write what could not be written."""

_FORMAT: Final = 1
_NAME: Final = re.compile(r"([0-9a-f]{64})\.json")
_TEMPORARY: Final = re.compile(r"\.[0-9a-f]{64}\.json\.[0-9]+")
"""What a daemon that was killed has left."""


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """One session. Its file is named by the hash of its id, which is written nowhere."""

    token: str | None
    token_sha256: str | None = None
    """What tells its token from a later one of the same name."""
    server: str | None
    state: SessionState
    lists: str | None = None
    """A digest of the lists that it may have seen."""


class _File(msgspec.Struct):
    format: int
    token: str | None
    token_sha256: str | None
    server: str | None
    version: str
    capabilities: str
    info: str | None
    level: str | None
    subscribed: list[tuple[str, str]]
    is_initialized: bool
    lists: str | None = None


_decode: Final = msgspec.json.Decoder(_File).decode


class SessionStore:
    """Writes, removes and reads the files."""

    def __init__(self, state_dir: str, on_trouble: Callable[[OSError | None], None]) -> None:
        """``on_trouble`` is told why files cannot be written, and ``None`` when they all are."""
        self._directory = os.path.join(state_dir, DIRECTORY)
        self._on_trouble = on_trouble
        self._unwritten: dict[str, Saved] = {}
        self._retry: asyncio.TimerHandle | None = None

    def save(self, digest: str, saved: Saved) -> None:
        """Write a session down, in place of what was written before.

        What cannot be written is written later; the session is served meanwhile.
        """
        self._unwritten[digest] = saved
        if self._retry is None:
            self._write_all()

    def close(self) -> None:
        """Try a last time to write what is not written."""
        if self._retry is not None:
            self._retry.cancel()
            self._write_all()
        if self._retry is not None:
            self._retry.cancel()

    def _write_all(self) -> None:
        was_troubled, self._retry = self._retry is not None, None
        for digest, saved in list(self._unwritten.items()):
            try:
                self._write(digest, saved)
            except OSError as error:
                if not was_troubled:
                    self._on_trouble(error)
                self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._write_all)
                return
            del self._unwritten[digest]
        if was_troubled:
            self._on_trouble(None)

    def _write(self, digest: str, saved: Saved) -> None:
        with self._opened() as directory:
            privatefiles.replace_file(_name(digest), _encoded(saved), directory=directory)

    def remove(self, digest: str) -> None:
        """Remove a session's file; harmless where there is none."""
        self._unwritten.pop(digest, None)
        with contextlib.suppress(OSError), self._opened() as directory:
            privatefiles.remove(_name(digest), directory=directory)

    def load(self) -> Iterator[tuple[str, Saved]]:
        """Yield every session by the hash of its id.

        What is in the place of a session and is none is removed; a file that cannot be read now is
        left, and so is what has another name.
        """
        try:
            with self._opened() as directory:
                for name in os.listdir(directory):
                    found = _NAME.fullmatch(name)
                    if found is None and not _TEMPORARY.fullmatch(name):
                        continue
                    saved = None
                    with contextlib.suppress(OSError):
                        saved = None if found is None else _read(name, directory)
                        if saved is None:
                            privatefiles.remove(name, directory=directory)
                    if found is not None and saved is not None:
                        yield found[1], saved
        except OSError as error:
            self._on_trouble(error)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        directory = privatefiles.open_directory(self._directory)
        try:
            yield directory
        finally:
            os.close(directory)


def _name(digest: str) -> str:
    return f"{digest}.json"


def _read(name: str, directory: int) -> Saved | None:
    """Return what a file holds, ``None`` where it is no session of ours, or of another version.

    Raises:
        OSError: it cannot be read now.
    """
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        return None
    fd = privatefiles.open_file(name, os.O_RDONLY, directory=directory)
    with os.fdopen(fd, "rb") as file:
        return _decoded(file.read())


def _decoded(data: bytes) -> Saved | None:
    try:
        found = _decode(data)
        said = [json.loads(each) for each in (found.capabilities, found.info) if each is not None]
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None
    if found.format != _FORMAT or found.version not in LEGACY:
        return None
    if not all(isinstance(each, dict) for each in said):
        return None
    return Saved(
        token=found.token,
        token_sha256=found.token_sha256,
        server=found.server,
        state=SessionState(
            version=found.version,
            capabilities=found.capabilities.encode(),
            info=None if found.info is None else found.info.encode(),
            level=found.level,
            subscribed=tuple(found.subscribed),
            is_initialized=found.is_initialized,
        ),
        lists=found.lists,
    )


def _encoded(saved: Saved) -> bytes:
    state = saved.state
    return msgspec.json.encode(
        _File(
            format=_FORMAT,
            token=saved.token,
            token_sha256=saved.token_sha256,
            server=saved.server,
            version=state.version,
            capabilities=state.capabilities.decode("utf-8", "replace"),
            info=None if state.info is None else state.info.decode("utf-8", "replace"),
            level=state.level,
            subscribed=list(state.subscribed),
            is_initialized=state.is_initialized,
            lists=saved.lists,
        )
    )
