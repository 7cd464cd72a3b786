"""``mcpctl connect``: what it loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_bridge_loads_the_standard_library_and_the_base_alone():
    """
    One runs per session: Python's own start-up is all that it may cost, in time and in memory.
    """
    script = "import sys; sys.path.insert(0, sys.argv[1]); import mcpd.bridge; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(ROOT)],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert {name.partition(".")[0] for name in loaded} <= {
        *sys.stdlib_module_names,
        "mcpd",
        "__main__",
    }
    ours = {
        name for name in loaded if name.startswith("mcpd") and not name.startswith("mcpd.bridge")
    }
    assert ours == {
        "mcpd",
        "mcpd.api",
        "mcpd.api.version",
        "mcpd.daemon_process",
        "mcpd.daemon_start",
        "mcpd.daemon_start.connection",
        "mcpd.daemon_start.deadline",
        "mcpd.errors",
        "mcpd.exits",
        "mcpd.paths",
    }
    heavy = {
        "asyncio",
        "logging",
        "argparse",
        "subprocess",
        "threading",
        "random",
        "pathlib",
        "tempfile",
    }
    assert loaded.isdisjoint(heavy)
