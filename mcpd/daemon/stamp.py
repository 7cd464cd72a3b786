"""What tells a server's program from the one that will be in its place after an upgrade."""

from __future__ import annotations

import os

from mcpd.errors import SpawnFailed
from mcpd.supervise import spawn
from mcpd.supervise.slot import ProcessSpec


def stamp_of(spec: ProcessSpec) -> int | None:
    """Return when the file that is run was written, in nanoseconds; ``None`` where there is none.

    It says nothing of what an interpreter or a package runner will run.
    """
    try:
        launch = spawn.prepare(
            spec.command,
            spec.args,
            env=spec.env,
            cwd=spec.cwd,
            tag="",
            inherit=spec.inherit,
            base_env=spec.base_env,
        )
        return os.stat(launch.program).st_mtime_ns
    except (SpawnFailed, OSError):
        return None
