"""What a script named by its path finds beside it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mcpd.supervise import spawn


def prepared(command: str, path: str) -> str:
    launch = spawn.prepare(
        command, (), env={}, cwd="/", tag="t", base_env={"PATH": path, "HOME": "/"}
    )
    return launch.env["PATH"]


def test_a_script_finds_the_interpreter_beside_it(tmp_path: Path) -> None:
    """``#!/usr/bin/env node`` of a version manager's npx (B029)."""
    script = tmp_path / "npx"
    script.write_text("#!/usr/bin/env node\n")
    script.chmod(0o755)
    assert prepared(str(script), "/usr/bin:/bin") == f"/usr/bin:/bin:{tmp_path}"


def test_a_program_has_the_path_it_inherits() -> None:
    """A binary needs no interpreter, and a server has the daemon's environment as it is."""
    assert prepared(os.path.realpath(sys.executable), "/usr/bin:/bin") == "/usr/bin:/bin"
