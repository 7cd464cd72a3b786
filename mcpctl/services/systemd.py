"""The systemd manager of this user."""

from __future__ import annotations

import json
import os
import pwd
import shutil

from mcpctl.services.files import File, signed
from mcpctl.services.manager import (
    UP,
    Runner,
    ServiceState,
    explain_exit,
    failed,
    file_states,
)
from mcpd import paths
from mcpd.errors import DaemonUnavailable
from mcpd.service import units
from mcpd.service.units import SERVICE, SOCKET, Setup

PROPERTIES = (
    "LoadState", "ActiveState", "SubState", "UnitFileState", "MainPID", "ExecMainCode",
    "ExecMainStatus", "ExecMainStartTimestampMonotonic", "Result", "StatusText", "NRestarts",
    "ActiveEnterTimestamp", "NeedDaemonReload",
)  # fmt: skip

CLD_EXITED = "1"
"""``ExecMainCode`` of a process that exited, as opposed to one that a signal ended."""

RESULTS = {
    "watchdog": "it gave no sign of life and was ended; mcpctl service logs has what it did before",
    "start-limit-hit": "it failed too often in a row: see mcpctl service logs, then "
    "mcpctl service restart",
    "timeout": "it took too long to start or to end: see mcpctl service logs",
    "oom-kill": "the kernel ended it because memory ran out",
}


def _user() -> str:
    """Return the name of this user, or the uid if there is no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


class Systemd:
    """``systemctl --user``."""

    name = "systemd"

    def __init__(self, setup: Setup, runner: Runner) -> None:
        self._setup = setup
        self._run = runner

    def files(self) -> list[File]:
        """Return the socket and the service unit."""
        base = os.environ.get("XDG_CONFIG_HOME", "")
        home = base if base.startswith("/") else f"{paths.home()}/.config"
        folder = f"{os.path.abspath(home)}/systemd/user"
        return [
            File(f"{folder}/{SOCKET}", signed(units.socket(self._setup))),
            File(f"{folder}/{SERVICE}", signed(units.service(self._setup))),
        ]

    def check(self) -> None:
        """Raise ``DaemonUnavailable`` if systemd has no manager for this user."""
        if shutil.which("systemctl") is None:
            raise DaemonUnavailable(
                "there is no systemctl here, so nothing can run a service",
                hint=UP,
                why="no_manager",
            )
        done = self._run.query("systemctl", "--user", "show-environment")
        if done.status:
            user = _user()
            raise DaemonUnavailable(
                f"systemd has no manager for this user here: {done.complaint or done.status}",
                hint=f"log in as {user} (not by su or sudo), or once: loginctl enable-linger "
                f"{user}; {UP}",
                why="no_manager",
            )

    def start(self, *, now: bool) -> None:
        """Enable both units, and start them."""
        self._run.run_checked("systemctl", "--user", "daemon-reload")
        self._run.run_checked("systemctl", "--user", "enable", SOCKET, SERVICE)
        if now:
            self._start_again()

    def stop(self) -> None:
        """Disable and stop both units, the socket first: a client would start the daemon again."""
        done = self._run.run("systemctl", "--user", "disable", "--now", SOCKET, SERVICE)
        if done.status and self.state()["active"]:
            raise failed(done)

    def forget(self) -> None:
        """Reload the units, and clear their failures."""
        self._run.run("systemctl", "--user", "daemon-reload")
        self._run.query("systemctl", "--user", "reset-failed", SOCKET, SERVICE)

    def restart(self) -> None:
        """Start both units again, even after too many failures."""
        if self._show(SERVICE).get("NeedDaemonReload") == "yes":
            self._run.run_checked("systemctl", "--user", "daemon-reload")
        self._start_again()

    def _start_again(self) -> None:
        self._run.query("systemctl", "--user", "reset-failed", SOCKET, SERVICE)
        self._run.run_checked("systemctl", "--user", "start", SOCKET)
        self._run.run_checked("systemctl", "--user", "restart", SERVICE)

    def state(self) -> ServiceState:
        """Return the state of both units."""
        service, socket = self._show(SERVICE), self._show(SOCKET)
        files = file_states(self.files())
        is_active = service.get("ActiveState") in ("active", "reloading")
        pid = int(service.get("MainPID") or 0) or None
        ended = service.get("ExecMainCode") == CLD_EXITED
        status = int(service.get("ExecMainStatus") or 0) if ended and pid is None else None
        return {
            "manager": self.name,
            "installed": all(file["state"] not in ("absent", "foreign") for file in files),
            "files": files,
            "enabled": service.get("UnitFileState") == "enabled",
            "active": is_active,
            "state": f"{service.get('ActiveState', 'unknown')} ({service.get('SubState', '')})",
            "pid": pid,
            "since": (service.get("ActiveEnterTimestamp") or None) if is_active else None,
            "restarts": int(service.get("NRestarts") or 0),
            "last_exit": status,
            "text": (service.get("StatusText") or None) if pid else None,
            "explanation": self._explain(service, socket, status, is_active=is_active),
        }

    def _explain(
        self,
        service: dict[str, str],
        socket: dict[str, str],
        status: int | None,
        *,
        is_active: bool,
    ) -> list[str]:
        said = []
        if not is_active:
            said += explain_exit(status)
            known = RESULTS.get(service.get("Result", ""))
            if known and not said:
                said.append(known)
            if socket.get("ActiveState") == "active" and not said:
                said.append("it is started by the first client that connects")
            elif socket.get("ActiveState") == "failed":
                said.append("its socket has failed, too, so no client starts it")
        elif socket.get("ActiveState") != "active" and socket.get("LoadState") == "loaded":
            said.append(f"{SOCKET} does not listen: mcpctl service restart")
        if service.get("NeedDaemonReload") == "yes":
            said.append("its unit was changed since it was read: mcpctl service restart")
        return said

    def _show(self, unit: str) -> dict[str, str]:
        wanted = f"--property={','.join(PROPERTIES)}"
        done = self._run.query("systemctl", "--user", "show", unit, wanted)
        lines = (line.partition("=") for line in done.out.splitlines())
        return {name: value for name, _, value in lines}

    def log_command(self, lines: int, *, follow: bool) -> list[str]:
        """Return the command that reads the journal."""
        argv = ["journalctl", "--user", f"--unit={SERVICE}", f"--lines={lines}", "--output=json"]
        return [*argv, "--quiet", "--follow"] if follow else [*argv, "--quiet", "--no-pager"]

    def log_text(self, line: str) -> str:
        """Return the message; the journal gives bytes that are not UTF-8 as a list of numbers."""
        try:
            message = json.loads(line).get("MESSAGE")
        except ValueError:
            return line
        if isinstance(message, list):
            return bytes(message).decode(errors="replace")
        return str(message or "")
