"""``make faults-prove``: the tests of field cases fail when the lines they protect are gone.

Each proof of ``proofs.toml`` is applied, alone, to a copy of the project in which Python, ``mcpd``
and ``mcpctl`` are the copy's own. Its test must pass there before and fail then: by what it
asserts, not because a module cannot be imported or no daemon comes up.
"""

from __future__ import annotations

import argparse
import itertools
import os
import queue
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults.table import ROOT, Proof, proofs

LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".*_cache", ".hypothesis", "build", "dist", "__pycache__"
)
PROGRAMS = {"mcpd": "mcpd.cli", "mcpctl": "mcpctl.__main__"}
LONGEST_S = 240.0


class Copy:
    """A copy of the project that runs by itself, whatever is installed."""

    def __init__(self, parent: Path, number: int) -> None:
        self.root = parent / str(number)
        shutil.copytree(ROOT, self.root, ignore=LEFT_OUT, symlinks=True)
        self.python = self.root / ".venv" / "bin" / "python"
        self._make_environment()
        self._changes = itertools.count(1)

    def _make_environment(self) -> None:
        """Make a virtual environment: the copy first, then everything that ours has.

        A directory named in a ``.pth`` file has its own such files ignored, and so the one by
        which the project itself is installed.
        """
        bin_dir = self.python.parent
        site = self.root / ".venv" / "lib" / f"python{sysconfig.get_python_version()}"
        site /= "site-packages"
        bin_dir.mkdir(parents=True)
        site.mkdir(parents=True)
        base = Path(sys._base_executable)  # type: ignore[attr-defined]
        self.python.symlink_to(base)
        (self.root / ".venv" / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
        ours = sysconfig.get_path("purelib")
        (site / "copy.pth").write_text(f"{self.root}\n{ours}\n")
        for name, module in PROGRAMS.items():
            program = bin_dir / name
            program.write_text(
                f"#!{self.python}\nimport sys\nfrom {module} import main\nsys.exit(main())\n"
            )
            program.chmod(0o755)

    def put(self, file: str, text: str) -> None:
        """Write a file. Its time is unlike any before, or Python would take the old bytecode."""
        path = self.root / file
        path.write_text(text)
        at = time.time_ns() // 10**9 + 10 * next(self._changes)
        os.utime(path, (at, at))

    def run(self, test: str) -> tuple[str, str]:
        """Run a test and return what became of it, as ``judged``, and its output."""
        report = self.root / "report.xml"
        report.unlink(missing_ok=True)
        argv = [str(self.python), "-m", "pytest", test, "-x", "-q", "-n", "0", "--tb=short"]
        argv += ["-p", "no:cacheprovider", "-p", "no:randomly", f"--junitxml={report}"]
        env = {
            k: v for k, v in os.environ.items() if not k.startswith(("MCPD", "PYTEST", "PYTHON"))
        }
        env.pop("VIRTUAL_ENV", None)
        if slowness := os.environ.get("MCPD_TEST_SLOWNESS"):
            env["MCPD_TEST_SLOWNESS"] = slowness
        try:
            done = subprocess.run(
                argv,
                cwd=self.root,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "endless", f"no end within {LONGEST_S:g} s"
        text = report.read_text() if report.exists() else "<testsuites/>"
        return judged(text), done.stdout + done.stderr

    def imports(self, file: str) -> str:
        """Return why the module in ``file`` cannot be imported, ``""`` where it can."""
        if not file.endswith(".py"):
            return ""
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        done = subprocess.run(
            [str(self.python), "-c", f"import {module}"],
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stderr if done.returncode else ""


def judged(report: str) -> str:
    """Return ``passed``, ``failed``, ``skipped`` or, where no assertion was reached, ``broken``."""
    cases = list(ET.fromstring(report).iter("testcase"))
    if any(case.find("failure") is not None for case in cases):
        return "failed"
    if not cases or any(case.find("error") is not None for case in cases):
        return "broken"
    if all(case.find("skipped") is not None for case in cases):
        return "skipped"
    return "passed"


def attempt(copy: Copy, proof: Proof) -> tuple[str, str]:
    """Apply a proof, run its test, undo it. Return a verdict and what explains it."""
    whole = (copy.root / proof.file).read_text()
    if (times := whole.count(proof.remove)) != 1:
        return "STALE", f"{proof.file} has these lines {times} times:\n{proof.remove}"
    try:
        copy.put(proof.file, whole.replace(proof.remove, proof.put))
        if why := copy.imports(proof.file):
            return "BROKEN", why
        outcome, output = copy.run(proof.test)
    finally:
        copy.put(proof.file, whole)
    if outcome in ("failed", "endless"):
        return "proved", ""
    return {"passed": "STILL PASSES", "broken": "BROKEN"}.get(outcome, outcome.upper()), output


def main() -> int:
    """Try the proofs, print a line for each, and return 1 if any did not hold."""
    ap = argparse.ArgumentParser(prog="make faults-prove", description=__doc__)
    ap.add_argument("--case", action="append", help="only this case; may be repeated")
    ap.add_argument("--jobs", type=int, default=1, help="copies in use at a time")
    options = ap.parse_args()
    wanted = [p for p in proofs() if not options.case or p.case in options.case]
    if not wanted:
        ap.error(f"no proof for {options.case}")
    by_test: dict[str, list[Proof]] = {}
    for proof in wanted:
        by_test.setdefault(proof.test, []).append(proof)
    bad = 0
    with tempfile.TemporaryDirectory(prefix="mcpd-prove-", dir="/tmp") as parent:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(options.jobs):
            copies.put(Copy(Path(parent), number))

        def one_test(test: str) -> int:
            copy = copies.get()
            try:
                return prove(copy, test, by_test[test])
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(options.jobs) as pool:
            bad = sum(pool.map(one_test, by_test))
    print(f"{len(wanted) - bad} of {len(wanted)} proofs hold", flush=True)
    return 1 if bad else 0


def prove(copy: Copy, test: str, its_proofs: list[Proof]) -> int:
    """Try all proofs by one test and return how many do not hold."""
    outcome, output = copy.run(test)
    if outcome != "passed":
        cases = ", ".join(dict.fromkeys(proof.case for proof in its_proofs))
        print(f"{cases}: {test} {outcome} before anything was removed\n{output}", flush=True)
        return len(its_proofs)
    bad = 0
    for proof in its_proofs:
        began = time.monotonic()
        verdict, why = attempt(copy, proof)
        took = time.monotonic() - began
        print(f"{proof.case} {verdict:7} {took:5.1f} s  {proof.file}: {proof.line}", flush=True)
        if verdict != "proved":
            bad += 1
            print(f"    by {test}\n{why}", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
