"""``make soak``: eight servers and thirty sessions for as long as is wanted, then what is left.

The servers crash, hang, flood, die and change their lists; sessions come, go, stall and vanish;
people restart servers and edit the configuration. A warm-up of the same kind comes first: what the
daemon holds when all have left then is what it may hold at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from tests.soak import probe
from tests.soak.population import CALM, HANGS, Population
from tests.support.daemon import Box, Peer
from tests.support.waiting import wait_until

Json = dict[str, Any]

DELAY_P99_S: Final = 0.05
GROWTH: Final = 1.10
"""Of the memory from the warm-up to the end, at most."""
SPARE_KIB: Final = 2048
"""What it may grow by besides, however little it is."""

MOST_THREADS: Final = 1 + min(32, (os.cpu_count() or 1) + 4)
"""The loop's and those of its pool, which has one more whenever all are busy, up to this."""

SERVERS: Final[dict[str, tuple[tuple[object, ...], Json]]] = {
    CALM: ((), {}),
    "crashes": (("--die-after-calls", 40), {"restart": {"backoff": 0.1, "backoff_max": 1}}),
    "floods": (("--stderr", 2_000_000, "--noise"), {}),
    "deaf": (("--ignore-eof", "--ignore-term"), {"stop_grace": 0.3}),
    "forks": (("--group-child", "--setsid-child"), {"stop_grace": 0.5}),
    "late": (("--start-delay", 1.0), {}),
    HANGS: ((), {"call_timeout": 2, "max_concurrency": 4, "queue_timeout": 20}),
    "pages": (("--tools", 30, "--page-size", 7), {}),
}
ALWAYS: Final[Json] = {"idle_timeout": 5, "sharing": "shared"}


class Held:
    """What the daemon holds."""

    def __init__(self, pid: int) -> None:
        status = Path(f"/proc/{pid}/status").read_text()
        self.memory_kib = int(status.split("VmRSS:")[1].split()[0])
        self.threads = int(status.split("Threads:")[1].split()[0])
        self.open: collections.Counter[str] = collections.Counter()
        """How many descriptors are open of each thing: a path, or a kind such as `socket`."""
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # it was open for this very question
                self.open[os.readlink(f"/proc/{pid}/fd/{name}").split(":[")[0]] += 1
        self.descriptors = sum(self.open.values())

    def __str__(self) -> str:
        return f"{self.memory_kib:,} KiB, {self.descriptors} descriptors, {self.threads} threads"


class Soak:
    """One run in one box."""

    def __init__(self, box: Box, seed: int, sessions: int) -> None:
        self._box, self._seed, self._sessions = box, seed, sessions
        self._dice = random.Random(seed)
        self._generation = 0
        self.population = Population(box.env, list(SERVERS), size=sessions, seed=str(seed))

    async def run(self, seconds: float) -> None:
        """Let everybody do what they do for so long."""
        self._generation += 1
        seed = f"{self._seed}/{self._generation}"
        tally = self.population.tally
        self.population = Population(self._box.env, list(SERVERS), size=self._sessions, seed=seed)
        self.population.tally = tally
        others = [asyncio.create_task(self._meddle()), asyncio.create_task(self._tell(seconds))]
        await self.population.live(seconds)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        configure(self._box)

    def rest(self) -> Held:
        """Wait until every server has been idle for long enough to be gone; return what is held.

        Each has run before that: the log of one that was removed, and has come back, is open then.
        """
        box = self._box
        assert box.daemon
        with Peer.dial(box.socket) as peer:
            peer.request("mcpd/reload")  # the file was written a moment ago
            peer.request("mcpd/start", {"servers": list(SERVERS)}, 30.0)

            def left() -> Json:
                told = peer.request("mcpd/status")
                states = {s["name"]: s["state"] for s in told["servers"] if s["pids"]}
                tables = told["daemon"]["tables"]
                return states | {k: v for k, v in tables.items() if v and k not in MINE}

            wait_until(lambda: not left(), 60, what=lambda: f"nothing under way: {left()}")
        time.sleep(1.0)  # for what is freed a moment later
        return Held(box.daemon.pid)

    async def _meddle(self) -> None:
        """Restart servers and edit the configuration, as people do."""
        while True:
            await asyncio.sleep(self._dice.uniform(3.0, 15.0))
            what = self._dice.choice(("restart", "filter", "entry", "remove", "spaces"))
            match what:
                case "restart":
                    await asyncio.to_thread(self._restart, self._dice.choice(list(SERVERS)))
                case "filter":
                    deny = [f"dummy_{self._dice.randrange(30)}"]
                    configure(self._box, pages={"tools": {"deny": deny}})
                case "entry":
                    configure(self._box, crashes={"env": {"N": str(self._dice.random())}})
                case "remove":
                    configure(self._box, without="late")
                case "spaces":
                    configure(self._box)
            self.population.tally.outcomes[f"meddled: {what}"] += 1

    def _restart(self, name: str) -> None:
        with contextlib.suppress(Exception), Peer.dial(self._box.socket) as peer:
            peer.request("mcpd/restart", {"servers": [name]}, 30.0)

    async def _tell(self, seconds: float) -> None:
        began = time.monotonic()
        assert self._box.daemon
        while True:
            await asyncio.sleep(max(5.0, seconds / 30))
            tally = self.population.tally
            print(
                f"  {time.monotonic() - began:6.0f} s  {sum(tally.outcomes.values()):,} acts, "
                f"{len(tally.wrong)} wrong; {Held(self._box.daemon.pid)}",
                flush=True,
            )


MINE: Final = ("sessions", "owed")
"""Tables that hold the very connection on which they are asked for."""


def configure(box: Box, *, without: str | None = None, **more: Json) -> None:
    """Write the configuration, with a server left out, or with something more in an entry."""
    box.servers.clear()
    for name, (flags, entry) in SERVERS.items():
        if name != without:
            box.fake(name, *flags, **{**ALWAYS, **entry, **more.get(name, {})})
            args = box.servers[name]["args"]
            at = args.index("--journal")
            del args[at : at + 4]  # a journal and a pid file would fill the disk
    box.write()


def percentile(values: list[float], share: float) -> float:
    """Return the value that so large a share of them does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def main() -> int:
    """Run, print the figures, and return 1 if one is not what it must be."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--sessions", type=int, default=30)
    parser.add_argument("--seed", type=int, default=None)
    asked = parser.parse_args()
    seed = int.from_bytes(os.urandom(4), "big") if asked.seed is None else asked.seed
    seconds = asked.minutes * 60
    warm_up = max(10.0, min(180.0, seconds / 6))
    print(f"soak: seed {seed}, {seconds:.0f} s after {warm_up:.0f} s of warm-up", flush=True)
    box = Box()
    box.settings = {"drain_timeout": 2}
    try:
        configure(box)
        box.up()
        return judge(*soak(box, seed, asked.sessions, warm_up, seconds), seed)
    finally:
        box.close()


def soak(
    box: Box, seed: int, sessions: int, warm_up: float, seconds: float
) -> tuple[Soak, Held, Held, list[float], int]:
    """Do it all; return what was held after the warm-up and at the end, and the delays."""
    assert box.daemon
    pid = box.daemon.pid
    run = Soak(box, seed, sessions)
    asyncio.run(run.run(warm_up))
    warm = run.rest()
    print(f"  warm: {warm}", flush=True)
    with (box.root / "delays").open("wb") as out:
        argv = [sys.executable, "-I", "-S", probe.__file__, str(box.socket)]
        probing = subprocess.Popen(argv, stdout=out)
        try:
            asyncio.run(run.run(seconds))
        finally:
            probing.terminate()
            probing.wait()
    end = run.rest()
    delays = [float(line) for line in (box.root / "delays").read_text().split()]
    zombies = sum(is_zombie_of(int(entry), pid) for entry in os.listdir("/proc") if entry.isdigit())
    box.down()
    left = len(box.survivors())
    return run, warm, end, delays, zombies + left


def is_zombie_of(pid: int, parent: int) -> bool:
    """Tell whether a process has ended, and its parent has not been told."""
    try:
        state, ppid = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:2]
    except OSError:
        return False
    return state == "Z" and int(ppid) == parent


def judge(run: Soak, warm: Held, end: Held, delays: list[float], left: int, seed: int) -> int:
    """Print what was found, and return the exit status."""
    tally = run.population.tally
    for what, count in sorted(tally.outcomes.items()):
        print(f"  {count:>10,}  {what}")
    for what in tally.wrong[:20]:
        print(f"  WRONG: {what}")
    p50, p99, most = (percentile(delays, share) for share in (0.5, 0.99, 1.0))
    faults = {
        f"{len(tally.wrong)} wrong answers": bool(tally.wrong),
        f"memory grew: {warm} to {end}": end.memory_kib > warm.memory_kib * GROWTH + SPARE_KIB,
        f"descriptors grew: by {dict(end.open - warm.open)}": end.descriptors > warm.descriptors,
        f"threads grew: {warm} to {end}": end.threads > max(warm.threads, MOST_THREADS),
        f"{left} processes left": left > 0,
        f"the loop's delay, p99: {p99 * 1000:.1f} ms": p99 > DELAY_P99_S,
    }
    print(f"  warm: {warm}\n  end:  {end}")
    print(
        f"  answers to hello, {len(delays):,}: p50 {p50 * 1000:.2f} ms, p99 {p99 * 1000:.1f} ms, "
        f"at most {most * 1000:.0f} ms"
    )
    found = [what for what, is_so in faults.items() if is_so]
    acts = sum(tally.outcomes.values())
    print(f"soak: seed {seed}, {acts:,} acts: " + ("; ".join(found) or "nothing wrong"))
    print(json.dumps({"seed": seed, "acts": acts, "p99_s": p99, "faults": found}))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
