"""Run the acceptance tests that tests/acceptance.txt lists, with the installed mcpd and mcpctl.

They live beside the repository, in ../shared/acceptance or where MCPD_ACCEPTANCE_DIR says. Arguments
are passed on to pytest. It cannot import two files of one name, so folders that have such files are
run one after the other. The exit status is that of the last run that failed; 0 if none did, 2 if the
tests are not there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "acceptance.txt"


def read_list(text: str) -> tuple[list[str], list[str]]:
    """Return the entries to run and those to leave out."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    run = [line for line in lines if line and not line.startswith("-")]
    left_out = [line[1:].strip() for line in lines if line.startswith("-")]
    return run, left_out


def group(folder: Path, run: list[str]) -> list[list[str]]:
    """Return the entries in groups, none of which has two files of one name."""
    groups: list[tuple[list[str], set[str]]] = []
    for entry in run:
        path = folder / entry.partition("::")[0]
        names = {file.name for file in path.rglob("test_*.py")} if path.is_dir() else {path.name}
        for entries, taken in groups:
            if not names & taken:
                entries.append(entry)
                taken.update(names)
                break
        else:
            groups.append(([entry], names))
    return [entries for entries, _ in groups]


def pytest_command(folder: Path, run: list[str], left_out: list[str], more: list[str]) -> list[str]:
    """Return what to type; the folder is read-only and has settings of its own."""
    return [
        *(sys.executable, "-m", "pytest", "-c", str(folder / "pytest.ini")),
        *("--rootdir", str(folder), "-p", "no:cacheprovider", "-p", "no:randomly"),
        *(
            "-p",
            "no:asyncio",
            "-p",
            "no:hypothesispytest",
            "--timeout",
            "300",
            "-n",
            os.environ.get("JOBS", "2"),
        ),
        *("--dist", "worksteal"),
        *(f"--deselect={entry}" for entry in left_out),
        *(str(folder / entry) for entry in run),
        *more,
    ]


def main(arguments: list[str], env: Mapping[str, str]) -> int:
    """Run them; say so if there is nothing to run."""
    folder = Path(env.get("MCPD_ACCEPTANCE_DIR") or ROOT.parent / "shared" / "acceptance").resolve()
    run, left_out = read_list(LIST.read_text())
    if not run:
        print(f"{LIST.relative_to(ROOT)} lists no acceptance test: none was run.")
        return 0
    if not folder.is_dir():
        print(f"no acceptance tests in {folder}: set MCPD_ACCEPTANCE_DIR", file=sys.stderr)
        return 2
    for entry in left_out:
        print(f"left out by tests/acceptance.txt: {entry}")
    # Not sys.executable's real path: the scripts stand beside the virtual environment's python.
    bin_folder = env.get("MCPD_BIN") or str(Path(sys.executable).absolute().parent)
    settings = {**env, "MCPD_BIN": bin_folder, "PYTHONDONTWRITEBYTECODE": "1"}
    status = 0
    for entries in group(folder, run):
        command = pytest_command(folder, entries, left_out, arguments)
        print("+", *command, flush=True)
        status = subprocess.run(command, env=settings, cwd=ROOT, check=False).returncode or status
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
