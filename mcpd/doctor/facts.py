"""What was found, as plain data: nothing here says whether it is good."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mcpd.config.load import Loaded

Kind = Literal["absent", "link", "directory", "socket", "file", "other"]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One name in the file system, links not followed."""

    path: str
    kind: Kind = "absent"
    uid: int = -1
    mode: int = 0


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where the daemon listens."""

    me: int
    """Our effective uid."""

    wanted: str
    """The path before it was shortened."""

    directory: Node
    socket: Node
    lock: Node
    holder: int | None = None
    """The pid that holds the lock, as the kernel says; ``None`` for nobody, or where it is mute."""


class Daemon(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon's process, from outside; each part ``None`` where the system does not tell."""

    pid: int
    state: str | None = None
    """One letter, as proc(5) has it: R, S, D, T, Z."""

    nofile: tuple[int, int] | None = None
    """Soft and hard limit of descriptors; the hard one -1 for none."""

    open_fds: int | None = None
    unit: str | None = None
    """The unit of a service manager that it runs in."""


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    """What the daemon said when it was asked."""

    why: str | None = None
    """Which silence it was, as ``DaemonUnavailable`` has it; ``None`` for none."""

    silence: str = ""
    hint: str | None = None
    pid: int | None = None
    hello: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    listed: dict[str, Any] | None = None
    """The result of ``mcpd/list``."""

    tools: dict[str, list[dict[str, Any]]] = {}
    """Tools by server, of those that have listed some."""

    said: dict[str, list[str]] = {}
    """The last lines of servers that are in trouble."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What looking for a server's command, and for what that needs, came to."""

    server: str
    command: str
    trouble: str | None = None
    """Why it cannot be started."""

    hint: str | None = None
    searched: tuple[str, ...] = ()
    lacks: str | None = None
    """A program that it needs to run and that is in none of the directories."""


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration as it is in the files now, and what it starts."""

    loaded: Loaded
    is_daemons: bool
    """Whether the environment of the daemon counted, rather than that of this command."""

    commands: tuple[Command, ...] = ()
    masked: dict[str, dict[str, Any]] = {}
    """Effective values by server, secrets masked, as ``mcpd/list`` has them."""


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """A directory that is written to, and how much room there is."""

    what: str
    path: str
    is_writable: bool = True
    reason: str | None = None
    """Why it is not, or cannot be looked at."""

    free_bytes: int | None = None
    free_files: int | None = None


class Logs(msgspec.Struct, frozen=True, kw_only=True):
    """What the logs take up."""

    directory: str
    sizes: dict[str, int] = {}
    """Bytes of each log, its rotated parts included, by the name of its file."""


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one daemon, of this boot and pid namespace."""

    file: str
    pid: int
    is_alive: bool
    socket: str | None = None
    """Where a living one listens, as far as it can be seen."""

    orphans: tuple[int, ...] = ()
    """What of a dead one's processes still runs."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The rest of the surroundings."""

    python: str
    state_dir: str
    refusal: str | None = None
    """Why a daemon keeps no state there, of which others could make something else."""

    remedy: str | None = None
    """What helps against that."""

    disks: tuple[Disk, ...] = ()
    logs: Logs | None = None
    inotify: str | None = None
    """Why changes of files cannot be watched; ``None`` where they can, or where there is none."""

    units: tuple[str, ...] = ()
    """Files of units and agents of ours that are installed."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All of it; a part is ``None`` where looking for it did not come to an end in time."""

    version: str
    """Of this command."""

    place: Place | None
    talk: Talk | None
    daemon: Daemon | None
    files: Files | None
    machine: Machine | None
    ledgers: tuple[Ledger, ...] | None
    unfinished: tuple[str, ...] = ()
    """What did not come to an end in time."""
