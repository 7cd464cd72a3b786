"""Cases from the field: a daemon that lives and does not answer."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.faults.ground import Watch, installed, tree, wait_gone
from tests.support.daemon import Box, binary, is_alive
from tests.support.waiting import scaled, wait_until

NO_DAEMON = 3

COMMANDS = [
    "status", "status --watch", "list", "tools", "resources", "prompts", "reload", "logs", "logs fake",
    "logs -f", "events", "events -f", "read fake://a", "prompt fake greet", "call fake echo text=x",
    "start fake", "stop fake", "restart fake", "restart --daemon", "up", "down", "connect",
    "connect fake",
]  # fmt: skip
"""Each that needs the daemon."""

AT_ONCE = 6

UNDER_WAY = ["events -f", "logs -f", "status --watch", "call fake hang"]
"""Those that go on until something happens."""

PATIENT = "every=600, patience=600"
WATCHFUL = "every=0.2, patience=0.3, misses=3"

HANGS = """
import signal, time
from mcpd import cli
from mcpd.daemon.upkeep import watchdog
watchdog.Watchdog.__init__.__kwdefaults__.update({times})
signal.signal(signal.SIGUSR1, lambda *_: time.sleep(600))
cli.main()
"""
"""The daemon, its watchdog more or less watchful than usual, with a way to have its loop hang."""


def up_hanging(box: Box, times: str) -> subprocess.Popen[bytes]:
    """Start a daemon whose loop hangs from SIGUSR1 on."""
    box.write()
    script = box.root / "mcpd"  # as a daemon is called
    script.write_text(HANGS.format(times=times))
    with box.log.open("ab") as log:
        box.daemon = box._start([sys.executable, str(script)], stdout=log, stderr=log)
    wait_until(box.says_hello, 20, what=box.tail)
    return box.daemon


def test_a_daemon_whose_loop_hangs_ends_and_everything_begins_anew(box: Box):
    """
    B114: it held the lock and the socket for as long as nobody killed it by hand.
    """
    box.fake("polite").fake("deaf", "--ignore-eof", "--ignore-term", "--setsid-child")
    daemon = up_hanging(box, WATCHFUL)
    pids = tree(box, "polite", "deaf")
    daemon.send_signal(signal.SIGUSR1)
    assert daemon.wait(scaled(20)) == -signal.SIGKILL
    log = box.tail(20_000)
    assert " error   loop.hung reason=" in log
    assert f'File "{box.root}/mcpd"' in log
    wait_gone(pids, 10)
    done = box.ctl("call", "polite", "echo", "text=on we go")
    assert (done.returncode, done.stdout) == (0, "on we go\n")
    assert box.ctl("down").returncode == 0


@pytest.fixture(scope="module")
def stopped() -> Iterator[Box]:
    """A daemon that ran for a while, and is stopped."""
    with installed(lambda box: box.fake()) as box:
        assert box.daemon
        with box.session() as session:
            session.text("pid")
        box.daemon.send_signal(signal.SIGSTOP)
        yield box
        box.daemon.send_signal(signal.SIGCONT)


def begin(box: Box, command: str) -> subprocess.Popen[str]:
    """Start a command of mcpctl."""
    pipe = subprocess.PIPE
    argv = [binary("mcpctl"), *command.split()]
    return subprocess.Popen(
        argv, env=box.env, cwd=box.root, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def assert_unresponsive(process: subprocess.Popen[str], pid: int) -> None:
    """Wait for the end of a command, which says who does not respond and what to type."""
    try:
        _, said = process.communicate(timeout=scaled(10))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        pytest.fail(f"{process.args} waits for a daemon that does not respond")
    assert process.returncode == NO_DAEMON, (process.args, said)
    assert f"unresponsive, pid {pid}" in said, (process.args, said)
    assert "mcpctl down --force" in said, (process.args, said)


def test_a_daemon_that_is_stopped_is_reported_by_every_command(stopped: Box):
    """
    B114: its socket takes connections, and everybody waited behind it.
    """
    assert stopped.daemon
    left = list(COMMANDS)
    while left:
        some, left = left[:AT_ONCE], left[AT_ONCE:]
        for process in [begin(stopped, command) for command in some]:
            assert_unresponsive(process, stopped.daemon.pid)
    assert stopped.daemon.poll() is None


def test_a_script_gets_the_same_as_a_document(stopped: Box):
    """
    B114: as JSON, and nothing else on stdout.
    """
    assert stopped.daemon
    watch = Watch()
    done = stopped.ctl("status", "--json")
    assert watch.seconds < scaled(5)
    error = json.loads(done.stdout)["error"]
    assert done.returncode == NO_DAEMON
    assert error["data"]["why"] == "unresponsive"
    assert error["data"]["pid"] == stopped.daemon.pid
    assert "mcpctl down --force" in error["data"]["hint"]


def test_what_is_under_way_when_the_daemon_stops_does_not_wait_for_ever(box: Box):
    """
    B114: a call, or a stream, that began before.
    """
    box.fake().up()
    assert box.daemon
    with box.session() as session:
        session.text("pid")
    waiting = [begin(box, command) for command in UNDER_WAY]
    for process in waiting[:3]:  # what they print first comes with their being in
        assert process.stdout
        assert process.stdout.read(1)
    wait_until(lambda: len(box.messages(method="tools/call")) == 2)
    box.daemon.send_signal(signal.SIGSTOP)
    for process in waiting:
        assert_unresponsive(process, box.daemon.pid)
    box.daemon.send_signal(signal.SIGCONT)
    assert box.ctl("call", "fake", "echo", "text=well").stdout == "well\n"


def test_force_ends_a_daemon_that_is_stopped_as_if_it_had_been_asked(box: Box):
    """
    B114: it is let go on, so that it can put everything in order.
    """
    box.fake("polite").fake("deaf", "--ignore-eof", stop_grace=0.2).up()
    tree(box, "polite", "deaf")
    assert box.daemon
    box.daemon.send_signal(signal.SIGSTOP)
    done = box.ctl("down", "--force")
    assert done.returncode == 0, done.stderr
    assert box.daemon.wait(scaled(5)) == 0
    assert not box.survivors()
    assert "daemon.stopped reason=SIGTERM" in box.tail()


@pytest.mark.slow
def test_force_ends_a_daemon_that_hangs_and_nothing_of_it_is_left(box: Box):
    """
    B114: it hears no signal but one, and its guardian's work is waited for.
    """
    box.fake("deaf", "--ignore-eof", "--ignore-term", "--setsid-child", stop_grace=0.5)
    daemon = up_hanging(box, PATIENT)
    tree(box, "deaf")
    daemon.send_signal(signal.SIGUSR1)
    assert_unresponsive(begin(box, "down"), daemon.pid)
    done = box.ctl("down", "--force")
    assert done.returncode == 0, done.stderr
    assert daemon.wait(scaled(5)) == -signal.SIGKILL
    assert not box.survivors()
    assert box.ctl("call", "deaf", "echo", "text=on we go").stdout == "on we go\n"
    assert box.ctl("down").returncode == 0


@pytest.mark.parametrize("in_lock", ["listener", "innocent", "1"])
def test_force_signals_no_stranger(box: Box, in_lock: str):
    """
    B115: the pid in the file, or behind the socket, is another program's by now.
    """
    box.write()
    listens = (
        "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); "
        "s.listen(); print('up', flush=True); time.sleep(60)"
    )
    argv = [sys.executable, "-c", listens, str(box.socket)]
    listener = subprocess.Popen(argv, stdout=subprocess.PIPE)
    innocent = subprocess.Popen([shutil.which("sleep") or "sleep", "60"])
    try:
        assert listener.stdout
        assert listener.stdout.readline() == b"up\n"
        named = {"listener": listener.pid, "innocent": innocent.pid}.get(in_lock, in_lock)
        box.socket.with_name(f"{box.socket.name}.lock").write_text(f"{named}\n")
        done = box.ctl("down", "--force")
        assert done.returncode == NO_DAEMON
        assert "left alone" in done.stderr
        assert is_alive(listener.pid)
        assert is_alive(innocent.pid)
    finally:
        for process in (listener, innocent):
            process.kill()
            process.communicate()


def test_a_pid_in_a_lock_that_nobody_holds_is_nobody(box: Box):
    """
    B115: without a listener there is nothing to end, whatever the file says.
    """
    box.write()
    box.socket.with_name(f"{box.socket.name}.lock").write_text(f"{os.getpid()}\n")
    done = box.ctl("down", "--force")
    assert (done.returncode, done.stdout) == (0, "no daemon runs\n")
