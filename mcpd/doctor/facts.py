"""The facts that the probes gather, as plain data without judgement."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mcpd.config.load import Loaded

Kind = Literal["absent", "link", "directory", "socket", "file", "other"]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A path in the file system; links are not followed."""

    path: str
    kind: Kind = "absent"
    uid: int = -1
    mode: int = 0


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The socket, its directory and its lock."""

    wanted: str
    """The path before it was shortened."""

    directory: Node
    socket: Node
    lock: Node
    holder: int | None = None
    """The pid that holds the lock; ``None`` if there is none, or the kernel does not report it."""


class Daemon(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon's process; each part is ``None`` if the system does not report it."""

    pid: int
    state: str | None = None
    """One letter as in proc(5): R, S, D, T, Z."""

    nofile: tuple[int, int] | None = None
    """Soft and hard limit of descriptors; the hard one -1 for none."""

    open_fds: int | None = None
    unit: str | None = None
    """The systemd unit in which it runs."""


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's answers."""

    why: str | None = None
    """The reason for no answer, as in ``DaemonUnavailable``; ``None`` if it answered."""

    silence: str = ""
    hint: str | None = None
    pid: int | None = None
    hello: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    listed: dict[str, Any] | None = None
    """The result of ``mcpd/list``."""

    tools: dict[str, list[dict[str, Any]]] = {}
    """Tools by server, for servers that have listed some."""

    names: dict[str, list[str]] = {}
    """Names of all tools by server, hidden ones as well, for servers that have listed some."""

    said: dict[str, list[str]] = {}
    """The last stderr lines of each server that has failed."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search for a server's program and its interpreter."""

    server: str
    command: str
    trouble: str | None = None
    """Why it cannot be started."""

    hint: str | None = None
    searched: tuple[str, ...] = ()
    lacks: str | None = None
    """Its interpreter, if that is in none of the directories."""


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration as it is in the files now, and the programs that it starts."""

    loaded: Loaded
    is_daemons: bool
    """Whether it was resolved in the daemon's environment rather than in this command's."""

    commands: tuple[Command, ...] = ()
    masked: dict[str, dict[str, Any]] = {}
    """Effective values by server with secrets masked, as in ``mcpd/list``."""


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """A directory to which the daemon writes, and its free space."""

    what: str
    path: str
    is_writable: bool = True
    reason: str | None = None
    """Why it is not writable, or cannot be examined."""

    free_bytes: int | None = None
    free_files: int | None = None


class Logs(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of the logs."""

    directory: str
    sizes: dict[str, int] = {}
    """Bytes of each log including its rotated parts, by path."""


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger of one daemon of this boot and pid namespace."""

    file: str
    pid: int
    is_alive: bool
    socket: str | None = None
    """The path on which a living daemon listens, if it can be found."""

    orphans: tuple[int, ...] = ()
    """Pids of a dead daemon's processes that still run."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of the machine: Python, disks, logs, watches and service units."""

    python: str
    state_dir: str
    refusal: str | None = None
    """Why a daemon refuses its state directory: other users could replace files in it."""

    remedy: str | None = None
    """How to fix that."""

    disks: tuple[Disk, ...] = ()
    logs: Logs | None = None
    inotify: str | None = None
    """Why changes of files cannot be watched; ``None`` if they can, or without inotify."""

    units: tuple[str, ...] = ()
    """Paths of installed mcpd units and agents."""


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of HTTP clients."""

    now: float
    """When they were looked at, in seconds since the epoch."""

    expires: dict[str, float | None] = {}
    """When each expires, by its name; ``None`` for never."""

    trouble: str | None = None
    """Why none can be used."""

    remedy: str | None = None
    """How to fix that."""


class SignIns(msgspec.Struct, frozen=True, kw_only=True):
    """Where the sign-ins to remote servers are kept."""

    path: str
    in_keyring: tuple[str, ...] = ()
    in_file: tuple[str, ...] = ()
    """Servers, by where their secrets are."""

    trouble: str | None = None
    """Why none can be used."""

    remedy: str | None = None
    """How to fix that."""


class Secrets(msgspec.Struct, frozen=True, kw_only=True):
    """Where the secrets are that entries name as ``${keyring:NAME}``; never a value."""

    path: str
    mode: str = "auto"
    """``[trust] keyring``."""

    in_file: tuple[str, ...] = ()
    """Names of those that are in the file, in the clear."""

    missing: tuple[tuple[str, str], ...] = ()
    """Each server that names a secret which was not found, and that name."""

    problem: str | None = None
    """That of the keyring, if it was asked: ``none``, ``locked`` or ``unavailable``."""

    trouble: str | None = None
    """Why none can be used."""

    remedy: str | None = None
    """How to fix that."""


class ClientEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry in a file of an MCP client."""

    client: str
    """As in ``mcpctl adopt CLIENT``."""

    title: str
    path: str
    name: str
    program: str | None
    """The ``mcpctl`` that it runs; ``None`` if it runs a server itself."""

    is_gone: bool = False
    """Whether that program is not there."""

    server: str | None = None
    """The server of mcpd that it connects to, or is a copy of; ``None`` for all of them."""

    is_missing: bool = False
    """Whether mcpd does not have that server."""


class Clients(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of clients that mcpd has to do with."""

    entries: tuple[ClientEntry, ...] = ()


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """The project of the current directory, which has files that name servers."""

    directory: str

    waiting: tuple[str, ...] = ()
    """Servers that nobody has trusted yet."""

    problems: tuple[tuple[str, str], ...] = ()
    """What is wrong with its files: severity and text."""

    trouble: str | None = None
    """Why nothing is trusted."""

    remedy: str | None = None
    """How to fix that."""


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """The audit of a state directory, as it can be read."""

    path: str
    trouble: str | None = None
    """Why it cannot be read."""

    remedy: str | None = None
    """How to fix that."""

    is_newer: bool = False
    """Whether a later mcpd has written it."""

    gaps: tuple[tuple[str, int, int], ...] = ()
    """The newest gaps: when, missing rows, calls without hashes."""

    aside: tuple[str, ...] = ()
    """Paths of broken files that were moved."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All facts; a part is ``None`` if its probe did not finish in time."""

    version: str
    """The version of this command."""

    place: Place | None
    talk: Talk | None
    daemon: Daemon | None
    files: Files | None
    machine: Machine | None
    ledgers: tuple[Ledger, ...] | None
    others: tuple[tuple[int, str], ...] = ()
    """Pid and socket of each other daemon of the home directory that runs."""

    tokens: Tokens | None = None
    sign_ins: SignIns | None = None
    secrets: Secrets | None = None
    clients: Clients | None = None
    project: Project | None = None
    audit: Audit | None = None
    unfinished: tuple[str, ...] = ()
    """Names of the probes that did not finish in time."""
