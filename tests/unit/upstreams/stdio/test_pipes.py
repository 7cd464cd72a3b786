"""A server's pipes, on both loops, with a process's end of them in the test's hand."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import tracemalloc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from mcpd.core.wire.framing import Frame, Oversized
from mcpd.core.wire.memory import Memory
from mcpd.upstreams.stdio.ends import TELLS_UNREAD
from mcpd.upstreams.stdio.pipes import HIGH_WATER_BYTES, LINES_AT_ONCE, Pipes
from tests.support.waiting import wait_until_async

LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


class Far:
    """The process's side of three pipes, and what our side made of it."""

    def __init__(self, max_message_bytes: int = 1000, max_unsent_bytes: int = 1 << 20) -> None:
        self.stdin, self._stdin = os.pipe()
        self._stdout, self.stdout = os.pipe()
        self._stderr, self.stderr = os.pipe()
        for fd in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(fd, False)
        self.frames: list[Frame | Oversized] = []
        self.errors: list[bytes] = []
        self.ended = 0
        self.memory = Memory(1 << 30)
        self.pipes = Pipes(
            max_message_bytes=max_message_bytes,
            max_unsent_bytes=max_unsent_bytes,
            memory=self.memory,
            on_frame=self.frames.append,
            on_stderr=self.errors.append,
            on_end=self._end,
        )

    def _end(self) -> None:
        self.ended += 1

    async def connect(self) -> None:
        await self.pipes.connect(self._stdin, self._stdout, self._stderr)

    def close(self, *names: str) -> None:
        for name in names or ("stdin", "stdout", "stderr"):
            with contextlib.suppress(OSError):
                os.close(getattr(self, name))

    def read(self, size: int = 1 << 16) -> bytes:
        return os.read(self.stdin, size)


Scenario = Callable[[Far], Coroutine[Any, Any, None]]


def play(loop: str, scenario: Scenario, **limits: int) -> Far:
    async def scene() -> Far:
        far = Far(**limits)
        await far.connect()
        try:
            await scenario(far)
        finally:
            far.pipes.close()
            far.close()
            await asyncio.sleep(0)
        return far

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(scene())


both = pytest.mark.parametrize("loop", list(LOOPS))


@both
def test_lines_come_as_frames_and_stderr_as_it_is(loop: str) -> None:
    async def scenario(far: Far) -> None:
        os.write(far.stdout, b'{"a":1}\n{"b"')
        os.write(far.stderr, b"words")
        os.write(far.stdout, b":2}\r\n")
        await wait_until_async(lambda: len(far.frames) == 2 and far.errors)

    far = play(loop, scenario)
    assert far.frames == [b'{"a":1}', b'{"b":2}']
    assert far.errors[0] == b"words"


@both
def test_a_line_over_the_limit_is_skipped(loop: str) -> None:
    async def scenario(far: Far) -> None:
        os.write(far.stdout, b"x" * 5000 + b"\nfine\n")
        await wait_until_async(lambda: len(far.frames) == 2)

    far = play(loop, scenario)
    assert isinstance(far.frames[0], Oversized)
    assert far.frames[1] == b"fine"


@both
def test_the_elements_of_an_array_come_before_what_follows_it_and_not_at_once(loop: str) -> None:
    """
    An array of 16 MiB, taken apart in one go, kept everybody waiting until the watchdog came.
    """
    at_once: list[int] = []

    async def scenario(far: Far) -> None:
        def frame(frame: bytes | Oversized) -> None:
            far.frames.append(frame)
            if frame == b"[1,2]":
                far.pipes.bring([b"1", b"2"])
                at_once.append(len(far.frames))

        far.pipes._stdout.on_frame = frame
        os.write(far.stdout, b"[1,2]\n3\n4\n")
        await wait_until_async(lambda: len(far.frames) == 5)
        os.write(far.stdout, b"6\n[1,2]\n" * 40)
        await wait_until_async(lambda: len(far.frames) == 5 + 160)

    far = play(loop, scenario)
    assert at_once[0] == 1
    assert far.frames == [b"[1,2]", b"1", b"2", b"3", b"4", *[b"6", b"[1,2]", b"1", b"2"] * 40]


@both
def test_a_last_line_without_an_end_counts(loop: str) -> None:
    async def scenario(far: Far) -> None:
        os.write(far.stdout, b'{"last":1}')
        far.close("stdout")
        await wait_until_async(lambda: far.ended)

    far = play(loop, scenario)
    assert far.frames == [b'{"last":1}']
    assert far.ended == 1


@both
def test_a_message_that_its_process_did_not_live_to_end_counts_for_nothing(loop: str) -> None:
    """
    Else its caller would be told of bad JSON, and not of the crash; nor would a read be repeated.
    """

    async def scenario(far: Far) -> None:
        os.write(far.stdout, b'{"jsonrpc":"2.0","id":1,"result":{"text":"abc')
        far.close("stdout")
        await wait_until_async(lambda: far.ended)

    far = play(loop, scenario)
    assert far.frames == []
    assert far.ended == 1


@both
def test_what_is_written_arrives(loop: str) -> None:
    async def scenario(far: Far) -> None:
        assert far.pipes.write(b"one\n")
        assert far.pipes.write(b"two\n")
        await asyncio.sleep(0)
        await wait_until_async(lambda: far.read() == b"one\ntwo\n")

    play(loop, scenario)


@both
def test_a_server_that_does_not_read_is_fed_to_a_bound_only(loop: str) -> None:
    async def scenario(far: Far) -> None:
        accepted = 0
        while far.pipes.write(b"x" * 65536):
            accepted += 1
            await asyncio.sleep(0)
            assert accepted < 100, "there is a bound"
        assert accepted >= 16
        os.set_blocking(far.stdin, False)

        def drained() -> bool:
            with contextlib.suppress(BlockingIOError):
                while far.read():
                    pass
            return far.pipes.write(b"y")

        await wait_until_async(drained)

    play(loop, scenario, max_unsent_bytes=1 << 20)


@both
def test_writing_to_one_that_closed_its_stdin_is_refused(loop: str) -> None:
    async def scenario(far: Far) -> None:
        assert far.pipes.is_open
        far.close("stdin")
        await wait_until_async(lambda: not far.pipes.write(b"x\n"))
        assert not far.pipes.is_open
        await wait_until_async(lambda: far.ended == 1)

    play(loop, scenario)


@both
def test_closing_stdin_lets_the_server_see_everything_and_then_the_end(loop: str) -> None:
    async def scenario(far: Far) -> None:
        far.pipes.write(b"last words\n")
        far.pipes.close_stdin()
        read = b""
        while True:
            piece = await asyncio.to_thread(far.read)
            if not piece:
                break
            read += piece
        assert read == b"last words\n"
        assert not far.pipes.write(b"late\n")
        assert far.ended == 0, "it was our wish"

    play(loop, scenario)


@both
def test_one_that_does_not_read_sees_the_end_soon_nevertheless(loop: str) -> None:
    """
    A polite server may be stuck in a write of its own; the end of its input frees it.
    """

    async def scenario(far: Far) -> None:
        while far.pipes.write(b"x" * 65536):
            await asyncio.sleep(0)
        far.pipes.close_stdin()
        await asyncio.sleep(0.3)
        size = 0
        while piece := await asyncio.wait_for(asyncio.to_thread(far.read), 5):
            size += len(piece)
        assert size > 0

    play(loop, scenario, max_unsent_bytes=1 << 20)


@both
def test_a_muted_server_is_drained_and_not_heard(loop: str) -> None:
    async def scenario(far: Far) -> None:
        far.pipes.mute()
        for _ in range(64):
            os.write(far.stdout, b"x" * 4095 + b"\n")
            await asyncio.sleep(0)
        far.close("stdout", "stderr")
        assert await far.pipes.drain(5)

    far = play(loop, scenario)
    assert far.frames == []


@both
def test_a_descendant_that_holds_the_pipes_is_not_waited_for(loop: str) -> None:
    async def scenario(far: Far) -> None:
        assert not await far.pipes.drain(0.01)
        far.close("stdout", "stderr")
        assert await far.pipes.drain(5)

    play(loop, scenario)


@both
@pytest.mark.parametrize("size", [100, 30_000])
def test_all_that_was_written_is_handled_however_slow_the_loop_is(loop: str, size: int) -> None:
    """
    A process wrote its answers and died; a descendant holds its pipes, so they do not end. Each
    answer here takes the loop 2 ms, all together more than any limit in seconds would give them.
    """
    count = 60_000 // size
    heard: list[bytes] = []

    async def scenario(far: Far) -> None:
        def handle(frame: Frame | Oversized) -> None:
            time.sleep(0.002 if size < 1000 else 0.3)
            assert not isinstance(frame, Oversized)
            heard.append(bytes(frame))

        far.pipes._stdout.on_frame = handle
        line = b"x" * (size - 1) + b"\n"
        assert os.write(far.stdout, line * count) == size * count
        os.write(far.stdout, b"no end")
        os.write(far.stderr, b"e" * 50_000 + b" last words")
        assert not await far.pipes.drain(0)
        assert heard == [line[:-1]] * count + [b"no end"]
        assert b"".join(far.errors).endswith(b" last words")
        assert far.errors[-1] == b""

    play(loop, scenario, max_message_bytes=40_000)


@both
def test_what_a_descendant_goes_on_writing_is_not_waited_for(loop: str) -> None:
    """
    It may write for ever: what was in the pipe when the process had ended is all that counts.
    """

    async def scenario(far: Far) -> None:
        def handle(_: Frame | Oversized) -> None:
            os.write(far.stdout, b"more\n" * 2)  # two for each that is read

        far.pipes._stdout.on_frame = handle
        os.write(far.stdout, b"more\n" * 100)
        assert not await asyncio.wait_for(far.pipes.drain(0), 20)
        far.pipes.mute()

    play(loop, scenario)


@both
def test_a_server_that_is_muted_while_it_is_drained_is_not_waited_for(loop: str) -> None:
    async def scenario(far: Far) -> None:
        far.pipes._stdout.on_frame = lambda _: time.sleep(0.001)
        os.write(far.stdout, b"x\n" * 3000)
        draining = asyncio.ensure_future(far.pipes.drain(0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        far.pipes.mute()
        assert not await asyncio.wait_for(draining, 20)

    play(loop, scenario)


@both
def test_an_exception_of_a_listener_is_no_surprise_for_the_next_line(loop: str) -> None:
    """
    A frame that is split over reads keeps its place, whatever was in the reads before.
    """

    async def scenario(far: Far) -> None:
        for piece in (b"a", b"b\nc", b"d\n", b"e\n"):
            os.write(far.stdout, piece)
            await asyncio.sleep(0.002)
        await wait_until_async(lambda: len(far.frames) == 3)

    assert play(loop, scenario).frames == [b"ab", b"cd", b"e"]


@pytest.mark.skipif(not TELLS_UNREAD, reason="the pipe does not tell what is in it")
@both
def test_what_the_process_has_not_read_is_known(loop: str) -> None:
    """
    Also what is still on its way into the pipe: a process that starts cold has read nothing.
    """

    async def scenario(far: Far) -> None:
        line = b"x" * 300_000 + b"\n"
        assert far.pipes.unread_bytes() == 0
        far.pipes.write(line)
        assert far.pipes.unread_bytes() == len(line)
        await asyncio.sleep(0)
        assert far.pipes.unread_bytes() == len(line)
        os.set_blocking(far.stdin, False)
        left = len(line)
        while left:
            with contextlib.suppress(BlockingIOError):
                left -= len(far.read(100_000))
            await asyncio.sleep(0.001)
            assert far.pipes.unread_bytes() == left

    play(loop, scenario)


@both
def test_of_a_closed_pipe_nothing_is_unread(loop: str) -> None:
    async def scenario(far: Far) -> None:
        far.pipes.write(b"x\n")
        far.pipes.close_stdin()
        assert far.pipes.unread_bytes() == 0
        far.pipes.close()
        await asyncio.sleep(0)
        assert far.pipes.unread_bytes() == 0

    play(loop, scenario)


@pytest.mark.parametrize("end", ["stdout", "stderr"])
@both
def test_a_process_that_has_written_anything_has_spoken(loop: str, end: str) -> None:
    async def scenario(far: Far) -> None:
        assert not far.pipes.has_spoken
        os.write(getattr(far, end), b".")
        await wait_until_async(lambda: far.pipes.has_spoken)

    play(loop, scenario)


async def fill(far: Far) -> int:
    """Write requests until its stdin takes no more; return how many it took."""
    count = 0
    while far.pipes.write(b"%d %s\n" % (count + 1, b"x" * 65536), count + 1):
        count += 1
        await asyncio.sleep(0)
    return count


async def rest_of(far: Far) -> list[bytes]:
    """Read all that is left for the process, and return its lines without their filling."""
    got = bytearray()
    os.set_blocking(far.stdin, False)

    def read() -> bool:
        with contextlib.suppress(BlockingIOError):
            while piece := far.read():
                got.extend(piece)
        return not far.pipes.unread_bytes()

    await wait_until_async(read)
    read()
    return [line.split(b" ")[0] for line in bytes(got).splitlines()]


@both
def test_a_cancellation_overtakes_queued_lines_but_not_a_half_written_one(loop: str) -> None:
    async def scenario(far: Far) -> None:
        count = await fill(far)
        assert far.pipes.write(b"cancel-1\n", cancels=1)
        lines = await rest_of(far)
        assert lines.index(b"1") < lines.index(b"cancel-1") < lines.index(b"%d" % count)
        lines.remove(b"cancel-1")
        assert lines == [b"%d" % (at + 1) for at in range(count)]

    play(loop, scenario)


@both
def test_a_request_that_is_still_queued_is_withdrawn_with_its_cancellation(loop: str) -> None:
    async def scenario(far: Far) -> None:
        count = await fill(far)
        unread = far.pipes.unread_bytes()
        assert far.pipes.write(b"cancel\n", cancels=count)
        assert far.pipes.unread_bytes() < unread - 65536
        assert await rest_of(far) == [b"%d" % (at + 1) for at in range(count - 1)]

    play(loop, scenario)


@both
def test_what_is_no_request_is_kept_where_requests_are_refused(loop: str) -> None:
    async def scenario(far: Far) -> None:
        count = await fill(far)
        assert far.pipes.write(b"answer " + b"x" * 65536 + b"\n")
        assert not far.pipes.write(b"x" * 65536 + b"\n", count + 1)
        assert far.pipes.write(b"ping\n")
        assert (await rest_of(far))[-2:] == [b"answer", b"ping"]
        assert far.pipes.write(b"later\n", count + 2)
        assert await rest_of(far) == [b"later"]

    play(loop, scenario)


@both
def test_what_is_no_request_has_a_bound_too(loop: str) -> None:
    async def scenario(far: Far) -> None:
        await fill(far)
        kept = 0
        while far.pipes.write(b"x" * 65536):
            kept += 1
            assert kept < 100, "there is a bound"
        assert kept

    play(loop, scenario)


@both
def test_small_lines_count_with_the_memory_that_they_take(loop: str) -> None:
    """
    A line of some bytes takes two hundred more in the queue.
    """

    async def scenario(far: Far) -> None:
        await fill(far)
        tracemalloc.start()
        try:
            kept = 0
            while far.pipes.write(b"%d\n" % kept):
                kept += 1
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept > 100
        assert taken < (1 << 20)  # what Far allows for what is no request is half of that
        far.pipes._drop_queue()
        assert not far.memory.kept_bytes

    play(loop, scenario)


@both
def test_what_is_queued_goes_out_before_stdin_is_closed(loop: str) -> None:
    async def scenario(far: Far) -> None:
        count = await fill(far)
        far.pipes.close_stdin()
        got = bytearray()
        while piece := await asyncio.to_thread(far.read):
            got.extend(piece)
        assert got.count(b"\n") == count

    play(loop, scenario)


class Counting:
    """Passes on to a transport what is written, and counts the writes."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.sizes: list[int] = []

    def write(self, data: bytes) -> None:
        self.sizes.append(len(data))
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def counting(far: Far) -> Counting:
    made = Counting(far.pipes._stdin)
    far.pipes._stdin = made  # type: ignore[assignment]
    return made


@both
def test_the_requests_of_many_clients_are_written_together(loop: str) -> None:
    """
    Each write wakes the server. The first ones do not wait, and the order is kept.
    """

    async def scenario(far: Far) -> None:
        stdin = counting(far)
        lines = [b"line %d\n" % number for number in range(100)]
        assert all(far.pipes.write(line, number + 1) for number, line in enumerate(lines))
        assert far.read() == b"".join(lines[:LINES_AT_ONCE])
        await wait_until_async(lambda: len(stdin.sizes) == LINES_AT_ONCE + 1)
        assert far.read() == b"".join(lines[LINES_AT_ONCE:])

    play(loop, scenario)


@both
def test_a_request_after_an_answer_is_written_at_once(loop: str) -> None:
    async def scenario(far: Far) -> None:
        for number in range(3 * LINES_AT_ONCE):
            assert far.pipes.write(b"request\n", number + 1)
            assert far.read() == b"request\n"
            os.write(far.stdout, b"answer\n")
            await wait_until_async(lambda: len(far.frames) > number)  # noqa: B023

    play(loop, scenario)


@both
def test_lines_that_are_held_for_a_moment_are_few_and_unread(loop: str) -> None:
    async def scenario(far: Far) -> None:
        stdin = counting(far)
        line = b"x" * 999 + b"\n"
        for number in range(LINES_AT_ONCE + 100):
            assert far.pipes.write(line, number + 1)
        written = sum(stdin.sizes)
        assert LINES_AT_ONCE * 1000 < written < (LINES_AT_ONCE + 100) * 1000
        assert (LINES_AT_ONCE + 100) * 1000 - written <= HIGH_WATER_BYTES
        if TELLS_UNREAD:
            assert far.pipes.unread_bytes() == (LINES_AT_ONCE + 100) * 1000

    play(loop, scenario)


@both
def test_lines_that_are_held_for_a_moment_go_out_before_stdin_is_closed(loop: str) -> None:
    async def scenario(far: Far) -> None:
        for number in range(2 * LINES_AT_ONCE):
            assert far.pipes.write(b"x\n", number + 1)
        far.pipes.close_stdin()
        assert len(await rest_of(far)) == 2 * LINES_AT_ONCE

    play(loop, scenario)
