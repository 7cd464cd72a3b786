from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from mcpd.supervise.proctable import procfs
from tests.integration.supervise.site import (
    BARE,
    DEAF,
    SETSID,
    TREE,
    Site,
    alive,
)
from tests.support.waiting import scaled, wait_until


def test_nothing_outlives_a_killed_daemon_by_more_than_two_seconds(site: Site):
    """B004: deaf ones and trees, groups and sessions, ended by the guardian, which ends too."""
    daemon = site.daemon(DEAF, DEAF, TREE, TREE, SETSID, "NOTE; exec cat")
    processes = site.noted(9)
    assert len(alive(processes)) == 9
    killed_at = daemon.kill()
    wait_until(lambda: not alive(processes), 5)
    assert time.monotonic() - killed_at < scaled(2.5)
    wait_until(lambda: not procfs.lives(daemon.guardian))
    assert os.listdir(site.state / "ledger") == []


def test_what_left_every_mark_behind_is_found_because_it_was_seen(site: Site):
    """
    ``env -i setsid`` with a double fork: adopted by the daemon, reported to the ledger.
    """
    daemon = site.daemon(BARE)
    bare = next(each for each in site.noted(2) if each not in daemon.children)

    def seen() -> bool:
        daemon.ask("look")
        return list(bare) in json.loads(daemon.ledger.read_text())["processes"][0]["seen"]

    wait_until(seen)
    daemon.kill()
    wait_until(lambda: not alive([*daemon.children, bare]), 5)


def test_a_narrow_scope_holds_for_the_guardian_too(site: Site):
    daemon = site.daemon("setsid sh -c 'NOTE; exec sleep 60' & NOTE; wait", scope="group")
    apart = [each for each in site.noted(2) if each not in daemon.children]
    daemon.kill()
    wait_until(lambda: not procfs.lives(daemon.guardian), 5)
    assert not alive(daemon.children)
    assert alive(apart) == apart


def test_the_guardian_has_nothing_of_the_daemons_but_its_pipe(site: Site):
    """
    A pipe of a server or of a client that it held open would never end.
    """
    daemon = site.daemon("NOTE; exec cat")
    folder = Path(f"/proc/{daemon.guardian.pid}")
    wait_until(lambda: is_waiting(daemon.guardian.pid))
    targets = {int(fd): os.readlink(folder / "fd" / fd) for fd in os.listdir(folder / "fd")}
    assert targets.pop(0).startswith("pipe:[")
    assert targets.pop(1) == targets.pop(2) == "/dev/null"
    assert list(targets.values()) == [str(daemon.ledger.with_suffix(".guard"))]
    assert os.readlink(folder / "cwd") == "/"
    assert b"MCPD" not in (folder / "environ").read_bytes()
    assert os.getsid(daemon.guardian.pid) == daemon.guardian.pid
    assert "guardian.py" in (folder / "cmdline").read_text()


def is_waiting(pid: int) -> bool:
    """Return whether a guardian has done all it does before its daemon ends."""
    return "pipe_read" in Path(f"/proc/{pid}/wchan").read_text()


def switches(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if "ctxt_switches" in line)


def test_the_guardian_sleeps_until_it_is_needed(site: Site):
    daemon = site.daemon("NOTE; exec cat")
    site.noted(1)
    wait_until(lambda: is_waiting(daemon.guardian.pid))
    before = switches(daemon.guardian.pid)
    time.sleep(0.5)
    assert switches(daemon.guardian.pid) == before


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_guardian_outlives_signals_that_go_to_everybody(site: Site, signum: int):
    daemon = site.daemon(DEAF)
    processes = site.noted(1)
    wait_until(lambda: any((site.state / "ledger").glob("*.guard")))
    os.kill(daemon.guardian.pid, signum)
    daemon.kill()
    wait_until(lambda: not alive(processes), 5)
