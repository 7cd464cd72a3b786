"""The file format of the ledger: a daemon's identity and its processes.

Standard library only: the guardian reads it too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from mcpd.supervise.container import Container
from mcpd.supervise.proctable.procfs import ProcId

FORMAT = 1

LIMIT_BYTES = 16 * 1024 * 1024
"""Bytes of a ledger that are read."""


class ProcessRecord(NamedTuple):
    """One server's process in the ledger."""

    pid: int
    started: int
    server: str
    generation: int
    tag: str
    scope: str
    argv_hash: str
    """Distinguishes processes of one server without showing their arguments."""
    seen: tuple[ProcId, ...]
    """Members of its tree that have left its session; their tag may be missing."""
    container: Container | None = None


class DaemonRecord(NamedTuple):
    """A daemon and its processes: the content of one ledger."""

    daemon_id: str
    daemon: ProcId
    boot_id: str
    pid_namespace: str
    entries: tuple[ProcessRecord, ...]
    spared: tuple[str, ...]
    """Stems of the tags of processes that servers with ``stop_scope = "group"`` left running."""


def encode(recorded: DaemonRecord) -> bytes:
    """Return the file's content."""
    processes = [
        each._asdict()
        | {"pgid": each.pid, "seen": [list(process) for process in each.seen]}
        | ({} if each.container is None else {"container": each.container._asdict()})
        for each in recorded.entries
    ]
    document = {
        "format": FORMAT,
        "daemon": {
            "id": recorded.daemon_id,
            "pid": recorded.daemon.pid,
            "started": recorded.daemon.started,
            "boot_id": recorded.boot_id,
            "pid_namespace": recorded.pid_namespace,
        },
        "processes": processes,
        "spared": list(recorded.spared),
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def decode(content: bytes) -> DaemonRecord:
    """Return the record in a file. Raises ``ValueError`` if it is not a complete ledger."""
    try:
        document = json.loads(content)
        if document["format"] != FORMAT:
            raise ValueError("a ledger of another version")
        daemon = document["daemon"]
        return DaemonRecord(
            daemon_id=_text(daemon["id"]),
            daemon=_process((daemon["pid"], daemon["started"])),
            boot_id=_text(daemon["boot_id"]),
            pid_namespace=_text(daemon["pid_namespace"]),
            entries=tuple(map(_entry, document["processes"])),
            spared=tuple(map(_text, document["spared"])),
        )
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not a ledger: {error!r}") from None


def _entry(found: Any) -> ProcessRecord:
    process = _process((found["pid"], found["started"]))
    return ProcessRecord(
        pid=process.pid,
        started=process.started,
        server=_text(found["server"]),
        generation=int(found["generation"]),
        tag=_text(found["tag"]),
        scope=_text(found["scope"]),
        argv_hash=_text(found["argv_hash"]),
        seen=tuple(map(_process, found["seen"])),
        container=_container(found.get("container")),
    )


def _container(found: Any) -> Container | None:
    if found is None:
        return None
    argv = tuple(map(_text, found["argv"]))
    if not argv or not os.path.isabs(argv[0]):
        raise ValueError(f"not an engine: {argv!r}")
    return Container(
        argv=argv,
        label=_text(found["label"]),
        cidfile=_text(found["cidfile"]),
        is_ours=found["is_ours"] is True,
        removes=found["removes"] is True,
        env=tuple((_text(name), _text(value)) for name, value in found["env"]),
        cwd=_text(found["cwd"]),
    )


def _process(pair: Iterable[Any]) -> ProcId:
    pid, started = pair
    if not (type(pid) is int and type(started) is int and pid > 1 and started > 0):
        raise ValueError(f"not a process of ours: {pid!r}, {started!r}")
    return ProcId(pid, started)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"not a text: {value!r}")
    return value
