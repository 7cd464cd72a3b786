from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from mcpd.supervise.cleanup import keeper
from mcpd.supervise.proctable import procfs
from mcpd.supervise.reaper import Reaper
from tests.integration.supervise.site import (
    DEAF,
    TREE,
    Site,
    alive,
)
from tests.support.waiting import scaled, wait_until, wait_until_async


def test_an_orderly_end_leaves_no_trace(site: Site):
    daemon = site.daemon(TREE, "exec cat")
    processes = site.noted(2)
    _, stderr = daemon.process.communicate("stop\n", timeout=scaled(10))
    assert daemon.process.returncode == 0
    assert stderr == ""
    assert not alive([*processes, *daemon.children, daemon.guardian])
    assert os.listdir(site.state / "ledger") == []


def test_a_guardian_that_is_killed_is_replaced_and_it_is_said(site: Site):
    daemon = site.daemon(DEAF)
    processes = site.noted(1)
    os.kill(daemon.guardian.pid, signal.SIGKILL)

    def other() -> int:
        told = daemon.ask("guardian")
        return 0 if told in ("None", str(daemon.guardian.pid)) else int(told)

    pid = wait_until(other)
    daemon.kill()
    wait_until(lambda: not alive(processes), 5)
    wait_until(lambda: procfs.identify(pid) is None)
    assert daemon.process.stderr is not None
    assert f"pid {daemon.guardian.pid}" in daemon.process.stderr.read()


async def test_a_guardian_that_never_starts_is_said_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    said: list[str] = []
    reaper = Reaper("d")
    reaper.start()
    made = keeper.GuardianKeeper(
        str(tmp_path / "ledger" / "d.json"), reaper, on_trouble=said.append
    )
    monkeypatch.setattr(keeper, "RETRY_S", 0.01)
    executable = sys.executable
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    try:
        made.start()
        assert made.pid is None
        assert "without it" in said[0]
        monkeypatch.setattr(sys, "executable", executable)
        await wait_until_async(lambda: made.pid is not None)
        await made.farewell()
        assert made.pid is None
    finally:
        reaper.close()
