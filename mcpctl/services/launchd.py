"""The launchd agent of this user. Tested with a fake ``launchctl``, not on macOS yet."""

from __future__ import annotations

import os
import re
import shutil
import time

from mcpctl.services.files import File, signed
from mcpctl.services.manager import UP, Runner, ServiceState, explain_exit, failed, file_states
from mcpd import paths
from mcpd.errors import DaemonUnavailable
from mcpd.service import giveup, units
from mcpd.service.units import AGENT, LABEL, Setup

TRIES = 20
RETRY_S = 0.25
"""Between two attempts: after ``bootout``, the old job stays until its process has ended."""

BUSY = (5, 37)
"""Statuses of ``bootstrap`` while the old job is ending: I/O error, already in progress."""


class Launchd:
    """``launchctl`` in the domain of this user's login session."""

    name = "launchd"

    def __init__(self, setup: Setup, runner: Runner, log: str) -> None:
        self._setup = setup
        self._run = runner
        self._log = log
        self._domain = f"gui/{os.geteuid()}"
        self._job = f"{self._domain}/{LABEL}"

    def files(self) -> list[File]:
        """Return the agent."""
        text = units.agent(self._setup, log=self._log)
        path = f"{paths.home()}/Library/LaunchAgents/{AGENT}"
        return [File(path, signed(text, line="<!-- {} -->", after=2))]

    def check(self) -> None:
        """Raise ``DaemonUnavailable`` if there is no ``launchctl``."""
        if shutil.which("launchctl") is None:
            raise DaemonUnavailable("there is no launchctl here", hint=UP, why="no_manager")

    def start(self, *, now: bool) -> None:
        """Load the agent ``now``; otherwise launchd does at the next login."""
        if now:
            self.restart()

    def stop(self) -> None:
        """Unload the agent."""
        if self._print() is None:
            return
        done = self._run.run("launchctl", "bootout", self._job)
        if not self._wait_unloaded():
            raise failed(done)

    def forget(self) -> None:
        """Do nothing: launchd keeps no record of removed files."""

    def restart(self) -> None:
        """Unload the old job, wait until it has ended, load the agent, and check that it runs.

        ``bootstrap`` fails while the old job is ending, so it is repeated; a loaded job need not
        run, so it is started explicitly. Raises ``DaemonUnavailable`` if it does not run.
        """
        self.stop()
        for _ in range(TRIES):
            done = self._run.run("launchctl", "bootstrap", self._domain, self.files()[0].path)
            if done.status == 0 or self._print() is not None:
                break
            if done.status not in BUSY:
                raise failed(done)
            time.sleep(RETRY_S)
        if self._print() is None:
            raise failed(done)
        for _ in range(TRIES):
            if self.state()["active"]:
                return
            self._run.run("launchctl", "kickstart", self._job)
            time.sleep(RETRY_S)
        raise DaemonUnavailable(
            "the agent is loaded and does not run",
            hint="mcpctl service status explains",
            why="service_failed",
        )

    def state(self) -> ServiceState:
        """Return the state of the job."""
        told = self._print()
        files = file_states(self.files())
        found = told or ""
        state = _value(found, "state") or ("not loaded" if told is None else "unknown")
        pid = _value(found, "pid")
        code = re.match(r"-?\d+", _value(found, "last exit code") or "")
        last = None if code is None else int(code[0])
        is_active = state == "running" and pid is not None
        said = []
        if not is_active and told is not None:
            counted = giveup.failures(paths.state_dir())
            if last == 0 and len(counted) >= giveup.MOST:
                said.append(f"it failed {len(counted)} times in a row and was not started again")
                last = counted[-1][1]
            said += explain_exit(last)
        return {
            "manager": self.name,
            "installed": files[0]["state"] not in ("absent", "foreign"),
            "files": files,
            "enabled": files[0]["state"] != "absent",
            "active": is_active,
            "state": state,
            "pid": int(pid) if is_active and pid and pid.isdecimal() else None,
            "since": None,
            "restarts": None,
            "last_exit": None if is_active else last,
            "text": None,
            "explanation": said,
        }

    def log_command(self, lines: int, *, follow: bool) -> list[str]:
        """Return the command that reads the daemon's log file, across rotations."""
        return ["tail", "-n", str(lines), *(["-F"] if follow else []), self._log]

    def log_text(self, line: str) -> str:
        """Return the line."""
        return line

    def _print(self) -> str | None:
        """Return launchd's description of the job, ``None`` if it is not loaded."""
        done = self._run.query("launchctl", "print", self._job)
        return None if done.status else done.out

    def _wait_unloaded(self) -> bool:
        for _ in range(TRIES * 8):
            if self._print() is None:
                return True
            time.sleep(RETRY_S)
        return False


def _value(text: str, name: str) -> str | None:
    """Return the value of the first ``name = value``, which belongs to the job itself."""
    found = re.search(rf"^\s*{re.escape(name)} = (.*)$", text, re.MULTILINE)
    return None if found is None else found[1].strip()
