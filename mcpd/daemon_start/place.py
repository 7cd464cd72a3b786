"""The file in which the daemons of a user note where they are, and finding a daemon by it.

A client that gets neither ``MCPD_*`` nor ``XDG_*`` would look at the default socket alone, and
start a second daemon beside one that is elsewhere. ``place.json`` depends on ``HOME`` alone.
"""

from __future__ import annotations

import os
import stat

from mcpd import daemon_process, paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MOST_BYTES = 65536

PATHS = ("socket", "state_dir", "config_home")
"""Members of a note that are absolute paths."""


class Place:
    """Where one daemon is, as it has noted itself."""

    def __init__(
        self,
        *,
        socket: str,
        state_dir: str,
        config: str | None,
        config_home: str,
        pid: int,
        start_time: str,
    ) -> None:
        """``config`` is the only file that it reads, ``config_home`` the directory otherwise."""
        self.socket = socket
        self.state_dir = state_dir
        self.config = config
        self.config_home = config_home
        self.pid = pid
        self.start_time = start_time

    @property
    def is_living(self) -> bool:
        """Whether this daemon still runs: by owner, pid, start time and lock."""
        return self.start_time == daemon_process.start_time(
            self.pid
        ) and daemon_process.is_daemon_of(self.pid, self.socket)

    def variables(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return what to add to ``env`` for the next daemon to have the same files."""
        found = {}
        if self.state_dir != paths.state_dir(env):
            found["MCPD_STATE_DIR"] = self.state_dir
        if self.config is not None:
            found["MCPD_CONFIG"] = self.config
        elif self.config_home != paths.config_home(env):
            found["XDG_CONFIG_HOME"] = os.path.dirname(self.config_home)
        return found


def locate(
    socket: str | None, config: str | None, env: Mapping[str, str] = os.environ
) -> tuple[str, dict[str, str]]:
    """Return the path of the socket to use, and variables for a daemon that is started there.

    ``socket`` and ``config`` are ``--socket`` and ``--config``. If neither they nor ``env`` say
    which daemon is meant and none is at the default socket, that of the first living daemon that
    has noted its place is returned.
    """
    path = paths.socket_path(socket, env)
    if paths.is_place_named(socket, config, env):
        return path, {}
    noted = read(env)
    if not noted or _has_daemon(path):
        return path, {}
    found = next((place for place in noted if place.is_living), None)
    return (path, {}) if found is None else (found.socket, found.variables(env))


def others(path: str, env: Mapping[str, str] = os.environ) -> list[Place]:
    """Return the living daemons that have noted another socket than ``path``."""
    return [place for place in read(env) if place.socket != path and place.is_living]


def read(env: Mapping[str, str] = os.environ) -> list[Place]:
    """Return the places that are noted, in the order in which the daemons were started.

    They may be of dead daemons. Empty if the file cannot be used: it belongs to another user, is
    writable by others, or is no such file.
    """
    text = _read_own(paths.place_path(env))
    if not text:
        return []
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    others = found.get("others") if isinstance(found, dict) else None
    notes = [found, *(others if isinstance(others, list) else ())]
    return [place for note in notes if (place := _place(note)) is not None]


def written(places: list[Place]) -> bytes:
    """Return the content of the file for these places; the first is the one to use."""
    import json

    first, *others = map(vars, places)
    return json.dumps({**first, "others": others}, indent=1).encode() + b"\n"


def _place(note: Any) -> Place | None:
    if not isinstance(note, dict):
        return None
    names = (*PATHS, "config", "pid", "start_time")
    found: dict[str, Any] = {name: note.get(name) for name in names}
    config, pid, start_time = found["config"], found["pid"], found["start_time"]
    if not all(_is_path(found[name]) for name in PATHS):
        return None
    if not (config is None or _is_path(config)):
        return None
    return Place(**found) if type(pid) is int and isinstance(start_time, str) else None


def _is_path(value: object) -> bool:
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


def _read_own(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        found = os.fstat(fd)
        is_private = found.st_uid == os.geteuid() and not found.st_mode & 0o022
        if not is_private or not stat.S_ISREG(found.st_mode):
            return b""
        text = os.read(fd, MOST_BYTES + 1)
    except OSError:
        return b""
    finally:
        os.close(fd)
    return text if len(text) <= MOST_BYTES else b""


def _has_daemon(path: str) -> bool:
    pid = daemon_process.pid_in_lock(path)
    return pid is not None and daemon_process.is_daemon_of(pid, path)
