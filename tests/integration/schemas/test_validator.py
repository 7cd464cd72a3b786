"""Checks by a real worker, and what becomes of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

import pytest

from mcpd.errors import SpawnFailed
from mcpd.schemas.channel import Process
from mcpd.schemas.validator import (
    BUSY,
    CLOSED,
    NOT_STARTED,
    TOO_LONG,
    Unchecked,
    Validator,
    Violation,
)
from tests.integration.schemas.conftest import Workers
from tests.support.waiting import wait_until, wait_until_async

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "count": {"type": "number"},
            "items": {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
        },
        "required": ["text"],
    }
).encode()


def endless() -> bytes:
    """Return a schema that takes 2**40 steps."""
    defs: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)
    }
    return json.dumps({"$defs": {**defs, "d40": {"type": "object"}}, "$ref": "#/$defs/d0"}).encode()


async def test_arguments_that_fit_have_no_violations(validator: Validator):
    assert await validator.check(SCHEMA, b'{"text":"a","count":2.5,"items":[{"name":"x"}]}') == []


@pytest.mark.parametrize(
    ("arguments", "violations"),
    [
        (b"{}", [Violation("(root)", 'missing required property "text"')]),
        (b'{"text":5}', [Violation("text", "expected string, got integer")]),
        (
            b'{"text":"a","items":[{},{},{"name":null}]}',
            [Violation("items[2].name", "expected string, got null")],
        ),
        (b"[]", [Violation("(root)", "expected object, got array")]),
        (
            b'{"txt":"a"}',
            [
                Violation(
                    "(root)",
                    "unknown argument 'txt', did you mean 'text'? "
                    '(missing required property "text")',
                )
            ],
        ),
        (
            b'{"count":"1"}',
            [
                Violation("count", "expected number, got string"),
                Violation("(root)", 'missing required property "text"'),
            ],
        ),
    ],
)
async def test_a_violation_says_where_and_what(
    validator: Validator, arguments: bytes, violations: list[Violation]
):
    found = await validator.check(SCHEMA, arguments)
    assert isinstance(found, list)
    assert set(found) == set(violations)


async def test_at_most_five_violations_are_told(validator: Validator):
    found = await validator.check(
        b'{"items":{"type":"string"}}', json.dumps(list(range(20))).encode()
    )
    assert isinstance(found, list)
    assert [violation.path for violation in found] == ["[0]", "[1]", "[2]", "[3]", "[4]"]


@pytest.mark.parametrize(
    ("schema", "arguments", "reason"),
    [
        (b'{"x":"%b"}' % (b"x" * 256 * 1024), b"{}", "its schema is larger than 262144 bytes"),
        (b"null", b"{}", "its schema is neither an object nor"),
        (b"{}", b'{"a":"\\ud800"}', "the arguments cannot be read"),
        (b"{}", b'{"a":1e400}', "1e400 is too large"),
        (b"{}", b'{"a":NaN}', "NaN is not JSON"),
        (b"{}", b"\xff", "the arguments cannot be read"),
        (b"{}", b"[" * 100_000 + b"]" * 100_000, "recursion"),
        (b"{}", b"1" * 5_000, "the arguments cannot be read"),
    ],
    ids=range(8),
)
async def test_what_cannot_be_checked_says_why(
    validator: Validator, schema: bytes, arguments: bytes, reason: str
):
    outcome = await validator.check(schema, arguments)
    assert isinstance(outcome, Unchecked)
    assert reason in outcome.reason


async def test_large_arguments_pass_through_the_pipe(validator: Validator):
    """
    A pipe holds 64 KiB; the rest is written as the worker reads.
    """
    arguments = b'{"text":"%b"}' % (b"x" * 2_000_000)
    assert await validator.check(SCHEMA, arguments) == []


async def test_checks_at_the_same_time_get_their_own_answers(
    validator: Validator, workers: Workers
):
    wanted = [[Violation("(root)", f"expected {n}, got -1")] for n in range(50)]
    checks = (validator.check(b'{"const":%d}' % n, b"-1") for n in range(50))
    assert await asyncio.gather(*checks) == wanted
    assert len(workers.started) == 1


async def test_a_check_that_takes_too_long_costs_the_worker_and_nothing_else(
    validator: Validator, workers: Workers
):
    """
    The kernel ends it after 100 ms of processor time; the next check has a new one.
    """
    slow = asyncio.ensure_future(validator.check(endless(), b"{}"))
    others = [asyncio.ensure_future(validator.check(SCHEMA, b"{}")) for _ in range(3)]
    assert await slow == Unchecked(TOO_LONG)
    assert (
        await asyncio.gather(*others)
        == [[Violation("(root)", 'missing required property "text"')]] * 3
    )
    assert len(workers.started) == 2
    workers.started[0].wait(timeout=5)


async def test_when_all_violations_take_too_long_the_first_is_told(
    validator: Validator, workers: Workers
):
    arguments = json.dumps([1] * 100_000).encode()
    assert await validator.check(b'{"items":{"type":"string"}}', arguments) == [
        Violation("[0]", "expected string, got integer")
    ]


async def test_a_worker_that_someone_kills_is_replaced(validator: Validator, workers: Workers):
    assert await validator.check(b"{}", b"{}") == []
    workers.started[0].kill()
    await wait_until_async(lambda: validator._channel is None, what="the end to be noticed")
    assert await validator.check(b"{}", b"{}") == []
    assert len(workers.started) == 2


async def test_a_worker_that_does_not_move_is_ended(
    validator: Validator, workers: Workers, monkeypatch: pytest.MonkeyPatch
):
    """
    Stopped, swapped out, or waiting for something: it uses no processor time to be counted.
    """
    monkeypatch.setattr("mcpd.schemas.validator._WORK_S", 0.1)
    workers.argv = [
        sys.executable,
        "-c",
        "import os,time; os.write(1, b'R'+bytes(4)); time.sleep(60)",
    ]
    validator.prewarm()
    await wait_until_async(lambda: validator._is_ready, what="the worker's first word")
    assert await validator.check(b"{}", b"{}") == Unchecked(TOO_LONG)
    assert workers.started[0].wait(timeout=5) < 0


@pytest.mark.parametrize(
    "code",
    [
        "",
        "import time; time.sleep(60)",
        "import os,time; os.write(1, b'A'+b'\\xff'*4); time.sleep(60)",
    ],
)
async def test_a_worker_that_never_gets_ready_is_no_reason_to_wait(
    validator: Validator, workers: Workers, monkeypatch: pytest.MonkeyPatch, code: str
):
    monkeypatch.setattr("mcpd.schemas.validator._START_S", 0.3)
    workers.argv = [sys.executable, "-c", code]
    assert await validator.check(b"{}", b"x" * 200_000) == Unchecked(NOT_STARTED)
    workers.argv = None
    monkeypatch.undo()
    assert await validator.check(b"{}", b"{}") == []


@pytest.mark.parametrize("error", [OSError(11, "no more processes"), SpawnFailed("no such file")])
async def test_when_no_worker_can_be_started_nothing_is_checked(error: Exception):
    def spawn(argv: list[str]) -> Process:
        raise error

    validator = Validator(spawn)
    validator.prewarm()
    assert await validator.check(b"{}", b"{}") == Unchecked(NOT_STARTED)
    validator.close()


async def test_a_check_is_not_waited_for_when_others_take_too_long(
    validator: Validator, monkeypatch: pytest.MonkeyPatch
):
    slow = asyncio.ensure_future(validator.check(endless(), b"{}"))
    await asyncio.sleep(0)
    monkeypatch.setattr("mcpd.schemas.validator._WAIT_S", 0.0)
    assert await validator.check(b"{}", b"{}") == Unchecked(BUSY)
    assert await slow == Unchecked(TOO_LONG)


async def test_what_waits_is_bounded(validator: Validator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mcpd.schemas.validator._MAX_WAITING_BYTES", 100)
    checks = [asyncio.ensure_future(validator.check(b"{}", b"1" * 60)) for _ in range(3)]
    assert await asyncio.gather(*checks) == [[], [], Unchecked(BUSY)]


async def test_a_check_that_is_cancelled_leaves_the_others_alone(validator: Validator):
    validator.prewarm()
    checks = [asyncio.ensure_future(validator.check(b'{"const":%d}' % n, b"0")) for n in range(3)]
    await asyncio.sleep(0)
    checks[0].cancel()
    checks[1].cancel()
    assert await checks[2] == [Violation("(root)", "expected 2, got 0")]


async def test_prewarming_starts_one_worker(validator: Validator, workers: Workers):
    validator.prewarm()
    validator.prewarm()
    assert await validator.check(b"{}", b"{}") == []
    assert len(workers.started) == 1


async def test_an_idle_worker_is_ended_and_the_next_check_starts_another(workers: Workers):
    validator = Validator(workers.spawn, idle=0.05)
    assert await validator.check(b"{}", b"{}") == []
    await wait_until_async(
        lambda: workers.started[0].poll() is not None, what="the idle worker's end"
    )
    assert await validator.check(b"{}", b"{}") == []
    assert len(workers.started) == 2
    validator.close()


async def test_closing_ends_the_worker_and_what_waits(validator: Validator, workers: Workers):
    checks = [asyncio.ensure_future(validator.check(endless(), b"{}")) for _ in range(3)]
    await asyncio.sleep(0)
    validator.close()
    validator.close()
    assert await asyncio.gather(*checks) == [Unchecked(CLOSED)] * 3
    assert await validator.check(b"{}", b"{}") == Unchecked(CLOSED)
    validator.prewarm()
    assert len(workers.started) == 1
    assert workers.started[0].wait(timeout=5) < 0


async def test_descriptors_are_given_back(workers: Workers):
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        validator = Validator(workers.spawn)
        assert await validator.check(b"{}", b"{}") == []
        validator.close()
    assert len(os.listdir("/dev/fd")) == before


def test_a_worker_ends_with_the_daemon(workers: Workers):
    """
    The pipe closes, whatever the daemon died of.
    """
    from mcpd.schemas.validator import ARGV

    process = workers.spawn(ARGV)
    assert os.read(process.stdout, 5) == b"R" + bytes(4)
    os.close(process.stdin)
    assert workers.started[0].wait(timeout=5) == 0
    os.close(process.stdout)


def test_a_worker_whose_daemon_does_not_read_ends_with_it_too(workers: Workers):
    from mcpd.schemas.protocol import REQUEST
    from mcpd.schemas.validator import ARGV

    process = workers.spawn(ARGV)
    os.close(process.stdout)
    os.write(process.stdin, REQUEST.pack(2, 2) + b"{}{}")
    wait_until(lambda: workers.started[0].poll() is not None, what="the worker's end")
    os.close(process.stdin)


async def test_the_loop_is_never_kept_busy(validator: Validator):
    """
    Measured in the loop's own processor time, so that a busy machine does not matter.
    """
    busiest = 0.0

    async def watch() -> None:
        nonlocal busiest
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            busiest = max(busiest, now - last)
            last = now

    watcher = asyncio.ensure_future(watch())
    await validator.check(endless(), b"{}")
    await validator.check(b"{}", b"[" + b"1," * 4_000_000 + b"1]")
    await validator.check(b'{"enum":[%b0]}' % (b"0," * 100_000), b"1")
    watcher.cancel()
    assert busiest < 0.05


@pytest.mark.parametrize(
    "schema",
    [
        b'{"type":"string"}',
        b'{"type":["array","null"]}',
        b'{"$ref":"#/$defs/a","$defs":{"a":{"type":"array"}}}',
        b'{"anyOf":[{"type":"string"},{"type":"array"}]}',
    ],
)
async def test_an_object_is_not_held_against_a_schema_of_something_else(
    validator: Validator, schema: bytes
):
    """
    MCP has objects alone: such a tool could never be called.
    """
    found = await validator.check(schema, b'{"a":1}')
    assert found == Unchecked("its schema is one of something else than an object")
    assert isinstance(await validator.check(schema, b"5"), list)
