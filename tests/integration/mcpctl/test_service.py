"""``mcpctl service``, with stand-ins for the programs of service managers."""

from __future__ import annotations

import json
import os
import plistlib
import pwd
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Box, Json, binary
from tests.support.fakemanager import FakeManager
from tests.support.waiting import wait_until


class House:
    """A box with service managers of its own."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.fake = FakeManager(box.root / "fake")
        box.env["PATH"] = f"{self.fake.bin}:{box.env['PATH']}"
        for name in ("MCPD_CONFIG", "MCPD_SOCKET"):
            del box.env[name]
        (box.root / "run" / "mcpd").mkdir(mode=0o700)
        box.socket = box.root / "run" / "mcpd" / "mcpd.sock"
        self.units = box.root / "conf" / "systemd" / "user"
        self.agent = box.root / "home" / "Library" / "LaunchAgents" / "dev.mcpd.plist"

    def service(self, *args: str) -> subprocess.CompletedProcess[str]:
        return self.box.ctl("service", *args)

    def json(self, *args: str) -> Json:
        done = self.service(*args, "--json")
        said: Json = json.loads(done.stdout)
        return said | {"exit": done.returncode}


@pytest.fixture
def house(box: Box) -> Iterator[House]:
    made = House(box)
    try:
        yield made
    finally:
        made.fake.close()


def test_install_writes_the_units_and_starts_them(house: House):
    done = house.service("install")
    assert done.returncode == 0, done.stderr
    service, socket = house.units / "mcpd.service", house.units / "mcpd.socket"
    assert f"ExecStart={binary('mcpd')}\n" in service.read_text()
    assert "ListenStream=%t/mcpd/mcpd.sock\n" in socket.read_text()
    assert {file.stat().st_mode & 0o777 for file in (service, socket)} == {0o600}
    assert house.fake.calls()[1:] == [
        "systemctl --user daemon-reload",
        "systemctl --user enable mcpd.socket mcpd.service",
        "systemctl --user start mcpd.socket",
        "systemctl --user restart mcpd.service",
    ]
    for told in (*house.fake.calls()[1:], f"{service}: written", f"{socket}: written"):
        assert told in done.stderr
    assert f"pid {house.fake.get()['pid']}" in done.stdout
    state = house.json("status")
    assert state["exit"] == 0
    assert (state["installed"], state["enabled"], state["active"]) == (True, True, True)
    assert state["pid"] == house.fake.get()["pid"]
    assert state["text"] == "3 servers: 1 ready; 1 session"
    assert state["explanation"] == []


def test_installing_again_brings_up_to_date_what_was_not_edited(house: House):
    house.service("install", "--no-start")
    assert "unchanged" in house.service("install", "--no-start").stderr
    config = house.box.root / "config.json"
    done = house.box.ctl("--config", config, "service", "install", "--no-start")
    assert done.returncode == 0
    assert f"--config {config}\n" in (house.units / "mcpd.service").read_text()
    assert "start" not in " ".join(house.fake.calls())
    unit = house.units / "mcpd.service"
    unit.write_text(unit.read_text().replace("WatchdogSec=30", "WatchdogSec=99"))
    edited = unit.read_text()
    done = house.service("install", "--no-start")
    assert done.returncode == 6
    assert f"{unit} was edited" in done.stderr
    assert unit.read_text() == edited
    assert house.service("uninstall").returncode == 6
    assert house.service("install", "--no-start", "--force").returncode == 0
    assert "WatchdogSec=30" in unit.read_text()


def test_a_unit_of_somebody_elses_is_left_alone(house: House):
    """
    A package's, or one that was written by hand.
    """
    house.units.mkdir(parents=True)
    unit = house.units / "mcpd.service"
    unit.write_text("[Service]\nExecStart=/mine\n")
    done = house.service("install")
    assert done.returncode == 6
    assert f"{unit} is not ours" in done.stderr
    assert not (house.units / "mcpd.socket").exists()
    assert house.service("uninstall").returncode == 0
    assert unit.exists()
    assert house.fake.calls()[2:] == []


@pytest.mark.parametrize("what", ["file", "directory"])
def test_nothing_is_written_through_a_link(house: House, what: str):
    elsewhere = house.box.root / "elsewhere"
    if what == "file":
        house.units.mkdir(parents=True)
        elsewhere.write_text("mine")
        (house.units / "mcpd.socket").symlink_to(elsewhere)
    else:
        elsewhere.mkdir()
        house.units.parent.mkdir()
        house.units.symlink_to(elsewhere)
    done = house.service("install")
    assert done.returncode == 6
    assert f"is a link (to {elsewhere})" in done.stderr
    assert elsewhere.read_text() == "mine" if what == "file" else not os.listdir(elsewhere)


def test_uninstall_takes_away_what_install_wrote_and_nothing_else(house: House):
    house.service("install")
    other = house.units / "other.service"
    other.write_text("mine")
    pid = house.fake.get()["pid"]
    done = house.json("uninstall")
    assert [Path(path).name for path in done["removed"]] == ["mcpd.socket", "mcpd.service"]
    assert os.listdir(house.units) == ["other.service"]
    assert "systemctl --user disable --now mcpd.socket mcpd.service" in house.fake.calls()
    wait_until(lambda: not Path(f"/proc/{pid}/exe").exists())
    assert house.service("uninstall").stdout == "nothing was installed\n"
    assert house.json("status")["exit"] == 3


@pytest.mark.parametrize("command", ["install", "status", "uninstall", "restart", "logs"])
def test_without_a_manager_it_says_what_to_do_instead(house: House, command: str):
    house.fake.set(no_bus=True)
    house.box.env.pop("USER", None)
    done = house.service(command)
    assert done.returncode == 3
    assert "no manager for this user here: Failed to connect to bus" in done.stderr
    user = pwd.getpwuid(os.geteuid()).pw_name
    assert f"log in as {user} (" in done.stderr
    assert f"loginctl enable-linger {user};" in done.stderr
    assert "mcpctl up" in done.stderr
    house.box.env["PATH"] = "/nowhere"
    done = house.service(command)
    assert done.returncode == 3
    missing = "cannot run journalctl" if command == "logs" else "there is no systemctl here"
    assert missing in done.stderr
    assert not house.units.exists()


def test_print_shows_what_would_be_installed_even_without_a_manager(house: House):
    house.box.env["PATH"] = "/nowhere"
    done = house.service("install", "--print")
    assert done.returncode == 0
    assert "KillMode=mixed" in done.stdout
    assert f"# {house.units}/mcpd.socket" in done.stdout
    files = house.json("install", "--print", "--manager", "launchd")["files"]
    assert [file["path"] for file in files] == [str(house.agent)]
    assert not house.units.exists()
    assert not house.agent.exists()


def test_a_daemon_outside_of_the_service_is_named(house: House):
    """
    Two cannot be, and the service would end with 75.
    """
    house.box.up()
    assert house.box.daemon
    pid = house.box.daemon.pid
    done = house.service("install")
    assert done.returncode == 3
    assert f"outside of the service (pid {pid}): mcpctl down" in done.stderr
    assert not house.units.exists()
    assert house.service("install", "--no-start").returncode == 0
    state = house.json("status")
    assert (state["exit"], state["pid"]) == (3, None)
    assert f"pid {pid}" in state["explanation"][0]
    assert house.service("restart").returncode == 3
    house.fake.set(run=[binary("mcpd")])
    assert house.box.ctl("down").returncode == 0
    assert house.service("restart").returncode == 0
    assert house.json("status")["pid"] == house.fake.get()["pid"]


@pytest.mark.parametrize(
    ("status", "result", "words"),
    [
        (78, "exit-code", "mcpctl service logs"),
        (75, "exit-code", "another daemon runs already"),
        (73, "exit-code", "cannot be used"),
        (2, "exit-code", "install --force"),
        (70, "exit-code", "bug of ours"),
        (None, "watchdog", "no sign of life"),
        (None, "start-limit-hit", "failed too often"),
        (None, "oom-kill", "memory ran out"),
    ],
)
def test_status_explains_why_it_does_not_run(
    house: House, status: int | None, result: str, words: str
):
    """B152."""
    house.service("install", "--no-start")
    house.fake.set(end="failed", result=result, **({} if status is None else {"status": status}))
    state = house.json("status")
    assert state["exit"] == 3
    assert state["last_exit"] == status
    assert words in " ".join(state["explanation"])
    assert words in house.service("status").stdout


def test_what_was_not_started_says_how(house: House):
    house.service("install", "--no-start")
    for manager in ("systemd", "launchd"):
        house.service("install", "--no-start", "--manager", manager)
        state = house.json("status", "--manager", manager)
        assert state["exit"] == 3
        (said,) = state["explanation"]
        assert said.endswith("mcpctl service restart")
    house.fake.set(end="activating")
    assert house.json("status")["explanation"] == []


def test_a_restart_that_is_to_start_nothing_needs_one_that_runs(house: House):
    house.service("install", "--no-start")
    done = house.json("restart", "--no-start")
    assert (done["exit"], done["error"]["data"]["why"]) == (3, "not_running")
    assert house.fake.get().get("pid") is None
    house.service("restart")
    assert house.service("restart", "--no-start").returncode == 0
    told = house.service("install", "--help").stdout
    assert "end with 3" not in told
    assert "next login" in told


def test_what_waits_for_its_first_client_says_so(house: House):
    house.service("install", "--no-start")
    house.fake.set(socket="active")
    assert "first client that connects" in " ".join(house.json("status")["explanation"])


def test_a_start_that_fails_is_told_with_its_reason(house: House):
    house.fake.set(fail="restart")
    done = house.json("install")
    assert done["exit"] == 3
    assert "Job for mcpd.service failed" in done["error"]["message"]
    assert done["error"]["data"]["hint"] == "mcpctl service status explains"


def test_logs_are_the_journals(house: House):
    house.fake.set(journal=["one", [0xFF, 0x62], "\x1b[31mred", None])
    done = house.service("logs", "-n", "7")
    assert done.returncode == 0
    assert done.stdout == "one\n�b\n\x1b[31mred\n\n"
    call = house.fake.calls()[-1]
    assert call.startswith("journalctl --user --unit=mcpd.service --lines=7 ")
    assert [line["text"] for line in house.json("logs")["lines"]][:2] == ["one", "�b"]


def test_what_a_manager_that_is_gone_has_kept_is_printed(house: House):
    house.fake.set(no_bus=True, journal=["one"])
    assert house.service("logs").stdout == "one\n"
    done = house.service("logs", "-f")
    assert done.returncode == 3
    assert "no manager for this user here" in done.stderr


def test_logs_go_on_as_long_as_one_reads(house: House):
    house.fake.set(journal=["one"])
    argv = [binary("mcpctl"), "service", "logs", "-f", "--json"]
    process = house.box._start(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout
    with process.stdout:
        assert json.loads(process.stdout.readline()) == {"text": "one"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143


# -- launchd -------------------------------------------------------------------------------------


def test_the_agent_is_written_and_loaded(house: House):
    done = house.service("install", "--manager", "launchd")
    assert done.returncode == 0, done.stderr
    agent = plistlib.loads(house.agent.read_bytes())
    assert agent["ProgramArguments"] == [binary("mcpd")]
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["StandardErrorPath"] == str(house.box.state / "mcpd.log")
    domain = f"gui/{os.geteuid()}"
    assert house.fake.calls() == [f"launchctl bootstrap {domain} {house.agent}"]
    assert house.json("status", "--manager", "launchd")["pid"] == house.fake.get()["pid"]
    assert "unchanged" in house.service("install", "--no-start", "--manager", "launchd").stderr
    assert house.service("uninstall", "--manager", "launchd").returncode == 0
    assert not house.agent.exists()
    assert house.fake.calls()[-1] == f"launchctl bootout {domain}/dev.mcpd"


def test_a_restart_waits_for_the_old_job_and_has_the_new_one_run(house: House):
    """B153: bootstrap fails with 5 while the old job goes, and what is loaded need not run."""
    house.service("install", "--manager", "launchd")
    for _ in range(3):
        old = house.fake.get()["pid"]
        house.fake.set(busy=2, lazy=True)
        done = house.service("restart", "--manager", "launchd")
        assert done.returncode == 0, done.stderr
        new = house.fake.get()["pid"]
        assert new != old
        assert f"pid {new}" in done.stdout
        assert done.stderr.count("bootstrap") == 3
        assert "kickstart" in done.stderr


def test_a_job_that_is_left_unloaded_is_told(house: House):
    """B153."""
    house.service("install", "--manager", "launchd")
    house.fake.set(broken=True)
    done = house.service("restart", "--manager", "launchd")
    assert done.returncode == 3
    assert "Could not find specified service" in done.stderr


def test_a_daemon_that_gave_up_says_why(house: House):
    """B152: its last status is 0 then, and the real one is in the state directory."""
    house.service("install", "--manager", "launchd", "--no-start")
    house.fake.set(loaded=True, last=0)
    (house.box.state / "service.failures").write_text("1 78\n" * 5)
    state = house.json("status", "--manager", "launchd")
    assert state["exit"] == 3
    assert state["last_exit"] == 78
    assert "failed 5 times in a row" in state["explanation"][0]
    assert "mcpctl service logs" in state["explanation"][1]


def test_the_agents_log_is_the_daemons_file(house: House):
    (house.box.state / "mcpd.log").write_text("one\ntwo\n")
    done = house.service("logs", "-n", "1", "--manager", "launchd")
    assert done.stdout == "two\n"
