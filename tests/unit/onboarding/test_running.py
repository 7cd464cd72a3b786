"""Whether a client runs that writes its file from memory."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

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


def test_a_client_that_leaves_its_file_alone_is_not_looked_for(home: Home) -> None:
    assert process_of(BY_ID["cursor"], home.env) is None
