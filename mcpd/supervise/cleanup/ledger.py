"""The ledger: a daemon's record of its processes on disk, for its guardian and the next daemon."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets

from mcpd import privatefiles
from mcpd.supervise.cleanup.ledgerfile import DaemonRecord, ProcessRecord, encode
from mcpd.supervise.process import Child
from mcpd.supervise.proctable import ownership, procfs
from mcpd.supervise.proctable.procfs import ProcId


def new_daemon_id() -> str:
    """Return a unique id for this daemon, used in tags and file names."""
    return secrets.token_hex(6)


class Ledger:
    """The file ``ledger/DAEMON.json`` in the state directory, and the lock that shows we are alive.

    Invariant: the file is always complete and names every recorded process; the lock is held from
    before the file exists until after it is removed. A write that fails does not keep a server from
    running: ``trouble`` has the error, the next change writes everything again, and until then the
    processes can be found by the tags in their environments.
    """

    def __init__(self, state_dir: str, daemon_id: str) -> None:
        """Take the lock and write an empty ledger. Raises ``OSError``."""
        self.directory = os.path.join(state_dir, "ledger")
        self.daemon_id = daemon_id
        self.path = os.path.join(self.directory, f"{daemon_id}.json")
        self.trouble: OSError | None = None
        """The error of the last write, or ``None`` if it succeeded."""
        identity = procfs.identify(os.getpid())
        self._daemon = identity or ProcId(os.getpid(), procfs.ticks_now())
        self._entries: dict[Child, ProcessRecord] = {}
        self._spared: set[str] = set()
        self._lock = -1
        directory = privatefiles.open_directory(self.directory)
        try:
            flags = os.O_RDWR | os.O_CREAT
            self._lock = privatefiles.open_file(f"{daemon_id}.lock", flags, directory=directory)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(directory)
        self.save()

    def record(self, child: Child, server: str, generation: int) -> None:
        """Add a child that has just been spawned."""
        self._entries[child] = ProcessRecord(
            pid=child.pid,
            started=child.started,
            server=server,
            generation=generation,
            tag=child.tag,
            scope=child.scope,
            argv_hash=hashlib.sha256("\0".join(child.argv).encode(errors="replace")).hexdigest(),
            seen=(),
            container=child.container,
        )
        self.save()

    def forget(self, child: Child) -> None:
        """Remove a child whose tree has ended."""
        if self._entries.pop(child, None) is not None:
            if child.scope == "group":
                self._spared.add(ownership.stem(child.tag))
            self.save()

    def save(self) -> None:
        """Write the file. Also called when processes have left the session of their tree.

        Without ``fsync``: if the machine crashes, the recorded processes end too.
        """
        entries = tuple(
            entry._replace(scope=child.scope, seen=tuple(sorted(child.escaped)))
            for child, entry in self._entries.items()
        )
        recorded = DaemonRecord(
            daemon_id=self.daemon_id,
            daemon=self._daemon,
            boot_id=procfs.boot_id(),
            pid_namespace=procfs.pid_namespace(),
            entries=entries,
            spared=tuple(sorted(self._spared)),
        )
        try:
            directory = privatefiles.open_directory(self.directory)
            try:
                name = os.path.basename(self.path)
                privatefiles.replace_file(name, encode(recorded), directory=directory)
            finally:
                os.close(directory)
            self.trouble = None
        except OSError as error:
            self.trouble = error

    def close(self) -> None:
        """Remove the ledger; call it when all processes and the guardian have ended.

        It is kept if a container may still run: the next daemon tries again to end that.
        """
        if not any(entry.container for entry in self._entries.values()):
            with contextlib.suppress(OSError):
                remove(self.directory, self.daemon_id)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove(directory_path: str, daemon_id: str) -> None:
    """Remove a ledger and its lock files; the ledger first, as a lock alone has no meaning."""
    directory = privatefiles.open_directory(directory_path)
    try:
        for ending in ("json", "lock", "guard"):
            privatefiles.remove(f"{daemon_id}.{ending}", directory=directory)
    finally:
        os.close(directory)
