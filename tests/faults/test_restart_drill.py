"""Daemons that are killed and replaced while everybody is at work."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.daemon import Box, Peer, RpcError, binary, is_alive
from tests.support.waiting import scaled, wait_until

CONTINUES_S = 5.0
"""How long a client may be without an answer, whatever became of the daemon."""

LIVES_S = 1.2
"""For how long everybody is at work between two deaths."""

PAUSE_S = 0.2
SLEEP_MS = 60
PATIENCE_S = 60.0


class Client(threading.Thread):
    """Somebody who calls, checks what comes, and counts; what goes wrong is in ``failure``."""

    def __init__(self, box: Box, number: int) -> None:
        super().__init__(daemon=True)
        self.box = box
        self.number = number
        self.calls = 0
        self.unknown = 0
        """Calls that ended with ``outcome_unknown``."""
        self.answered_at = time.monotonic()
        self.longest_s = 0.0
        """Without an answer, since ``begin_round``."""
        self.failure: BaseException | None = None
        self._is_over = threading.Event()
        self._dice = random.Random(number)

    def run(self) -> None:
        try:
            while not self._is_over.is_set():
                self.work()
                self._is_over.wait(self._dice.random() * PAUSE_S)
            self.end()
        except BaseException as failure:  # noqa: BLE001  (the test raises it)
            self.failure = failure

    def work(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self._is_over.set()

    def good(self) -> None:
        """An answer has come."""
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - self.answered_at)
        self.answered_at = now

    def call(self, peer: Peer) -> tuple[Any, str]:
        """Begin a call, and return its id and what it must bring."""
        self.calls += 1
        if self._dice.random() < 0.5:
            ident = peer.start("tools/call", {"name": "sleep", "arguments": {"ms": SLEEP_MS}})
            return ident, f"slept {SLEEP_MS}"
        text = f"{self.number}/{self.calls}"
        return peer.start("tools/call", {"name": "echo", "arguments": {"text": text}}), text

    def take(self, peer: Peer, ident: Any, text: str) -> None:
        assert peer.finish(ident, PATIENCE_S)["content"][0]["text"] == text


class Bridged(Client):
    """Through ``mcpctl connect``, a few calls at a time: it never notices more than an error."""

    def __init__(self, box: Box, number: int) -> None:
        super().__init__(box, number)
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [binary("mcpctl"), "connect", "fake"],
            env=box.env,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self.peer = Peer.over(self.process)
        self.peer.initialize()
        self.peer.request("tools/list")

    def work(self) -> None:
        for ident, text in [self.call(self.peer) for _ in range(self._dice.randint(1, 3))]:
            try:
                self.take(self.peer, ident, text)
            except RpcError as error:
                if error.kind != "outcome_unknown":
                    raise
                self.unknown += 1
            else:
                self.good()
        assert self.peer.inbox == [], "an answer too many, or a change of nothing"

    def end(self) -> None:
        assert self.process.poll() is None, "the bridge has ended"
        self.peer.close()
        assert self.process.returncode == 0

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Plain(Client):
    """On the socket itself: when that is at its end, it connects again."""

    def __init__(self, box: Box, number: int) -> None:
        super().__init__(box, number)
        self.ends = 0
        """Times that the connection ended."""
        self._peer: Peer | None = None

    def work(self) -> None:
        try:
            peer = self._peer = self._peer or self._connect()
            self.take(peer, *self.call(peer))
        except RpcError as error:
            if error.kind != "draining":
                raise
        except (EOFError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            self._hang_up()
        else:
            self.good()

    def end(self) -> None:
        if self._peer is not None:
            self._peer.close()

    def _connect(self) -> Peer:
        peer = Peer.dial(self.box.socket)
        try:
            peer.request("mcpd/attach", {"server": "fake"}, PATIENCE_S)
            peer.initialize()
        except BaseException:
            peer.close()
            raise
        return peer

    def _hang_up(self) -> None:
        if self._peer is not None:
            self.ends += 1
            self._peer.close()
            self._peer = None


class Drill:
    """Daemons that come and go under clients at work."""

    def __init__(self, box: Box, bridges: int, sockets: int) -> None:
        self.box = box
        self.bridged = [Bridged(box, number) for number in range(bridges)]
        self.plain = [Plain(box, 1000 + number) for number in range(sockets)]
        self.clients: list[Client] = [*self.bridged, *self.plain]
        self.gaps: dict[str, list[float]] = {}
        for client in self.clients:
            client.start()

    def round(self, name: str, replace: Callable[[], None]) -> None:
        """Have the daemon replaced, and wait until everybody has had an answer of the next one."""
        for client in self.clients:
            client.answered_at, client.longest_s = time.monotonic(), 0.0
        pid = self.pid()
        replace()
        wait_until(lambda: self.pid() not in (None, pid), 30, what="the next daemon")
        came_at = time.monotonic()
        wait_until(lambda: self._have_answers_since(came_at), 60, what=self._who_waits)
        time.sleep(LIVES_S)
        assert all(client.failure is None for client in self.clients)
        self.gaps.setdefault(name, []).extend(client.longest_s for client in self.clients)

    def pid(self) -> int | None:
        """Return whose socket it is, ``None`` while it is nobody's."""
        try:
            with Peer.dial(self.box.socket) as peer:
                pid: int = peer.request("mcpd/hello")["pid"]
                return pid
        except (OSError, EOFError):
            return None

    def kill(self) -> None:
        pid = self.pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        if self.box.daemon is not None and self.box.daemon.pid == pid:
            self.box.daemon.wait()
        wait_until(lambda: not is_alive(pid), what="its death")

    def restart(self) -> None:
        done = self.box.ctl("restart", "--daemon")
        assert done.returncode == 0, done.stderr

    def end(self) -> None:
        """Have everybody leave; raise what went wrong."""
        for client in self.clients:
            client.stop()
        for client in self.clients:
            client.join(scaled(PATIENCE_S))
            if client.failure is not None:
                raise client.failure
            assert not client.is_alive(), f"{client} has not ended"

    def close(self) -> None:
        for client in self.clients:
            client.stop()
        for bridge in self.bridged:
            bridge.close()

    def report(self) -> str:
        """Return the figures."""
        told = []
        for name, gaps in self.gaps.items():
            gaps.sort()
            middle, late = gaps[len(gaps) // 2], gaps[int(len(gaps) * 0.99)]
            told.append(
                f"{name}: longest time without an answer p50 {middle:.2f} s, p99 {late:.2f} s, "
                f"max {gaps[-1]:.2f} s"
            )
        calls, unknown = sum(b.calls for b in self.bridged), sum(b.unknown for b in self.bridged)
        told.append(f"{len(self.bridged)} bridges: {calls} calls, {unknown} outcome_unknown")
        calls, ends = sum(p.calls for p in self.plain), sum(p.ends for p in self.plain)
        told.append(f"{len(self.plain)} sockets: {calls} calls, {ends} ends of a connection")
        return "\n".join(told)

    def _have_answers_since(self, instant: float) -> bool:
        for client in self.clients:
            if client.failure is not None:
                raise client.failure
        return all(client.answered_at > instant for client in self.clients)

    def _who_waits(self) -> str:
        now = time.monotonic()
        late = [c for c in self.clients if now - c.answered_at > CONTINUES_S]
        return f"answers; {len(late)} clients have none: {late[:3]}"


@pytest.fixture
def box() -> Iterator[Box]:
    made = Box()
    yield made
    made.ctl("down", "--force")
    made.close()


def drill(box: Box, *, clients: int, rounds: int, continues_s: float) -> str:
    """Kill the daemon ``rounds`` times and replace it as often; return the figures."""
    box.settings["drain_timeout"] = 30  # on a busy machine, too, no call is cut short
    box.fake().write()
    assert box.ctl("up").returncode == 0
    made = Drill(box, clients, clients)
    try:
        for _ in range(rounds):
            made.round("killed", made.kill)
        unknown = sum(bridge.unknown for bridge in made.bridged)
        for _ in range(rounds):
            made.round("restarted", made.restart)
        lost = sum(bridge.unknown for bridge in made.bridged) - unknown
        made.end()
        for plain in made.plain:
            assert plain.ends >= 2 * rounds - 2, "it sees the ends, and connects again"
        told = made.report()
        assert lost == 0, f"a restart loses nothing\n{told}"
        assert max(max(gaps) for gaps in made.gaps.values()) < scaled(continues_s), told
        log = (box.state / "mcpd.log").read_text()
        assert log.count("daemon.started") <= 2 * rounds + 1, "one for each that ended"
    finally:
        made.close()
    return told


@pytest.mark.timeout(240)
def test_clients_go_on_whatever_becomes_of_the_daemon(box: Box) -> None:
    """
    B053, B120: one answer for each request, no half line, and no bridge that ends.
    """
    drill(box, clients=6, rounds=3, continues_s=4 * CONTINUES_S)


@pytest.mark.drill
@pytest.mark.timeout(7200)
def test_the_whole_drill(box: Box, capsys: pytest.CaptureFixture[str]) -> None:
    """
    B053: twenty bridges and twenty sockets, fifty deaths and fifty restarts; `make drill`.
    """
    rounds = int(os.environ.get("DRILL_ROUNDS", "50"))
    told = drill(box, clients=20, rounds=rounds, continues_s=CONTINUES_S)
    with capsys.disabled():
        print(f"\n{rounds} times killed, {rounds} times restarted\n{told}")
