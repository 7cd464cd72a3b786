"""Pids on disk: what a daemon has running, for those who clean up after it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets

from mcpd import privatefiles
from mcpd.supervise import kinship, procfs
from mcpd.supervise.ledgerfile import Entry, Recorded, encode
from mcpd.supervise.process import Child
from mcpd.supervise.procfs import ProcId


def new_daemon_id() -> str:
    """Return a name for this daemon that no other has had: part of tags and of file names."""
    return secrets.token_hex(6)


class Ledger:
    """The file ``ledger/DAEMON.json`` in the state directory, and the lock that proves we live.

    Invariant: the file is always whole, and names every process that was recorded; the lock is
    held from before there is a file until after it is removed. A disk that is full is no reason
    not to run a server: ``trouble`` says so, the next change writes everything again, and the
    tags in the processes' environments find them meanwhile.
    """

    def __init__(self, state_dir: str, daemon_id: str) -> None:
        """Take the lock and write an empty ledger. Raises ``OSError`` when that is impossible."""
        self.directory = os.path.join(state_dir, "ledger")
        self.daemon_id = daemon_id
        self.path = os.path.join(self.directory, f"{daemon_id}.json")
        self.trouble: OSError | None = None
        """Why the last change is not on disk; ``None`` when it is."""
        identity = procfs.identify(os.getpid())
        self._daemon = identity or ProcId(os.getpid(), procfs.ticks_now())
        self._entries: dict[Child, Entry] = {}
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
        """Write down a child that has just been spawned."""
        self._entries[child] = Entry(
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
        """Strike out a child whose tree has ended."""
        if self._entries.pop(child, None) is not None:
            if child.scope == "group":
                self._spared.add(kinship.stem(child.tag))
            self.save()

    def save(self) -> None:
        """Write everything, as it is now; also when members of trees have become known.

        Without ``fsync``: what a crash of the machine takes away ends with the machine.
        """
        entries = tuple(
            entry._replace(scope=child.scope, seen=tuple(sorted(child.away)))
            for child, entry in self._entries.items()
        )
        recorded = Recorded(
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
        """Remove the ledger: nothing is running any more, and the guardian has gone.

        It stays where a container would not end: the next daemon tries again.
        """
        if not any(entry.container for entry in self._entries.values()):
            with contextlib.suppress(OSError):
                remove(self.directory, self.daemon_id)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove(directory_path: str, daemon_id: str) -> None:
    """Remove a ledger with its locks, the ledger first: without one a lock means nothing."""
    directory = privatefiles.open_directory(directory_path)
    try:
        for ending in ("json", "lock", "guard"):
            privatefiles.remove(f"{daemon_id}.{ending}", directory=directory)
    finally:
        os.close(directory)
