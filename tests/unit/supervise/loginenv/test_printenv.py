"""What a login shell runs to say what its environment is."""

from __future__ import annotations

import os
import subprocess
import sys

from mcpd.supervise.loginenv import printenv

ARGV = [sys.executable, "-I", "-S", os.path.abspath(printenv.__file__)]
ENV = {"PATH": "/a b:/c", "X": "1\n2", "LC_ALL": "C.UTF-8"}
SAID = b"fedPATH=/a b:/c\0X=1\n2\0LC_ALL=C.UTF-8\0fed"


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
