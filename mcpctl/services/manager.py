"""What all service managers have in common, for the command that talks to them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypedDict

from mcpctl.services.files import File
from mcpd.errors import DaemonUnavailable

PATIENCE_S = 150.0
"""For a manager's command: a stop waits for the daemon, which waits for its servers."""


class Done(NamedTuple):
    """A command that has ended."""

    argv: list[str]
    status: int
    out: str
    complaint: str


class ServiceState(TypedDict):
    """What ``mcpctl service status --json`` prints."""

    manager: str
    installed: bool
    files: list[dict[str, str]]
    enabled: bool
    active: bool
    state: str
    pid: int | None
    since: str | None
    restarts: int | None
    last_exit: int | None
    text: str | None
    explanation: list[str]


class Manager(Protocol):
    """systemd of this user, or launchd."""

    name: str

    def files(self) -> list[File]:
        """Return what is to be installed."""

    def check(self) -> None:
        """Raise ``DaemonUnavailable`` with what to type where there is no such manager."""

    def start(self, *, now: bool) -> None:
        """Have it know the files, start the daemon at each login, and ``now``."""

    def stop(self) -> None:
        """End the daemon, and start it no more; the files are still there."""

    def forget(self) -> None:
        """Have it know that the files are gone."""

    def restart(self) -> None:
        """Start the daemon anew, whatever became of the last one; return when it runs."""

    def look(self) -> ServiceState:
        """Return how things are."""

    def log_command(self, lines: int, *, follow: bool) -> list[str]:
        """Return what prints the log."""

    def log_text(self, line: str) -> str:
        """Return the text of one line that this prints."""


class Runner:
    """Runs a manager's commands, and tells each one that changes something."""

    def __init__(self, tell: Callable[[str], None], env: Mapping[str, str] | None = None) -> None:
        self.ran: list[list[str]] = []
        self._tell = tell
        self._env = dict(os.environ if env is None else env)

    def ask(self, *argv: str) -> Done:
        """Run what only looks. Raises ``DaemonUnavailable`` if it cannot be run, or hangs."""
        try:
            done = subprocess.run(
                argv,
                env=self._env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=PATIENCE_S,
                check=False,
            )
        except FileNotFoundError:
            message = f"there is no {argv[0]} here"
            raise DaemonUnavailable(message, hint=UP, why="no_manager") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DaemonUnavailable(f"{' '.join(argv)}: {error}", why="no_manager") from None
        return Done(list(argv), done.returncode, done.stdout, done.stderr.strip())

    def do(self, *argv: str) -> Done:
        """Run what changes something; it is told first."""
        self._tell(" ".join(argv))
        self.ran.append(list(argv))
        return self.ask(*argv)

    def must(self, *argv: str) -> None:
        """Run what changes something. Raises ``DaemonUnavailable`` with what it says went wrong."""
        done = self.do(*argv)
        if done.status:
            raise failed(done)


UP = "to run it without a service: mcpctl up"


def failed(done: Done) -> DaemonUnavailable:
    """Return the error for a command that ended badly."""
    said = done.complaint or done.out.strip() or f"status {done.status}"
    return DaemonUnavailable(
        f"`{' '.join(done.argv)}` failed: {said}",
        hint="mcpctl service status explains",
        why="service_failed",
        status=done.status,
    )


def explain_exit(status: int | None) -> list[str]:
    """Say what the exit status of the last daemon means, and what to type."""
    match status:
        case 2:
            return ["its command line is wrong: mcpctl service install --force writes it anew"]
        case 73:
            return [
                "its socket's or its state directory cannot be used; mcpctl service logs says why"
            ]
        case 75:
            return [
                "another daemon runs already, outside of the service: mcpctl down, then "
                "mcpctl service restart"
            ]
        case 78:
            return [
                "its configuration cannot be read: mcpctl service logs says where and how to "
                "check it; then mcpctl service restart"
            ]
        case 70:
            return ["that is a bug of ours; please report it with what mcpctl service logs says"]
    return []


def file_states(files: Sequence[File]) -> list[dict[str, str]]:
    """Return each file with what has become of it."""
    return [{"path": file.path, "state": file.state()} for file in files]
