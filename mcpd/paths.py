"""The paths of the socket, its locks, the state directory and the configuration."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing and collections.abc cost the bridge start-up time
    from collections.abc import Mapping

MAX_SOCKET_BYTES = 103 if sys.platform == "darwin" else 107
"""The size of ``sun_path`` without its NUL: 104 bytes on macOS, 108 on Linux."""

MAX_FILE_NAME_BYTES = 100

SOCKET_ELSEWHERE = "--socket PATH or MCPD_SOCKET"
"""The option and the variable that choose the path of the socket and its locks."""

STATE_ELSEWHERE = "MCPD_STATE_DIR"
"""The variable that chooses the directory of logs, ledgers and the rest of the state."""

_HASH_DIGITS = 16
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


def socket_path(override: str | None = None, env: Mapping[str, str] = os.environ) -> str:
    """Return the absolute path of the daemon's socket, short enough for ``sun_path``.

    The sources, in this order, are ``override`` (``--socket``), ``MCPD_SOCKET``,
    ``XDG_RUNTIME_DIR``, ``/run/user/UID`` if that is ours, and ``/tmp/mcpd-UID``. For a path that
    is too long, return a short one in a private directory that is derived from it, so that client
    and daemon get the same.
    """
    wanted = override or env.get("MCPD_SOCKET")
    if not wanted:
        runtime = env.get("XDG_RUNTIME_DIR", "")
        wanted = (
            f"{runtime}/mcpd/mcpd.sock"
            if runtime.startswith("/")
            else _own_directory() + "/mcpd.sock"
        )
    path = os.path.abspath(wanted)
    if len(os.fsencode(path)) <= MAX_SOCKET_BYTES:
        return path
    return f"{_own_directory()}/{_hash(os.fsencode(path))}.sock"


def is_default_directory(socket: str, env: Mapping[str, str] = os.environ) -> bool:
    """Return whether ``socket`` is in one of the directories that mcpd uses by default."""
    uid = os.geteuid()
    ours = [f"/run/user/{uid}/mcpd", f"/tmp/mcpd-{uid}"]
    runtime = env.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        ours.append(os.path.abspath(f"{runtime}/mcpd"))
    return os.path.dirname(os.path.abspath(socket)) in ours


def lock_path(socket: str) -> str:
    """Return the path of the lock that the daemon of ``socket`` holds while it runs."""
    return socket + ".lock"


def start_lock_path(socket: str) -> str:
    """Return the path of the lock that clients hold while they start a daemon for ``socket``."""
    return socket + ".start"


def state_dir(env: Mapping[str, str] = os.environ) -> str:
    """Return the directory of logs, catalog cache, ledgers and verdicts."""
    if env.get("MCPD_STATE_DIR"):
        return os.path.abspath(env["MCPD_STATE_DIR"])
    return _xdg(env, "XDG_STATE_HOME", ".local/state")


def place_path(env: Mapping[str, str] = os.environ) -> str:
    """Return the file in which daemons note where they are.

    It depends on ``HOME`` alone, which programs pass on that pass on nothing else.
    """
    return f"{_xdg({**env, 'XDG_STATE_HOME': ''}, 'XDG_STATE_HOME', '.local/state')}/place.json"


def is_place_named(
    socket: str | None, config: str | None, env: Mapping[str, str] = os.environ
) -> bool:
    """Tell whether options or the environment say which daemon is meant.

    ``socket`` and ``config`` are ``--socket`` and ``--config``. An ``XDG_RUNTIME_DIR`` names one
    unless it leads to the socket that there is without it.
    """
    named = ("MCPD_SOCKET", "MCPD_STATE_DIR", "MCPD_CONFIG")
    if socket or config or any(map(env.get, named)):
        return True
    return socket_path(None, env) != socket_path(None, {})


def config_home(env: Mapping[str, str] = os.environ) -> str:
    """Return the directory of the user's ``config.toml`` and ``mcp.json``."""
    return _xdg(env, "XDG_CONFIG_HOME", ".config")


def home(env: Mapping[str, str] = os.environ) -> str:
    """Return the home directory: ``HOME``, else the user database's, else a private one."""
    path = env.get("HOME", "")
    if path.startswith("/"):
        return path
    import pwd  # only where HOME is missing: services, containers

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return f"/tmp/mcpd-{os.geteuid()}"


def file_name(server_name: str) -> str:
    """Return ``server_name`` as a file name of letters, digits, ``_``, ``-`` and ``%XX`` only.

    A name over ``MAX_FILE_NAME_BYTES`` is cut and ends in a hash of the whole name.
    """
    raw = server_name.encode("utf-8", "surrogatepass")
    parts = [chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in raw]
    if sum(map(len, parts)) <= MAX_FILE_NAME_BYTES:
        return "".join(parts)
    room = MAX_FILE_NAME_BYTES - 1 - _HASH_DIGITS
    kept = ""
    for part in parts:
        if len(kept) + len(part) > room:
            break
        kept += part
    return f"{kept}-{_hash(raw)}"


def _xdg(env: Mapping[str, str], name: str, below_home: str) -> str:
    base = env.get(name, "")
    if not base.startswith("/"):  # XDG: relative paths are ignored
        base = f"{home(env)}/{below_home}"
    return os.path.abspath(f"{base}/mcpd")


def _own_directory() -> str:
    """Return the private directory whose path does not depend on the environment."""
    uid = os.geteuid()
    try:
        is_ours = os.stat(f"/run/user/{uid}").st_uid == uid
    except OSError:
        is_ours = False
    return f"/run/user/{uid}/mcpd" if is_ours else f"/tmp/mcpd-{uid}"


def _hash(data: bytes) -> str:
    from hashlib import sha256  # loads OpenSSL: not at start-up

    return sha256(data).hexdigest()[:_HASH_DIGITS]
