from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from mcpd.supervise.cleanup.sweep import SweepReport, sweep_dead
from mcpd.supervise.proctable import procfs
from tests.integration.supervise.site import (
    DEAF,
    SETSID,
    TREE,
    Site,
    alive,
    kill_both,
)
from tests.support.waiting import wait_until


async def test_the_next_daemon_reaps_what_is_left_when_both_died(site: Site):
    """B004."""
    daemon = site.daemon(DEAF, TREE, SETSID)
    processes = site.noted(5)
    kill_both(daemon)
    assert len(alive(processes)) == 5
    report = await sweep_dead(str(site.state))
    assert not alive(processes)
    assert report.dead == 1
    assert report.reaped >= 5
    assert os.listdir(site.state / "ledger") == []
    assert await sweep_dead(str(site.state)) == SweepReport()


async def test_a_living_daemon_is_left_alone(site: Site):
    daemon = site.daemon("NOTE; exec cat")
    site.noted(1)
    assert await sweep_dead(str(site.state)) == SweepReport(left=1)
    assert alive(daemon.children)


async def test_a_daemon_whose_lock_was_removed_is_known_by_its_pid(site: Site):
    daemon = site.daemon("NOTE; exec cat")
    daemon.ledger.with_suffix(".lock").unlink()
    assert await sweep_dead(str(site.state)) == SweepReport(left=1)
    assert alive(daemon.children)


async def test_a_guardian_at_work_is_waited_for(site: Site):
    daemon = site.daemon(DEAF)
    processes = site.noted(1)
    wait_until(lambda: any((site.state / "ledger").glob("*.guard")))
    daemon.kill()
    report = await sweep_dead(str(site.state))
    assert not alive(processes)
    assert report.reaped == 0
    assert not procfs.lives(daemon.guardian) or not any((site.state / "ledger").iterdir())


def dead_ledger(site: Site) -> tuple[Path, dict[str, Any]]:
    """Return a ledger as a dead daemon left it, to be changed and written."""
    daemon = site.daemon("NOTE; exec cat")
    path, document = daemon.ledger, json.loads(daemon.ledger.read_text())
    kill_both(daemon)
    wait_until(lambda: not alive(daemon.children))
    return path, document


async def test_a_recycled_pid_is_never_touched(site: Site):
    """B115: the pid of the ledger belongs to an innocent process now, as does its group."""
    path, document = dead_ledger(site)
    time.sleep(2 / os.sysconf("SC_CLK_TCK"))  # of the same tick they would be one process
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True) as innocent:
        try:
            wait_until(lambda: len([e for e in procfs.scan() if e.sid == innocent.pid]) == 2)
            document["processes"][0]["pid"] = innocent.pid
            document["processes"][0]["seen"] = [[innocent.pid, 7]]
            path.write_text(json.dumps(document))
            assert await sweep_dead(str(site.state)) == SweepReport(dead=1)
            assert len([e for e in procfs.scan() if e.sid == innocent.pid and e.lives]) == 2
        finally:
            os.killpg(innocent.pid, signal.SIGKILL)


@pytest.mark.parametrize("key", ["boot_id", "pid_namespace"])
async def test_another_boot_or_namespace_is_left_alone(site: Site, key: str):
    """
    Pids mean nothing there, and the machine that shares the directory may be up.
    """
    path, document = dead_ledger(site)
    document["daemon"][key] = "another"
    path.write_text(json.dumps(document))
    assert await sweep_dead(str(site.state)) == SweepReport(left=1)
    assert path.exists()


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"format": 1, "daemon": 1}'])
async def test_a_file_that_is_no_ledger_is_set_aside(site: Site, content: str):
    """
    It is no reason not to start; somebody may want to look at it.
    """
    path, _ = dead_ledger(site)
    path.write_text(content)
    report = await sweep_dead(str(site.state))
    assert report == SweepReport(set_aside=(f"{path}.corrupt",))
    assert Path(f"{path}.corrupt").read_text() == content
    assert await sweep_dead(str(site.state)) == SweepReport()


async def test_a_ledger_behind_a_link_is_not_read(site: Site, tmp_path: Path):
    path, document = dead_ledger(site)
    (tmp_path / "elsewhere").write_text(json.dumps(document))
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert (await sweep_dead(str(site.state))).dead == 0
    assert (tmp_path / "elsewhere").exists()


async def test_two_new_daemons_do_not_both_count(site: Site):
    daemon = site.daemon(DEAF)
    site.noted(1)
    kill_both(daemon)
    one, two = await asyncio.gather(sweep_dead(str(site.state)), sweep_dead(str(site.state)))
    assert one.dead + two.dead == 1
    assert one.left + two.left <= 1


async def test_no_ledger_directory_is_nothing_to_do(tmp_path: Path):
    assert await sweep_dead(str(tmp_path / "state")) == SweepReport()
