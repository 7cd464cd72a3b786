"""A validator with real workers, started as the daemon would start them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from mcpd.schemas.channel import Process
from mcpd.schemas.validator import Validator


class Workers:
    """Starts workers, and remembers them."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []
        self.argv: list[str] | None = None  # what to run instead

    def spawn(self, argv: list[str]) -> Process:
        child = subprocess.Popen(
            self.argv or argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        self.started.append(child)
        ends = os.dup(child.stdin.fileno()), os.dup(child.stdout.fileno())
        child.stdin.close()
        child.stdout.close()
        return Process(child.pid, *ends, child.kill)


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers()
    yield workers
    for child in workers.started:
        child.kill()
        child.wait()


@pytest.fixture
async def validator(workers: Workers):
    validator = Validator(workers.spawn)
    yield validator
    validator.close()
