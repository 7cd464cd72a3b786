"""``make model``: both models and that of the gate, for as many steps as are wanted, on several processes.

A run is told by its seed: the same seed, steps and jobs try the same. Each job works in chunks
with seeds of their own, so that what one found is shown again by ``--only JOB/CHUNK`` alone.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import selectors
import subprocess
import sys
import time
import traceback
from typing import Any, Final

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

from tests.property import test_mux_model
from tests.property.gate import machine as gate
from tests.property.model.ground import TALLY
from tests.property.model.machine import Machine

EXAMPLES: Final = 200
"""In a chunk."""
LENGTH: Final = 50
"""Steps of an example, at most."""
SAYS_EVERY: Final = 10.0
"""Seconds between two lines of progress."""


class Counted:
    """What is counted: each rule that was followed, and each world that it was followed in."""

    steps = 0
    examples = 0


class Both(Machine):
    """Both eras."""

    @invariant()
    def count(self) -> None:
        Counted.steps += 1

    def teardown(self) -> None:
        Counted.examples += 1
        super().teardown()


class Legacy(test_mux_model.World):
    """The older model, of one era alone, whose servers take no turns."""

    @invariant()
    def count(self) -> None:
        Counted.steps += 1

    def teardown(self) -> None:
        Counted.examples += 1
        super().teardown()


def try_chunk(seed: int, job: int, chunk: int, *, is_quick: bool = False) -> None:
    """Try one chunk of examples; raise what is found, as it was found or made smaller."""
    if chunk % 5 == 2:
        try_gate(f"{seed}/{job}/{chunk}", is_quick=is_quick)
        return
    machine: type[RuleBasedStateMachine] = Legacy if chunk % 5 == 4 else Both
    own = random.Random(f"{seed}/{job}/{chunk}").getrandbits(64)
    settings = hypothesis.settings(
        max_examples=EXAMPLES,
        stateful_step_count=LENGTH,
        deadline=None,
        database=None,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if is_quick else [Phase.generate, Phase.shrink],
    )
    run_state_machine_as_test(hypothesis.seed(own)(machine), settings=settings)


def try_gate(seed: str, *, is_quick: bool) -> None:
    """Try one chunk of stories of the gate."""
    said = gate.found(seed, EXAMPLES, LENGTH)
    Counted.steps += EXAMPLES * LENGTH
    Counted.examples += EXAMPLES
    if said is not None:
        story = said[0] if is_quick else gate.shortened(said[0])
        print(story, file=sys.stderr)
        gate.play(story)


def work(seed: int, job: int, steps: int) -> None:
    """Be one of the jobs: say on stdout how far it is, a line each time."""
    chunk = 0
    while Counted.steps < steps:
        try:
            try_chunk(seed, job, chunk, is_quick=True)
        except BaseException:  # noqa: BLE001 - whatever it is, whoever started us is to be told
            text = traceback.format_exc()
            say({"steps": Counted.steps, "found": text, "chunk": chunk})
            raise SystemExit(1) from None
        chunk += 1
        say({"steps": Counted.steps, "examples": Counted.examples, "tally": TALLY})


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def run(seed: int, steps: int, jobs: int) -> int:
    """Start the jobs, and tell of them; return the exit status."""
    print(f"model: seed {seed}, {steps:,} steps wanted, {jobs} jobs", flush=True)
    began = told = time.monotonic()
    command = [sys.executable, "-m", "tests.property.model", "--seed", str(seed)]
    share = ["--steps", str(-(-steps // jobs))]
    processes = [
        subprocess.Popen(
            [*command, *share, "--job", str(job)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for job in range(jobs)
    ]
    heard: list[dict[str, Any]] = [{"steps": 0, "examples": 0, "tally": {}} for _ in processes]
    try:
        for job, line in lines_of(processes):
            if not line.startswith("{"):  # hypothesis, which takes its time with something
                print(line, end="", file=sys.stderr)
                continue
            said = json.loads(line)
            if "found" in said:
                print(said["found"], file=sys.stderr)
                where = f"{job}/{said.get('chunk', '?')}"
                again = f"python -m tests.property.model --seed {seed} --only {where}"
                print(f"model: seed {seed}, a counterexample: `{again}` makes it smaller")
                return 1
            heard[job] = said
            if time.monotonic() - told > SAYS_EVERY:
                told = time.monotonic()
                done = sum(each["steps"] for each in heard)
                print(f"model: {done:,} steps, {told - began:.0f} s", flush=True)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    tally: collections.Counter[str] = collections.Counter()
    for each in heard:
        tally.update(each["tally"])
    for what, count in sorted(tally.items()):
        print(f"  {count:>10,}  {what}")
    done, examples = (sum(each[name] for each in heard) for name in ("steps", "examples"))
    if done < steps:
        print(f"model: seed {seed}, a job ended early, after {done:,} steps in all")
        return 1
    seconds = time.monotonic() - began
    print(
        f"model: seed {seed}, {done:,} steps in {examples:,} examples, {seconds:.0f} s: "
        "no counterexample"
    )
    return 0


def lines_of(processes: list[subprocess.Popen[str]]) -> Any:
    """Yield each line of each process, as it comes."""
    with selectors.DefaultSelector() as selector:
        for job, process in enumerate(processes):
            selector.register(process.stdout, selectors.EVENT_READ, job)  # type: ignore[arg-type]
        while selector.get_map():
            for key, _ in selector.select():
                line = key.fileobj.readline()  # type: ignore[union-attr]
                if line:
                    yield key.data, line
                else:
                    selector.unregister(key.fileobj)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.property.model", description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--job", type=int, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--only", metavar="JOB/CHUNK", help="one chunk of a run")
    asked = parser.parse_args()
    seed = int.from_bytes(os.urandom(4), "big") if asked.seed is None else asked.seed
    if asked.only is not None:
        job, _, chunk = asked.only.partition("/")
        try_chunk(seed, int(job), int(chunk))
        print(f"model: seed {seed}, {asked.only}: no counterexample")
        return 0
    if asked.job is not None:
        work(seed, asked.job, asked.steps)
        return 0
    return run(seed, asked.steps, asked.jobs)


if __name__ == "__main__":
    sys.exit(main())
