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


def imported(path: Path) -> set[str]:
    """Return the modules that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def names(path: Path) -> set[str]:
    """Return the names and attributes that occur in a module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                found.add(name)
            case ast.keyword(arg=str(name)):
                found.add(name)
    return found


@pytest.mark.parametrize("package", ["core", "listeners"])
def test_what_decides_and_what_accepts_knows_no_processes(package: str) -> None:
    """
    A server may be something else than a process of ours.
    """
    modules = (ROOT / "mcpd" / package).rglob("*.py")
    assert not [
        (path.name, name)
        for path in modules
        for name in imported(path)
        if name.startswith("mcpd.supervise")
    ]


def test_of_the_upstreams_stdio_alone_knows_processes() -> None:
    upstreams = ROOT / "mcpd" / "upstreams"
    processes = ("mcpd.supervise", "mcpd.upstreams.stdio")
    for path in upstreams.glob("*.py"):
        assert not [name for name in imported(path) if name.startswith(processes)], path.name
        assert not names(path) & {"child", "stderr", "stdin", "stdout", "ledger"}, path.name


def test_the_core_knows_pids_only_in_facts() -> None:
    """
    They are those of servers that are processes. The one that a client says is its own is a
    ``client_pid``.
    """
    core = ROOT / "mcpd" / "core"
    found = {
        str(path.relative_to(core))
        for path in core.rglob("*.py")
        if names(path) & {"pid", "pids", "pgid"}
    }
    assert found == {"facts/approvals.py", "facts/servers.py"}
