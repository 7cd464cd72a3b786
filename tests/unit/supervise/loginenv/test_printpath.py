"""What a login shell runs to say what its PATH is."""

from __future__ import annotations

import os
import subprocess
import sys

from mcpd.supervise.loginenv import printpath

ARGV = [sys.executable, "-I", "-S", os.path.abspath(printpath.__file__)]
ENV = {"PATH": "/a b:/c"}
SAID = b"fed/a b:/cfed"


def test_the_answer_goes_where_nothing_else_does() -> None:
    reading, writing = os.pipe()
    argv = [*ARGV, "def", str(writing)]
    done = subprocess.run(argv, env=ENV, pass_fds=(writing,), capture_output=True, check=True)
    os.close(writing)
    assert (os.read(reading, 100), done.stdout) == (SAID, b"")
    os.close(reading)


def test_a_shell_that_closes_descriptors_leaves_stdout() -> None:
    """
    csh and its like close whatever they were not told of.
    """
    argv = [*ARGV, "def", "47"]
    assert subprocess.run(argv, env=ENV, capture_output=True, check=True).stdout == SAID
