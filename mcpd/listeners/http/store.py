"""Sessions on disk, so that the next daemon takes them up: one private file each."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from mcpd import privatefiles
from mcpd.core.interface.commands import SessionState
from mcpd.core.mcp.versions import LEGACY

DIRECTORY: Final = "http-sessions"
"""In the state directory."""

_FORMAT: Final = 1
_NAME: Final = re.compile(r"([0-9a-f]{64})\.json")
_MOST_BYTES: Final = 1024 * 1024


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

    def __init__(self, state_dir: str, on_trouble: Callable[[OSError], None]) -> None:
        """``on_trouble`` is told of a file that could not be written."""
        self._directory = os.path.join(state_dir, DIRECTORY)
        self._on_trouble = on_trouble

    def save(self, digest: str, saved: Saved) -> None:
        """Write a session down, in place of what was written before."""
        try:
            with self._opened() as directory:
                privatefiles.replace_file(_name(digest), _encoded(saved), directory=directory)
        except OSError as error:
            self._on_trouble(error)

    def remove(self, digest: str) -> None:
        """Remove a session's file; harmless where there is none."""
        with contextlib.suppress(OSError), self._opened() as directory:
            privatefiles.remove(_name(digest), directory=directory)

    def load(self) -> Iterator[tuple[str, Saved]]:
        """Yield every session by the hash of its id; what is no session is removed."""
        try:
            with self._opened() as directory:
                for name in os.listdir(directory):
                    found = _NAME.fullmatch(name)
                    saved = None if found is None else _read(name, directory)
                    if found is not None and saved is not None:
                        yield found[1], saved
                    else:
                        with contextlib.suppress(OSError):
                            privatefiles.remove(name, directory=directory)
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
    """Return what a file holds, ``None`` where it is not one of ours, or of this version."""
    try:
        fd = privatefiles.open_file(name, os.O_RDONLY, directory=directory)
        with os.fdopen(fd, "rb") as file:
            if os.fstat(fd).st_uid != os.geteuid():
                return None
            found = _decode(file.read(_MOST_BYTES + 1))
        said = [json.loads(each) for each in (found.capabilities, found.info) if each is not None]
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
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
