"""The interface to service managers, and running their commands."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypedDict

from mcpctl.services.files import File
from mcpd.errors import DaemonUnavailable

COMMAND_TIMEOUT_S = 150.0
"""For one command of a manager. Stopping waits for the daemon, which waits for its servers."""


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
    """A service manager of this user: systemd or launchd."""

    name: str

    def files(self) -> list[File]:
        """Return the files to install."""

    def check(self) -> None:
        """Raise ``DaemonUnavailable`` if the manager is not available here."""

    def start(self, *, now: bool) -> None:
        """Load the files, so that the daemon is started at each login; start it ``now`` as well."""

    def stop(self) -> None:
        """Stop the daemon and disable it. The files still exist."""

    def forget(self) -> None:
        """Make the manager notice that the files have been removed."""

    def restart(self) -> None:
        """Start the daemon again, even after it failed; return when it runs."""

    def state(self) -> ServiceState:
        """Return the state of the service."""

    def log_command(self, lines: int, *, follow: bool) -> list[str]:
        """Return the command that prints the log."""

    def log_text(self, line: str) -> str:
        """Return the text of one line of its output."""


class Runner:
    """Runs the commands of a manager, and reports each one that changes something."""

    def __init__(self, tell: Callable[[str], None], env: Mapping[str, str] | None = None) -> None:
        self.ran: list[list[str]] = []
        self._tell = tell
        self._env = dict(os.environ if env is None else env)

    def query(self, *argv: str) -> Done:
        """Run a command that changes nothing; raise ``DaemonUnavailable`` if it fails to run."""
        try:
            done = subprocess.run(
                argv,
                env=self._env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COMMAND_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            message = f"there is no {argv[0]} here"
            raise DaemonUnavailable(message, hint=UP, why="no_manager") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DaemonUnavailable(f"{' '.join(argv)}: {error}", why="no_manager") from None
        return Done(list(argv), done.returncode, done.stdout, done.stderr.strip())

    def run(self, *argv: str) -> Done:
        """Report and run a command that changes something; raise as ``query`` does."""
        self._tell(" ".join(argv))
        self.ran.append(list(argv))
        return self.query(*argv)

    def run_checked(self, *argv: str) -> None:
        """Report and run a command; raise ``DaemonUnavailable`` with its message if it fails."""
        done = self.run(*argv)
        if done.status:
            raise failed(done)


UP = "to run it without a service: mcpctl up"


def failed(done: Done) -> DaemonUnavailable:
    """Return the error for a command that failed."""
    said = done.complaint or done.out.strip() or f"status {done.status}"
    return DaemonUnavailable(
        f"`{' '.join(done.argv)}` failed: {said}",
        hint="mcpctl service status explains",
        why="service_failed",
        status=done.status,
    )


def explain_exit(status: int | None) -> list[str]:
    """Return what the exit status of the last daemon means, and what to type."""
    match status:
        case 2:
            return ["its command line is wrong: mcpctl service install --force rewrites it"]
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
    """Return path and state of each file."""
    return [{"path": file.path, "state": file.state()} for file in files]
