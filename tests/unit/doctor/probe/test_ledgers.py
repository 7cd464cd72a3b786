"""Ledgers of living and of dead daemons."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from mcpd.doctor.probe.ledgers import ledgers
from mcpd.supervise.cleanup.ledgerfile import DaemonRecord, ProcessRecord, encode
from mcpd.supervise.proctable import procfs
from mcpd.supervise.proctable.procfs import ProcId

NOBODY = ProcId(4_000_000, 1)


def write(state: Path, daemon: ProcId, *entries: ProcessRecord, boot: str | None = None) -> None:
    (state / "ledger").mkdir(exist_ok=True)
    recorded = DaemonRecord(
        daemon_id=f"d{daemon.pid}", daemon=daemon, boot_id=boot or procfs.boot_id(),
        pid_namespace=procfs.pid_namespace(), entries=entries, spared=(),
    )  # fmt: skip
    (state / "ledger" / f"d{daemon.pid}.json").write_bytes(encode(recorded))


def entry(process: ProcId) -> ProcessRecord:
    return ProcessRecord(
        *process, server="s", generation=1, tag="d:s:1", scope="tree", argv_hash="", seen=()
    )


def test_what_a_dead_daemon_left_is_told_by_identity(tmp_path: Path) -> None:
    """
    A pid that is another's by now is no orphan.
    """
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        identity = procfs.identify(child.pid)
        assert identity
        write(tmp_path, NOBODY, entry(identity), entry(ProcId(os.getpid(), identity.started + 9)))
        (found,) = ledgers(str(tmp_path))
        assert (found.is_alive, found.pid, found.orphans) == (False, NOBODY.pid, (child.pid,))
        child.kill()
    assert ledgers(str(tmp_path))[0].orphans == ()


def test_what_carries_a_dead_daemons_tag_is_an_orphan(tmp_path: Path) -> None:
    write(tmp_path, NOBODY)
    env = {procfs.TAG: f"d{NOBODY.pid}:s:1"}
    argv = [sys.executable, "-c", "input()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env=env) as child:
        assert ledgers(str(tmp_path))[0].orphans == (child.pid,)
        child.kill()


def test_where_a_living_daemon_listens_is_seen(tmp_path: Path) -> None:
    us = procfs.identify(os.getpid())
    assert us
    write(tmp_path, us)
    path = str(tmp_path / "s.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        (found,) = ledgers(str(tmp_path))
    assert (found.is_alive, found.socket) == (True, path)


def test_what_is_no_ledger_of_now_says_nothing(tmp_path: Path) -> None:
    assert ledgers(str(tmp_path)) == ()
    write(tmp_path, NOBODY, boot="another boot")
    (tmp_path / "ledger" / "junk.json").write_text(json.dumps({"format": 9}))
    (tmp_path / "ledger" / "link.json").symlink_to("d4000000.json")
    assert ledgers(str(tmp_path)) == ()
