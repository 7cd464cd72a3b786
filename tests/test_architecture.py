"""What the import contracts cannot see."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted(p for top in ("mcpd", "mcpctl") for p in (ROOT / top).rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_opens_by_saying_what_lives_in_it(path: Path) -> None:
    source = path.read_text()
    assert ast.get_docstring(ast.parse(source)) or not source.strip()


def test_the_bridge_loads_the_standard_library_only() -> None:
    """
    It is started once per session, and Python's own start-up is all that it may cost. Importing
    ``mcpd.bridge`` runs ``mcpd/__init__.py`` too, which no import contract counts.
    """
    script = "import mcpd.bridge, sys; print(*sys.modules)"
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    # Editable installs and virtual environments leave modules of their own.
    strangers = {
        n for n in loaded - sys.stdlib_module_names if not n.startswith(("_", "sitecustom"))
    }
    assert strangers == {"mcpd"}
    assert loaded.isdisjoint({"asyncio", "logging", "argparse"})
