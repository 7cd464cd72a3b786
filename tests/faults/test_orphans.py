"""The orphan matrix: servers that will not end, times the ways in which what runs them does."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcpd.supervise.proctable import procfs
from mcpd.supervise.proctable.procfs import ProcId
from tests.faults.ground import Watch, children_of, installed, launched, npx
from tests.support.daemon import FAKE_SERVER, TAG, Box, Json, Peer, binary
from tests.support.fakedocker import FakeDocker
from tests.support.waiting import scaled, wait_until

GRACE = 0.3
ALIVE_S = 2 * GRACE + 2
"""Until all has ended where the daemon lives: both graces and two seconds."""

DEAD_S = 10.0
"""Likewise where it was killed."""

ZOMBIE_S = 1.0
DEFAULT_GRACE = 5

DEAF = ("--ignore-eof",)
STUBBORN = ("--ignore-eof", "--ignore-term")
AWAY = '(setsid sh -c "sleep 987 & echo \\$! >>{pids}" &); exec "$@"'
"""Leaves a process behind by a double fork, in a session of its own."""

BARE = AWAY.replace("sleep", "env -i sleep")
"""Likewise; it has no environment left by which it could be known, once it was seen with one."""

KINDS = ("polite", "eof", "term", "busy", "setsid", "fork", "bare", "npx", "docker")
AT_LEAST = 15
"""Processes of theirs: some have several."""


CLIENT = r"""
import signal, subprocess, sys
hello = b'''{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}'''.replace(b"\n", b"") + b"\n"
mcpctl, *names = sys.argv[1:]
pipe = subprocess.PIPE
bridges = [subprocess.Popen([mcpctl, "connect", n], stdin=pipe, stdout=pipe) for n in names]
for bridge in bridges:
    bridge.stdin.write(hello)
    bridge.stdin.flush()
for bridge in bridges:
    bridge.stdout.readline()
print("up", flush=True)
signal.pause()
"""

DECOY = r"""
import os, signal, sys
def note(signum, _):
    os.write(2, b"%d got %d\n" % (os.getpid(), signum))
for signum in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(signum, note)
os.fork()
os.write(1, b".")
while True:
    signal.pause()
"""
"""Two processes of one group that write down which signals they get."""


@contextlib.contextmanager
def matrix(**entry: object) -> Iterator[tuple[Box, Decoys]]:
    """Give a daemon with a server of each kind, and strangers beside it."""
    engines = []

    def all_kinds(box: Box) -> None:
        configure(box, **entry)
        engines.append(FakeDocker(box.root / "docker", keep={TAG: box.tag}))
        box.env["PATH"] = engines[0].path()
        program = [sys.executable, "-IS", str(FAKE_SERVER), "--name", "docker", *STUBBORN]
        args = ["run", "-i", "--rm", "img", *program]
        box.servers["docker"] = {"command": "docker", "args": args, "stop_grace": GRACE, **entry}

    try:
        with installed(all_kinds) as box, decoys(box) as strangers:
            yield box, strangers
    finally:
        for engine in engines:
            engine.close()


def configure(box: Box, **entry: object) -> None:
    """Add a server of each kind but those in containers."""
    entry = {"stop_grace": GRACE, **entry}
    box.fake("polite", **entry)
    box.fake("eof", *DEAF, **entry)
    box.fake("term", *STUBBORN, **entry)
    box.fake("busy", "--busy-on-eof", "--ignore-term", **entry)
    box.fake("setsid", "--setsid-child", **entry)
    for name, script in (("fork", AWAY), ("bare", BARE)):
        argv = ("sh", "-c", script.format(pids=box.root / f"{name}.away"), "sh")
        launched(box, name, *argv, flags=DEAF, **entry)
    launched(box, "npx", npx(box), flags=DEAF, **entry)


class Decoys:
    """Strangers: one whose pid will stand in ledgers, one with the tag of another daemon."""

    def __init__(self, root: Path) -> None:
        self._heard = root / "signals"
        self._started = []
        for tag in ("", "of-another:polite:1"):
            env = {"PATH": os.environ["PATH"], **({procfs.TAG: tag} if tag else {})}
            with self._heard.open("ab") as heard:
                decoy = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", DECOY],
                    env=env,
                    stdout=subprocess.PIPE,
                    stderr=heard,
                    start_new_session=True,
                )
            self._started.append(decoy)
        for decoy in self._started:
            assert decoy.stdout
            assert decoy.stdout.read(2) == b".."
        self._before = self._members()
        assert len(self._before) == 4

    def _members(self) -> set[ProcId]:
        sessions = {decoy.pid for decoy in self._started}
        return {each.id for each in procfs.scan() if each.sid in sessions and each.lives}

    def plant(self, ledger: Path) -> None:
        """Have a ledger name the first of them, which started at another time than it says."""
        document = json.loads(ledger.read_text())
        pid = self._started[0].pid
        process = document["processes"][0] | {"pid": pid, "pgid": pid, "seen": [[pid, 7]]}
        document["processes"].append(process)
        ledger.write_text(json.dumps(document))

    def are_well(self) -> bool:
        """Return whether they live, and have got no signal."""
        return self._members() == self._before and not self._heard.read_text()

    def close(self) -> None:
        for decoy in self._started:
            os.killpg(decoy.pid, signal.SIGKILL)
            decoy.wait()
            assert decoy.stdout
            decoy.stdout.close()


@contextlib.contextmanager
def decoys(box: Box) -> Iterator[Decoys]:
    made = Decoys(box.root)
    try:
        yield made
    finally:
        made.close()


def guardian(box: Box) -> int | None:
    """Return the pid of the daemon's guardian."""
    assert box.daemon
    for pid in children_of(box.daemon.pid):
        if any(word.endswith("guardian.py") for word in procfs.arguments(pid)):
            return pid
    return None


def gone_away(box: Box, name: str) -> list[int]:
    """Return the pids of what a server has sent away by a double fork."""
    path = box.root / f"{name}.away"
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def ledger(box: Box) -> Path:
    [path] = (box.state / "ledger").glob("*.json")
    return path


def ours(box: Box) -> dict[ProcId, str]:
    """Return what runs in the box but the daemon itself, what left its environment included."""
    assert box.daemon
    pids = box.survivors() | dict.fromkeys(gone_away(box, "bare"), "bare: sleep")
    pids |= {pid: "guardian" for pid in children_of(box.daemon.pid) if pid == guardian(box)}
    found = {procfs.identify(pid): line for pid, line in pids.items() if pid != box.daemon.pid}
    return {identity: line for identity, line in found.items() if identity is not None}


def started(box: Box) -> dict[ProcId, str]:
    """Start what is not yet there, and return the processes once the daemon knows all of them."""
    names = [name for name in KINDS if box.servers[name].get("sharing") != "session"]
    with box.peer() as peer:
        peer.request("mcpd/start", {"servers": names}, 30)

    def is_known() -> bool:
        entries = json.loads(ledger(box).read_text())["processes"]
        seen = {pid for entry in entries for pid, _ in entry["seen"]}
        return bool(seen & set(gone_away(box, "bare")))

    wait_until(is_known, 10, what=lambda: f"the bare one in {ledger(box).read_text()}")
    servers = {i: line for i, line in ours(box).items() if line != "guardian"}
    assert len(servers) >= AT_LEAST, servers
    return servers


def wait_all_gone(processes: dict[ProcId, str], timeout: float) -> None:
    wait_until(
        lambda: not any(map(procfs.lives, processes)),
        timeout,
        what=lambda: f"the end of {[line for i, line in processes.items() if procfs.lives(i)]}",
    )


def wait_no_zombie(box: Box) -> None:
    assert box.daemon
    daemon = box.daemon.pid
    wait_until(
        lambda: not children_of(daemon, "Z"), ZOMBIE_S, what=lambda: str(children_of(daemon, "Z"))
    )


def stop(box: Box) -> None:
    with box.peer() as peer:
        peer.request("mcpd/stop", {"servers": list(KINDS)}, 20)


def restart(box: Box) -> None:
    with box.peer() as peer:
        peer.request("mcpd/restart", {"servers": list(KINDS)}, 30)


def reload(box: Box) -> None:
    for entry in box.servers.values():
        entry["env"] = {"CHANGED": "1"}
    box.write()
    with box.peer() as peer:
        changed: Json = peer.request("mcpd/reload")
    assert set(changed["changed"]) == set(KINDS)


@pytest.mark.parametrize("event", [stop, restart, reload], ids=lambda event: event.__name__)
def test_nothing_is_left_of_servers_that_are_ended(event: Callable[[Box], None]):
    """
    B001, B002, B005, B007, B011, B018: whatever they do about it, and whoever they started.
    """
    with matrix() as (box, strangers):
        processes = started(box)
        watch = Watch()
        event(box)
        # A new process never starts while the old tree is alive.
        wait_all_gone(processes, 0 if event in (stop, restart) else ALIVE_S)
        assert event is restart or watch.seconds < scaled(ALIVE_S)
        wait_no_zombie(box)
        assert strangers.are_well()


def test_nothing_is_left_of_servers_that_are_idle():
    """
    B148: they end as those that somebody stops.
    """
    with matrix(idle_timeout=0.1) as (box, strangers):
        sessions = [box.session(name) for name in KINDS]
        processes = started(box)
        for session in sessions:
            session.close()
        wait_all_gone(processes, 0.1 + ALIVE_S)
        wait_no_zombie(box)
        assert strangers.are_well()


def test_nothing_is_left_of_a_killed_client():
    """
    B017: neither its bridges nor the processes that were its own.
    """
    with matrix(sharing="session") as (box, strangers):
        client = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", CLIENT, binary("mcpctl"), *KINDS],
            env=box.env,
            stdout=subprocess.PIPE,
        )
        with client:
            assert client.stdout
            assert client.stdout.readline() == b"up\n"
            processes = started(box)
            client.kill()
        wait_all_gone(processes, ALIVE_S)
        assert len(processes) >= AT_LEAST + 1 + len(KINDS)
        wait_no_zombie(box)
        assert strangers.are_well()


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_command_that_a_killed_client_brought_ends_a_minute_later():
    """
    B017: it is kept that long for the next client, and no longer.
    """
    with installed(lambda box: None) as box:
        box.fake("deaf", *STUBBORN, stop_grace=GRACE)
        launch = box.servers.pop("deaf")
        box.write()
        command = [launch["command"], *launch["args"]]
        argv = [binary("mcpctl"), "connect", "--", *command]
        client = subprocess.Popen(argv, env=box.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with client, Peer.over(client) as peer:
            peer.initialize()
            client.kill()
        processes = {i: line for i, line in ours(box).items() if "--name deaf" in line}
        assert len(processes) == 1
        wait_all_gone(processes, 60 + 2 * DEFAULT_GRACE + 2)


def test_nothing_is_left_of_a_daemon_that_is_told_to_end():
    """
    And that in a few seconds, or a service manager does it its own way.
    """
    with matrix() as (box, strangers):
        processes = started(box) | ours(box)
        assert box.down(timeout=5 + ALIVE_S) == 0
        assert [line for i, line in processes.items() if procfs.lives(i)] == []
        assert strangers.are_well()


def test_nothing_is_left_of_a_daemon_that_is_killed():
    """
    B004: its guardian ends what it leaves, by the ledger, and nobody whose pid only is there.
    """
    with matrix() as (box, strangers):
        processes = started(box) | ours(box)
        assert box.daemon
        box.daemon.send_signal(signal.SIGSTOP)  # else it would write its ledger anew
        strangers.plant(ledger(box))
        box.down(signal.SIGKILL)
        wait_all_gone(processes, DEAD_S)
        assert strangers.are_well()
        assert os.listdir(box.state / "ledger") == []


def test_a_guardian_that_is_killed_has_a_successor():
    """
    B004: it is one of the processes that the kernel may choose when memory is short.
    """
    with matrix() as (box, strangers):
        processes = started(box)
        first = guardian(box)
        assert first
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: guardian(box) not in (first, None), 5, what=box.tail)
        assert "guardian.trouble" in box.tail()
        wait_no_zombie(box)
        processes |= ours(box)
        box.down(signal.SIGKILL)
        wait_all_gone(processes, DEAD_S)
        assert strangers.are_well()


def test_what_nobody_could_end_the_next_daemon_ends():
    """
    B004, B115: where daemon and guardian died at once, the ledger is all there is.
    """
    with matrix() as (box, strangers):
        processes = started(box)
        watcher = guardian(box)
        assert watcher and box.daemon
        box.daemon.send_signal(signal.SIGSTOP)  # or it would have a new one at once
        os.kill(watcher, signal.SIGKILL)
        box.down(signal.SIGKILL)
        strangers.plant(ledger(box))
        stubborn = {i: line for i, line in processes.items() if procfs.lives(i)}
        assert len(stubborn) >= 8, stubborn
        box.up(wait=False)
        wait_all_gone(processes, DEAD_S)
        wait_until(box.says_hello, 20)
        wait_until(lambda: "ledger.swept" in box.tail(), what=box.tail)
        wait_no_zombie(box)
        assert strangers.are_well()
