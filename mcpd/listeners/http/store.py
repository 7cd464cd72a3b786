"""Sessions on disk, so that the next daemon takes them up: one private file each."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import stat
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from mcpd.core.interface.commands import SessionState
from mcpd.core.mcp.versions import LEGACY

DIRECTORY: Final = "http-sessions"
"""In the state directory."""

RETRY_S: Final = 5.0
"""Between two tries to write what could not be written."""

_FORMAT: Final = 1
_SUFFIX: Final = ".json"
_TEMPORARY: Final = ".tmp"


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """One session. Its file is named by the hash of its id, which is written nowhere."""

    token: str | None
    token_sha256: str | None = None
    """What tells its token from a later one of the same name."""
    server: str | None
    state: SessionState
    lists: str | None = None
    """What stands for the lists that it may have seen."""


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
        path = self._path(digest)
        temporary = path + _TEMPORARY
        try:
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(temporary, flags, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(_encoded(saved))
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def remove(self, digest: str) -> None:
        """Remove a session's file; harmless where there is none."""
        self._unwritten.pop(digest, None)
        self._unlink(digest + _SUFFIX)

    def _unlink(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._directory, name))

    def load(self) -> Iterator[tuple[str, Saved]]:
        """Yield every session by the hash of its id.

        A file that is no session is removed; one that cannot be read now is left.
        """
        try:
            names = os.listdir(self._directory)
        except OSError:
            return
        for name in names:
            digest = name.removesuffix(_SUFFIX)
            if name.endswith(_SUFFIX + _TEMPORARY):  # its writer was killed
                self._unlink(name)
            if digest == name or not digest.isalnum():
                continue
            try:
                saved = self._read(digest)
            except OSError:
                continue
            if saved is None:
                self.remove(digest)
            else:
                yield digest, saved

    def _read(self, digest: str) -> Saved | None:
        """Return what a file holds, ``None`` where it is no session, or of another version.

        Raises:
            OSError: it cannot be read now, or is a link, a pipe or somebody else's.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        fd = os.open(self._path(digest), flags)
        try:
            opened = os.fstat(fd)
            if not stat.S_ISREG(opened.st_mode) or opened.st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, "not a file of ours")
            with os.fdopen(fd, "rb", closefd=False) as file:
                data = file.read()
        finally:
            os.close(fd)
        try:
            found = _decode(data)
            said = [json.loads(each) for each in (found.capabilities, found.info or "{}")]
        except (msgspec.MsgspecError, ValueError, RecursionError):
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

    def _path(self, digest: str) -> str:
        return os.path.join(self._directory, digest + _SUFFIX)


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
