"""Cases from the field: pids that are somebody else's by now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import scaled

RECYCLE = Path(__file__).with_name("recycle.py")
NAMESPACE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
ROUNDS = 25


def test_a_pid_that_was_given_to_somebody_else_is_never_signalled():
    """
    B014: a child was reaped, its number given away, and the stop that came then hit a stranger.

    In a pid namespace of its own, where the next pid can be chosen.
    """
    try:
        subprocess.run([*NAMESPACE, "test", "-w", "/proc/sys/kernel/ns_last_pid"], check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no pid namespace is to be had here; tried {' '.join(NAMESPACE)}: {error}")
    argv = [*NAMESPACE, sys.executable, str(RECYCLE), str(ROUNDS)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=scaled(50), check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{ROUNDS}\n"
