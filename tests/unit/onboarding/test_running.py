"""Whether a client runs that writes its file from memory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from mcpd.onboarding.clients.table import BY_ID
from mcpd.onboarding.running import process_of
from tests.support.clients import Home
from tests.support.waiting import wait_until


@pytest.fixture
def claude(home: Home) -> Iterator[subprocess.Popen[bytes]]:
    """A process of this name, for the home directory of the test."""
    sleep = shutil.which("sleep")
    assert sleep is not None
    program = home.path / "claude"
    program.symlink_to(Path(sleep).resolve())
    process = subprocess.Popen([program, "60"], env=home.env)
    yield process
    process.kill()
    process.wait()


def test_a_client_that_runs_is_found(home: Home, claude: subprocess.Popen[bytes]) -> None:
    wait_until(lambda: process_of(BY_ID["claude-code"], home.env) == claude.pid)


def test_that_of_another_home_directory_is_none_of_ours(
    home: Home, claude: subprocess.Popen[bytes]
) -> None:
    assert process_of(BY_ID["claude-code"], {"HOME": "/elsewhere"}) is None


def test_a_client_that_leaves_its_file_alone_is_not_looked_for(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "process_iter", None)
    assert process_of(BY_ID["cursor"], home.env) is None


class Process:
    """A process as ``psutil`` shows it."""

    pid = 7

    def __init__(self, name: str, *words: str, uid: int | None = None, home: str = "/h") -> None:
        self.name = lambda: name
        self.cmdline = lambda: [*words]
        self.environ = lambda: {"HOME": home}
        self.uids = lambda: SimpleNamespace(real=os.geteuid() if uid is None else uid)


def ended() -> Any:
    raise psutil.NoSuchProcess(7)


@pytest.mark.parametrize(
    ("process", "is_found"),
    [
        (Process("claude"), True),
        (Process("x", "/usr/bin/claude", "--resume"), True),
        (Process("node", "node", "/opt/bin/claude"), True),
        (Process("grep", "grep", "-r", "claude"), False),
        (Process("claude", uid=os.geteuid() + 1), False),
        (Process("claude", home="/other"), False),
    ],
)
def test_it_is_told_by_its_name_its_program_and_its_user(
    monkeypatch: pytest.MonkeyPatch, process: Process, is_found: bool
) -> None:
    gone = Process("claude")
    gone.cmdline = ended
    monkeypatch.setattr(psutil, "process_iter", lambda: iter([gone, process]))
    assert process_of(BY_ID["claude-code"], {"HOME": "/h"}) == (7 if is_found else None)
