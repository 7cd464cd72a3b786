"""``python -m benchmarks.versions OLD_BIN``: an older installation and this one, round by round."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
from collections.abc import AsyncIterator

import uvloop

from benchmarks import machine, report, rounds
from benchmarks.client import Address, WrongAnswer, environment
from benchmarks.routes import Route, binary, configure, directory, open_when_up, running

COSTS = (
    ("echo", "p50_us", False),
    ("calls_1", "calls_s", True),
    ("calls_10", "calls_s", True),
    ("calls_10", "middle_cpu_us", False),
    ("calls_100", "calls_s", True),
    ("calls_100", "middle_cpu_us", False),
    ("blob_1", "mb_s", True),
    ("blob_16", "mb_s", True),
)
"""Metric, which figure of it, and whether more of it is better."""

KINDS = ("socket", "bridge")


@contextlib.asynccontextmanager
async def both_up(places: dict[str, tuple[str, str]]) -> AsyncIterator[dict[str, Route]]:
    """Start a daemon of each version; ``places`` has its directory and where its programs are."""
    async with contextlib.AsyncExitStack() as stack:
        routes: dict[str, Route] = {}
        for version, (place, programs) in places.items():
            env = environment(place)
            configure(place, 2)
            log = f"{place}/mcpd.log"
            daemon = stack.enter_context(running((f"{programs}/mcpd",), env, log))
            socket = env["MCPD_SOCKET"]
            await (await open_when_up(Address(socket, "echo0"), daemon, log)).close()
            connect = ("/usr/bin/env", f"MCPD_SOCKET={socket}", f"{programs}/mcpctl", "connect")
            ways = {
                "socket": (Address(socket, "echo0"), Address(socket, "echo1")),
                "bridge": (
                    Address(command=(*connect, "echo0")),
                    Address(command=(*connect, "echo1")),
                ),
            }
            for kind, addresses in ways.items():
                routes[f"{version} {kind}"] = Route(kind, addresses, [daemon.pid])
        try:
            yield routes
        finally:
            for route in routes.values():
                await asyncio.gather(*(client.close() for client in route.clients))


async def measure(old: str, count: int) -> list[report.Json]:
    """Return the figures of so many rounds."""
    with directory() as place, directory() as other:
        new = binary("mcpd").rpartition("/")[0]
        async with both_up({"old": (other, old), "new": (place, new)}) as routes:
            found = await rounds.run(
                routes,
                environment(place),
                rounds=count,
                scale=1.0,
                only=tuple(dict.fromkeys(metric for metric, *_ in COSTS)),
                patience=machine.Patience(120.0),
                say=lambda line: print(line, file=sys.stderr, flush=True),
            )
    return list(found)


def main() -> int:
    """Print what the new version costs for each unit of the old one: above 1 it is slower."""
    ap = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=__doc__)
    ap.add_argument("old", help="the directory of the other installation's mcpd and mcpctl")
    ap.add_argument("--rounds", type=int, default=10)
    options = ap.parse_args()
    try:
        found = uvloop.run(measure(options.old, options.rounds))
    except WrongAnswer as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    rows, every = [], []
    for metric, figure, is_gain in COSTS:
        for kind in KINDS:
            pairs = [
                (r[metric][f"old {kind}"][figure], r[metric][f"new {kind}"][figure]) for r in found
            ]
            ratios = [old / new if is_gain else new / old for old, new in pairs]
            low, middle, high = statistics.quantiles(ratios * (2 if len(ratios) < 2 else 1), n=4)
            every.append(middle)
            old, new = (statistics.median(side) for side in zip(*pairs, strict=True))
            name = f"{metric} {figure}, {kind}"
            rows.append(
                (name, f"{old:,.4g}", f"{new:,.4g}", f"{middle:.2f} ({low:.2f} to {high:.2f})")
            )
    print(report.table(("figure", "old", "new", "cost, new / old"), iter(rows)))
    busy = statistics.median(report.noise(found))
    print(
        f"\nmedian of all ratios: {statistics.median(every):.3f}; others used {busy:.0%} of a core"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
