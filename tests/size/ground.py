"""A daemon under attack, and a session on another of its servers that must not notice."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.faults.ground import memory_kib
from tests.soak import probe
from tests.support.daemon import Box, Peer, RpcError, is_alive
from tests.support.waiting import can_read, scaled, wait_until

PUPPET: Final = Path(__file__).with_name("puppet.py")
MIB: Final = 1 << 20

MESSAGE_BYTES: Final = 32 * MIB
REQUEST_BYTES: Final = 9 * MIB
BUFFERED_BYTES: Final = 64 * MIB
"""``max_message_bytes``, ``max_request_bytes`` and ``max_buffered_bytes`` of the daemon here."""

HOLDS_MIB: Final = BUFFERED_BYTES // MIB + 64
"""What a row may add to the daemon's memory where its bound is ``max_buffered_bytes``."""

SECONDS: Final = float(os.environ.get("MCPD_SIZE_SECONDS", "0"))
"""For how long each row goes on (`make size`); the latency is then judged strictly. Read at
once: tests run without our variables."""

P99_S: Final = 0.05
GENEROUS_S: Final = 0.5
"""For the 99th percentile of the echo, in `make size` and in a run of all tests."""

SLOWEST_S: Final = 2.0
"""For the slowest echo of all."""

FEWEST: Final = 20
"""Echoes that a row is measured by."""


class Arena:
    """One daemon: a ``calm`` server for the session that is measured, and hostile ones."""

    def __init__(self) -> None:
        self.box = Box()
        self.box.settings = {
            "max_message_bytes": MESSAGE_BYTES,
            "max_request_bytes": REQUEST_BYTES,
            "max_buffered_bytes": BUFFERED_BYTES,
            "watch": False,
        }
        self.box.fake("calm")
        del self.box.servers["calm"]["args"][3:5]  # a journal of so many calls would fill the disk
        self.box.fake("victim")
        self.puppet("puppet")
        self._peers: list[Peer] = []
        self.latencies: list[float] = []

    def puppet(self, name: str, setup: str = "", **entry: Any) -> None:
        """Add a server that does what it is told; ``setup`` is run when it starts."""
        args = ["-I", "-S", str(PUPPET), "--setup", setup]
        launch = {"command": sys.executable, "args": args, "era": "legacy", "stop_grace": 0.3}
        self.box.servers[name] = {**launch, **entry}

    def bring(self, name: str, setup: str = "", **entry: Any) -> None:
        """Add a puppet to the running daemon."""
        self.puppet(name, setup, **entry)
        self.box.write()
        with Peer.dial(self.box.socket) as peer:
            peer.request("mcpd/reload", timeout=30.0)

    @property
    def pid(self) -> int:
        assert self.box.daemon
        return self.box.daemon.pid

    def peer(self) -> Peer:
        """Return a connection that ends with the row."""
        peer = Peer.dial(self.box.socket)
        self._peers.append(peer)
        return peer

    def session(self, server: str | None = "victim", **more: Any) -> Peer:
        """Return a session that ends with the row."""
        peer = self.box.session(server, **more)
        self.box._peers.remove(peer)
        self._peers.append(peer)
        return peer

    def let_go(self) -> None:
        """Hang up all that the row has opened."""
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.close()
        self._peers.clear()

    def up(self) -> None:
        """Start the daemon, and every server once."""
        self.box.up()
        with Peer.dial(self.box.socket) as peer:
            peer.request("mcpd/start", {"servers": [*self.box.servers]}, 30.0)

    def tables(self) -> dict[str, int]:
        """Return how much each table of the daemon holds."""
        with Peer.dial(self.box.socket) as peer:
            found: dict[str, int] = peer.request("mcpd/status")["daemon"]["tables"]
            return found

    def is_well(self) -> bool:
        """Tell whether the daemon answers."""
        try:
            with Peer.dial(self.box.socket) as peer:
                peer.request("mcpd/hello", timeout=5.0)
        except (OSError, EOFError, TimeoutError, RpcError):
            return False
        return True

    @contextlib.contextmanager
    def measured(self, most_mib: float) -> Iterator[Measure]:
        """Have the calm session call meanwhile; then judge its echoes and the daemon's memory."""
        measure = Measure(self)
        measure.start()
        try:
            yield measure
            measure.wait_for(FEWEST)
        finally:
            measure.stop()
            self.let_go()
        measure.judge(most_mib)

    def close(self) -> None:
        self.let_go()
        if self.box.daemon and self.box.daemon.poll() is None and not self.is_well():
            self.box.daemon.kill()
        self.box.close()


class Measure:
    """The echoes of one row, and the memory of the daemon in it."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._file = arena.box.root / "latencies"
        self._log_size = arena.box.log.stat().st_size
        self._probe: subprocess.Popen[bytes] | None = None
        self.is_strict = SECONDS > 0
        self._before_kib = self._peak_kib = self._after_kib = 0
        self._waited_s = 0.0
        self.began = 0.0

    def start(self) -> None:
        """Begin, once the first echo has come back."""
        pid = self._arena.pid
        argv = [sys.executable, "-I", "-S", probe.__file__, str(self._arena.box.socket), "calm"]
        with self._file.open("wb") as out:
            self._probe = subprocess.Popen(argv, stdout=out, stderr=subprocess.PIPE)
        self.wait_for(3)
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
        self._before_kib = memory_kib(pid)
        self._waited_s = waited_s(pid)
        self.began = time.monotonic()

    @property
    def goes_on(self) -> bool:
        """Whether the row is to do again what it does."""
        return time.monotonic() < self.began + SECONDS

    def latencies(self) -> list[float]:
        """Return the seconds of each echo so far."""
        return [float(line) for line in self._file.read_text().rpartition("\n")[0].split()]

    def wait_for(self, more: int) -> None:
        """Wait for so many more echoes."""
        assert self._probe
        wanted = len(self.latencies()) + more
        wait_until(
            lambda: len(self.latencies()) >= wanted or self._probe.poll() is not None,  # type: ignore[union-attr]
            30,
            what=lambda: f"{wanted} echoes, there are {len(self.latencies())}",
        )

    def stop(self) -> None:
        """Measure no more."""
        assert self._probe
        self._is_cut_off = self._probe.poll() is not None
        self._probe.terminate()
        self._why = self._probe.communicate()[1].decode()
        if is_alive(self._arena.pid):
            status = Path(f"/proc/{self._arena.pid}/status").read_text()
            self._peak_kib = int(status.split("VmHWM:")[1].split()[0])
            self._after_kib = memory_kib(self._arena.pid)
            self._waited_s = waited_s(self._arena.pid) - self._waited_s

    def figures(self) -> tuple[float, float, float, float]:
        """Return seconds, 99th percentile and worst of the echoes, and MiB of memory."""
        found = sorted(self.latencies())
        p99 = found[min(len(found) - 1, int(len(found) * 0.99))]
        grown = (self._peak_kib - self._before_kib) / 1024
        return time.monotonic() - self.began, p99, found[-1], grown

    def judge(self, most_mib: float) -> None:
        """Say what was measured, and fail where it is more than it may be."""
        arena = self._arena
        count = len(self.latencies())
        seconds, p99, worst, grown = self.figures()
        print(
            f"size: {seconds:.1f} s, {count} echoes: p99 {p99 * 1000:.1f} ms, worst {worst * 1000:.0f} ms;"
            f" memory +{grown:.0f} MiB of {most_mib:.0f}, +{(self._after_kib - self._before_kib) / 1024:.0f}"
            f" after; waited {self._waited_s:.2f} s for the processor"
        )
        assert is_alive(arena.pid), "the daemon ended"
        assert not self._is_cut_off, f"the calm session was cut off: {self._why}"
        assert arena.box.status("calm")["generation"] == 1, "the calm server was restarted"
        log = arena.box.log.read_text(errors="replace")[self._log_size :]
        assert "Traceback" not in log
        assert "task.crashed" not in log
        assert "call.crashed" not in log
        assert p99 < (P99_S if self.is_strict else scaled(GENEROUS_S)), f"p99 {p99 * 1000:.1f} ms"
        assert worst < scaled(SLOWEST_S), f"worst {worst * 1000:.0f} ms"
        assert grown < most_mib, f"{grown:.0f} MiB more than before"


def waited_s(pid: int) -> float:
    """Return how long a process has waited for a processor: the machine's fault, not its own."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def outcome(peer: Peer, ident: Any, timeout: float = 30.0) -> str:
    """Return what came of a request: ``ok``, the kind of error, or its code."""
    try:
        peer.finish(ident, timeout)
    except RpcError as error:
        return error.kind or str(error.code)
    return "ok"


def skim(peer: Peer, ident: str, timeout: float = 30.0) -> bytes | None:
    """Read past everything up to the answer to a request; return its line, ``None`` at the end."""
    needle, deadline = f'"id":"{ident}"'.encode(), time.monotonic() + scaled(timeout)
    rest = b""
    while time.monotonic() < deadline:
        if not can_read(peer._read_fd, 0.1):
            continue
        try:
            chunk = os.read(peer._read_fd, MIB)
        except ConnectionResetError:
            return None
        if not chunk:
            return None
        *lines, rest = (rest + chunk).split(b"\n")
        found = [each for each in lines if needle in each[:200]]
        if found:
            return found[0]
    raise TimeoutError(f"no answer to {ident} within {timeout} s")
