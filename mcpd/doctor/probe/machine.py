"""Examines the machine: disks, logs, watches of files, units of service managers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping

from mcpd import paths
from mcpd.config.files.inotify import NAMES, Inotify
from mcpd.doctor.facts import Disk, Logs, Machine
from mcpd.errors import PathRefused
from mcpd.service import privatedir

UNIT_DIRECTORIES = ("/etc/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user")


def machine(state_dir: str, runtime_dir: str, env: Mapping[str, str]) -> Machine:
    """Return the facts of the machine; ``env`` determines the user's directories."""
    refusal = refusal_of(state_dir, own="MCPD_STATE_DIR" not in env)
    return Machine(
        python=".".join(map(str, sys.version_info[:3])),
        state_dir=state_dir,
        refusal=None if refusal is None else refusal.message,
        remedy=None if refusal is None else refusal.hint,
        disks=(disk("state", state_dir), disk("socket", runtime_dir)),
        logs=logs(state_dir),
        inotify=inotify(_there(paths.config_home(env))),
        units=tuple(path for path in unit_files(env) if os.path.lexists(path)),
    )


def refusal_of(state_dir: str, *, own: bool) -> PathRefused | None:
    """Return why a daemon refuses its state directory, or ``None``.

    A directory that cannot be opened is reported by ``disk`` instead.
    """
    try:
        privatedir.check(state_dir, own=own, elsewhere=paths.STATE_ELSEWHERE)
    except PathRefused as refusal:
        return None if "errno" in refusal.details else refusal
    return None


def disk(what: str, path: str) -> Disk:
    """Examine a directory to which the daemon writes, or its nearest existing parent."""
    place = _there(path)
    try:
        if place != path and not os.path.isdir(place):
            return Disk(what=what, path=path, is_writable=False, reason=f"{place} is no directory")
        room = os.statvfs(place)
    except OSError as error:
        return Disk(what=what, path=path, is_writable=False, reason=error.strerror)
    can_write = os.access(place, os.W_OK | os.X_OK)
    is_read_only = bool(room.f_flag & os.ST_RDONLY)
    reason = "its disk is mounted read-only" if is_read_only else f"{place} is not writable"
    return Disk(
        what=what,
        path=path,
        is_writable=can_write and not is_read_only,
        reason=None if can_write and not is_read_only else reason,
        free_bytes=room.f_bavail * room.f_frsize,
        free_files=room.f_favail if room.f_files else None,
    )


def logs(state_dir: str) -> Logs:
    """Return the size of each log, including its rotated parts (``NAME.log.1``)."""
    sizes: dict[str, int] = {}
    for directory in (state_dir, os.path.join(state_dir, "logs")):
        try:
            entries = list(os.scandir(directory))
        except OSError:
            continue
        for entry in entries:
            name, dot, _ = entry.name.partition(".log")
            if not dot:
                continue
            try:
                size = entry.stat(follow_symlinks=False).st_size
            except OSError:  # rotated away just now
                continue
            where = os.path.join(directory, f"{name}.log")
            sizes[where] = sizes.get(where, 0) + size
    return Logs(directory=state_dir, sizes=sizes)


def inotify(directory: str) -> str | None:
    """Set a watch as the daemon does; return why that fails, or ``None``."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        watch = Inotify()
    except OSError as error:
        return f"no instance is left ({error.strerror})"
    try:
        watch.add(directory, NAMES, frozenset())
    except OSError as error:
        return f"no watch is left ({error.strerror})"
    finally:
        watch.close()
    return None


def unit_files(env: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths at which mcpd's units and agents may be installed for this user."""
    home = paths.home(env)
    config = env.get("XDG_CONFIG_HOME") or f"{home}/.config"
    data = env.get("XDG_DATA_HOME") or f"{home}/.local/share"
    if sys.platform == "darwin":
        agents = f"{home}/Library/LaunchAgents"
        try:
            yield from (f"{agents}/{name}" for name in os.listdir(agents) if "mcpd" in name)
        except OSError:
            return
    else:
        for directory in (f"{config}/systemd/user", f"{data}/systemd/user", *UNIT_DIRECTORIES):
            yield f"{directory}/mcpd.service"


def _there(path: str) -> str:
    """Return ``path``, or its nearest existing parent."""
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path
