"""``python -m benchmarks``: measure, print the tables, keep the figures."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import uvloop

from benchmarks import machine, report, rounds, singles
from benchmarks.client import WrongAnswer, environment
from benchmarks.routes import all_up, directory

QUICK_SCALE = 0.3
IDLE_S = 60.0


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    ap = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = ap.add_argument
    add("--rounds", type=int, help="how many (default: 9; 3 with --quick)")
    add("--quick", action="store_true", help="two minutes: short rounds, no idle minute")
    add("--only", metavar="A,B", help=f"metrics: {','.join(rounds.MEASURES)} or singles")
    add("--patience", type=float, metavar="S", help="seconds to wait for a quiet machine, in all")
    add("--json", metavar="FILE", help="keep the figures here")
    add("--compare", metavar="FILE", help="figures of an older run to set beside")
    options = ap.parse_args(argv)
    options.rounds = options.rounds or (3 if options.quick else 9)
    if options.patience is None:
        options.patience = 10.0 if options.quick else 120.0
    known = (*rounds.MEASURES, "singles")
    options.only = tuple(options.only.split(",")) if options.only else known
    if unknown := set(options.only) - set(known):
        ap.error(f"no such metric: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return options


async def measure(options: argparse.Namespace) -> tuple[list[report.Json], report.Json]:
    """Return the figures of all rounds, and those that are taken once."""
    patience = machine.Patience(options.patience)
    once: dict[str, float] = {}
    if "singles" in options.only:
        once = await singles.measure(
            tries=5 if options.quick else 15,
            idle_s=0.0 if options.quick else IDLE_S,
            patience=patience,
            say=say,
        )
    metrics = tuple(name for name in options.only if name != "singles")
    if not metrics:
        return [], once
    with directory() as place:
        async with all_up(place) as routes:
            found = await rounds.run(
                routes,
                environment(place),
                rounds=options.rounds,
                scale=QUICK_SCALE if options.quick else 1.0,
                only=metrics,
                patience=patience,
                say=say,
            )
    return found, once


def say(line: str) -> None:
    """Show progress, away from the tables."""
    print(line, file=sys.stderr, flush=True)


def commit() -> str:
    """Return what is measured, as git names it."""
    argv = ("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty")
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def main() -> int:
    """Run it; the exit status is 1 when an answer was wrong."""
    options = parse(sys.argv[1:])
    try:
        found, once = uvloop.run(measure(options))
    except WrongAnswer as error:
        say(f"benchmarks: {error}")
        return 1
    figures = report.summarise(found, once)
    about: dict[str, Any] = {
        "commit": commit(),
        "python": platform.python_version(),
        **machine.describe(),
        "rounds": len(found),
        "quick": options.quick,
    }
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    if shares := report.noise(found):
        print(
            f"others used {statistics.median(shares):.0%} of a core in the median measurement, "
            f"{max(shares):.0%} at most"
        )
    print(f"\n{report.against_targets(figures)}\n\n{report.by_route(figures)}")
    if options.compare:
        old = json.loads(Path(options.compare).read_text())
        print(f"\nThen: {old['about']}\n\n{report.against(old['figures'], figures)}")
    if options.json:
        kept = {"about": about, "figures": figures, "rounds": found}
        Path(options.json).write_text(json.dumps(kept, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
