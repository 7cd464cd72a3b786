"""From the first instruction to the last: one daemon, wholly there or not at all."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.daemon import Box, Peer, RpcError, binary, is_alive
from tests.support.waiting import scaled, wait_until


def environment_of(pid: int) -> dict[str, str]:
    pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(pair.decode().partition("=")[::2] for pair in pairs if pair)


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("wait_ms", [0, 10, 20, 30, 50, 80, 120, 200])
def test_a_signal_at_any_moment_of_the_start_leaves_no_half_daemon(
    box: Box, signum: signal.Signals, wait_ms: int
) -> None:
    """
    B123: a lock without a socket, or a socket without a daemon, would be in everybody's way.
    """
    box.up(wait=False)
    assert box.daemon
    time.sleep(wait_ms / 1000)
    box.daemon.send_signal(signum)
    if signum == signal.SIGHUP:
        with contextlib.suppress(AssertionError):
            wait_until(box.says_hello, 10)
            box.down()
    code = box.daemon.wait(scaled(10))
    assert code in (0, -signum), box.tail()
    assert not box.socket.exists()
    assert box.survivors() == {}
    box.up()


def test_the_tag_of_a_server_that_it_is_started_from_is_left_behind(box: Box) -> None:
    """
    Else ``mcpctl stop`` of that server would end this daemon with it.
    """
    box.env["MCPD_INSTANCE"] = "other:server:1"
    box.fake().up()
    assert box.daemon
    assert "MCPD_INSTANCE" not in environment_of(box.daemon.pid)
    tag = environment_of(int(box.session().text("pid")))["MCPD_INSTANCE"]
    assert tag
    assert not tag.startswith("other:")


def test_a_server_has_the_signals_limits_and_umask_of_whoever_started_the_daemon(box: Box) -> None:
    """
    ``nohup``, and raised limits, are for the daemon.
    """
    script = (
        "import os, resource, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN);"
        "signal.signal(signal.SIGUSR1, signal.SIG_IGN); os.umask(0o027);"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (min(777, hard), hard));"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    box.fake().write()
    with box.log.open("ab") as log:
        box.daemon = box._start(
            [sys.executable, "-c", script, binary("mcpd")], stdout=log, stderr=log
        )
    wait_until(box.says_hello, 20)
    pid = int(box.session().text("pid"))
    found = status_of(pid)
    ignored = int(found["SigIgn"], 16)
    assert not ignored & 1 << (signal.SIGHUP - 1)
    assert not ignored & 1 << (signal.SIGUSR1 - 1)
    assert int(found["SigBlk"], 16) == 0
    assert int(found["Umask"], 8) == 0o027
    assert int(status_of(box.daemon.pid)["Umask"], 8) == 0o077
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    soft = next(line.split()[3] for line in limits if line.startswith("Max open files"))
    assert soft == "777"
    descriptors = sorted(int(fd) for fd in os.listdir(f"/proc/{pid}/fd"))
    assert descriptors[:3] == [0, 1, 2]


def test_relative_paths_are_those_of_whoever_typed_them(box: Box) -> None:
    box.fake().write()
    del box.env["MCPD_CONFIG"], box.env["MCPD_SOCKET"]
    with box.log.open("ab") as log:
        argv = [binary("mcpd"), "--config=config.json", "--socket", "run/mcpd.sock"]
        box.daemon = box._start(argv, cwd=box.root, stdout=log, stderr=log)
    wait_until(box.says_hello, 20)
    assert os.readlink(f"/proc/{box.daemon.pid}/cwd") == "/"
    assert box.session().text("echo", text="x") == "x"


def run_mcpd(box: Box, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [binary("mcpd"), *args],
        env=box.env,
        capture_output=True,
        text=True,
        timeout=scaled(20),
        check=False,
    )


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--nope"], "--nope"),
        (["--config"], "needs a value"),
        (["--log-level", "loud"], "warning"),
        (["--check=1"], "no value"),
    ],
)
def test_a_command_line_that_means_nothing_ends_with_2(
    box: Box, args: list[str], says: str
) -> None:
    done = run_mcpd(box, *args)
    assert done.returncode == 2
    assert says in done.stderr
    assert not box.socket.exists()


def test_help_and_version_are_told(box: Box) -> None:
    assert "--config FILE" in run_mcpd(box, "--help").stdout
    assert run_mcpd(box, "--version").stdout.startswith("mcpd ")


def test_a_configuration_that_is_none_ends_with_78(box: Box) -> None:
    """
    B152: whoever restarts daemons can tell that it is not worth it.
    """
    box.config.write_text("{ nonsense")
    done = run_mcpd(box)
    assert done.returncode == 78
    assert "line 1" in done.stderr
    assert f'hint="mcpd --config {box.config} --check"' in done.stderr
    assert not box.socket.exists()


def test_a_second_one_ends_with_75_and_names_the_first(box: Box) -> None:
    """
    B112.
    """
    box.up()
    assert box.daemon
    done = run_mcpd(box)
    assert done.returncode == 75
    assert str(box.daemon.pid) in done.stderr
    assert box.says_hello()


def test_a_state_directory_that_cannot_be_used_is_told(box: Box) -> None:
    """
    B121: errno and path, at once.
    """
    blocked = box.root / "blocked"
    blocked.write_text("a file")
    box.env["MCPD_STATE_DIR"] = str(blocked / "state")
    done = run_mcpd(box)
    assert done.returncode == 73
    assert str(blocked) in done.stderr
    assert "Traceback" not in done.stderr
    assert not box.socket.exists()


def test_the_last_line_says_why_how_long_and_what_was_stopped(box: Box) -> None:
    box.fake("a").fake("b").fake("c").up()
    box.session("a").text("pid")
    box.session("b").text("pid")
    assert box.down() == 0
    last = box.tail().splitlines()[-1]
    assert "daemon.stopped reason=SIGTERM uptime_s=" in last
    assert last.endswith("servers_stopped=2")
    assert not box.socket.exists()
    assert box.survivors() == {}


def test_stopping_nothing_takes_no_time(box: Box) -> None:
    """
    B056.
    """
    box.up()
    began = time.monotonic()
    assert box.down() == 0
    assert time.monotonic() - began < scaled(1)


def test_calls_in_flight_are_let_finish(box: Box) -> None:
    box.fake().up()
    session = box.session()
    call = session.start("tools/call", {"name": "sleep", "arguments": {"ms": 700}})
    wait_until(lambda: box.messages(method="tools/call"))
    assert box.daemon
    box.daemon.send_signal(signal.SIGTERM)
    assert session.finish(call)["content"][0]["text"] == "slept 700"
    assert box.daemon.wait(scaled(10)) == 0


def test_calls_that_do_not_finish_are_told_so(box: Box) -> None:
    box.settings["drain_timeout"] = 0.2
    box.fake().up()
    session = box.session()
    call = session.start("tools/call", {"name": "hang", "arguments": {}})
    wait_until(lambda: box.messages(method="tools/call"))
    assert box.daemon
    box.daemon.send_signal(signal.SIGTERM)
    with pytest.raises(RpcError) as error:
        session.finish(call)
    assert error.value.kind == "draining"
    assert box.daemon.wait(scaled(10)) == 0


def test_a_second_signal_hurries(box: Box) -> None:
    box.settings["drain_timeout"] = 60
    box.fake("fake", "--ignore-eof", "--ignore-term", stop_grace=60).up()
    session = box.session()
    session.start("tools/call", {"name": "hang", "arguments": {}})
    wait_until(lambda: box.messages(method="tools/call"))
    assert box.daemon
    box.daemon.send_signal(signal.SIGTERM)
    wait_until(lambda: "daemon.draining" in box.tail())
    box.daemon.send_signal(signal.SIGTERM)
    assert box.daemon.wait(scaled(10)) == 0
    assert box.survivors() == {}


def test_shutting_down_over_the_socket_is_answered(box: Box) -> None:
    box.fake().up()
    assert box.peer().request("mcpd/shutdown", {"drain": 0}) == {}
    assert box.daemon
    assert box.daemon.wait(scaled(10)) == 0
    assert "asked by mcpd/shutdown" in box.tail()


def test_a_guardian_that_was_killed_is_replaced(box: Box) -> None:
    box.fake().up()
    box.session().text("pid")
    assert box.daemon

    def guardian() -> int | None:
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{name}/cmdline").read_bytes()
                is_ours = f"{box.state}/ledger".encode() in line
                if is_ours and b"guardian.py" in line and is_alive(int(name)):
                    return int(name)
        return None

    first = wait_until(guardian)
    os.kill(first, signal.SIGKILL)
    second = wait_until(lambda: (pid := guardian()) != first and pid)
    assert second
    assert "guardian.trouble" in box.tail()


def test_what_a_killed_daemon_left_is_counted_by_the_next(box: Box) -> None:
    """
    B004: with the guardian gone as well, the ledger is what finds them.
    """
    box.fake().up()
    pid = int(box.session().text("pid"))
    assert box.daemon
    children = Path(f"/proc/{box.daemon.pid}/task/{box.daemon.pid}/children").read_text().split()
    os.kill(box.daemon.pid, signal.SIGSTOP)
    for child in map(int, children):
        if child != pid:
            os.kill(child, signal.SIGKILL)
    box.daemon.kill()
    box.daemon.wait()
    box.up()
    wait_until(lambda: not is_alive(pid), 10)
    wait_until(lambda: "ledger.swept" in box.tail())
    assert box.session().text("echo", text="next") == "next"


def test_idle_means_asleep(box: Box) -> None:
    box.fake().up()
    box.session().text("pid")
    assert box.daemon
    tasks = Path(f"/proc/{box.daemon.pid}/task")

    def switches() -> int:
        found = (status_of(int(task.name)) for task in tasks.iterdir())
        return sum(int(each["voluntary_ctxt_switches"]) for each in found)

    def stays(count: int) -> bool:
        time.sleep(0.3)  # nothing can be waited for: nothing is what is to happen
        return switches() == count

    wait_until(lambda: stays(switches()), 10)
    before = switches()
    time.sleep(2)
    assert switches() - before <= 1


def test_many_clients_that_come_while_it_starts_are_all_served(box: Box) -> None:
    """
    It listens before it has read anything.
    """
    box.fake().up(wait=False)

    def dial() -> Peer | None:
        with contextlib.suppress(OSError):
            return box.peer()
        return None

    peers = [wait_until(dial) for _ in range(40)]
    asked = [peer.start("mcpd/hello") for peer in peers]
    assert all(peer.finish(ident)["api"] == 1 for peer, ident in zip(peers, asked, strict=True))


def test_a_daemon_whose_standard_descriptors_were_closed_has_no_log_in_its_sockets(box: Box):
    """
    As `mcpd 2>&-` starts it: the loop's own descriptor was the log, and the end was an abort.
    """
    box.up(through=["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh"])
    assert box.daemon is not None
    pid = box.daemon.pid
    assert {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in range(3)} == {os.devnull}
    assert box.down() == 0


def test_nothing_is_written_behind_a_link_that_took_the_place_of_the_state(box: Box) -> None:
    """
    The directory of the state is looked at whenever something is made there, and ``status`` says
    what cannot be written.
    """
    box.fake().up()
    elsewhere = box.root / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o777)
    box.state.rename(box.root / "state.kept")
    box.state.symlink_to(elsewhere)
    assert box.session().text("echo", text="still served") == "still served"
    with box.peer() as peer:
        peer.request("mcpd/restart", {"servers": ["fake"]}, 20)
        problems = wait_until(lambda: peer.request("mcpd/status")["daemon"]["problems"])
    assert any("record of processes" in problem for problem in problems)
    assert "record of processes" in box.ctl("status").stderr
    assert list(elsewhere.iterdir()) == []
    assert "ledger.trouble" in box.tail()
    box.state.unlink()
    (box.root / "state.kept").rename(box.state)
    with box.peer() as peer:
        peer.request("mcpd/restart", {"servers": ["fake"]}, 20)
        assert not any(
            "record" in each for each in peer.request("mcpd/status")["daemon"]["problems"]
        )
