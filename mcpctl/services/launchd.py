"""launchd's agents of this user. Tried with a stand-in for ``launchctl`` only, not on macOS yet."""

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
PAUSE_S = 0.25
"""Between two tries: after ``bootout`` the old job goes when it has ended, and not before."""

BUSY = (5, 37)
"""How ``bootstrap`` ends while the old job is on its way out: I/O error, already in progress."""


class Launchd:
    """``launchctl`` in the domain of this user's login."""

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
        """See that there is launchd."""
        if shutil.which("launchctl") is None:
            raise DaemonUnavailable("there is no launchctl here", hint=UP, why="no_manager")

    def start(self, *, now: bool) -> None:
        """Have the agent loaded; without ``now`` that is done at the next login."""
        if now:
            self.restart()

    def stop(self) -> None:
        """Have the agent unloaded."""
        if self._print() is None:
            return
        done = self._run.do("launchctl", "bootout", self._job)
        if not self._wait_unloaded():
            raise failed(done)

    def forget(self) -> None:
        """Nothing else keeps it."""

    def restart(self) -> None:
        """Unload what is loaded, wait until it has gone, load, and see that it runs.

        ``bootstrap`` fails while the old job is on its way out, and a job that was loaded need
        not run: so it is tried again, and started by hand. Raises ``DaemonUnavailable`` when it is
        left unloaded.
        """
        self.stop()
        for _ in range(TRIES):
            done = self._run.do("launchctl", "bootstrap", self._domain, self.files()[0].path)
            if done.status == 0 or self._print() is not None:
                break
            if done.status not in BUSY:
                raise failed(done)
            time.sleep(PAUSE_S)
        if self._print() is None:
            raise failed(done)
        for _ in range(TRIES):
            if self.look()["active"]:
                return
            self._run.do("launchctl", "kickstart", self._job)
            time.sleep(PAUSE_S)
        raise DaemonUnavailable(
            "the agent is loaded and does not run",
            hint="mcpctl service status explains",
            why="service_failed",
        )

    def look(self) -> ServiceState:
        """Ask for the job."""
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
        """Return how the daemon's log file is read; it may be rotated meanwhile."""
        return ["tail", "-n", str(lines), *(["-F"] if follow else []), self._log]

    def log_text(self, line: str) -> str:
        """Return the line."""
        return line

    def _print(self) -> str | None:
        """Return what launchd tells of the job, ``None`` where it does not know it."""
        done = self._run.ask("launchctl", "print", self._job)
        return None if done.status else done.out

    def _wait_unloaded(self) -> bool:
        for _ in range(TRIES * 8):
            if self._print() is None:
                return True
            time.sleep(PAUSE_S)
        return False


def _value(text: str, name: str) -> str | None:
    """Return the value of the first ``name = value``, which is the job's own."""
    found = re.search(rf"^\s*{re.escape(name)} = (.*)$", text, re.MULTILINE)
    return None if found is None else found[1].strip()
