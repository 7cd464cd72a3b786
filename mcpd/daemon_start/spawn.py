"""Starting ``mcpd`` as a process of its own, and learning how a start failed."""

from __future__ import annotations

import os
import sys
import time

from mcpd import paths
from mcpd.daemon_start import private
from mcpd.daemon_start.environment import clean_environment
from mcpd.daemon_start.hints import check_command
from mcpd.errors import DaemonUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ANOTHER_RUNS = 75
"""Exit status of an ``mcpd`` that finds the lock held by another daemon."""

BAD_CONFIG = 78
"""Exit status of an ``mcpd`` that could read no file of its configuration."""

CANNOT_EXEC = 127
POLL_S = 0.01
RESPAWN_S = 0.5
"""Until the next try, after an ``mcpd`` that found another daemon."""

TAIL_BYTES = 4096


def daemon_command() -> list[str]:
    """Return the command that runs ``mcpd``: the script beside this Python, or its module."""
    beside = os.path.join(os.path.dirname(sys.executable), "mcpd")
    return [beside] if os.access(beside, os.X_OK) else [sys.executable, "-m", "mcpd"]


class Start:
    """One client's attempts to start ``mcpd``, until a daemon listens."""

    def __init__(
        self, path: str, config: str | None, variables: Mapping[str, str] | None = None
    ) -> None:
        self.argv = [*daemon_command(), "--socket", path]
        if config is not None:
            self.argv += ["--config", os.path.abspath(config)]
        self._config = config
        self._env = clean_environment({**os.environ, **(variables or {})})
        state = paths.state_dir(self._env)
        private.make_directory(state, paths.STATE_ELSEWHERE)
        self.log_path = os.path.join(state, "mcpd.log")
        self._log = private.open_file(
            self.log_path, os.O_WRONLY | os.O_APPEND, paths.STATE_ELSEWHERE
        )
        self._log_start = os.fstat(self._log).st_size
        self._waiter: int | None = None  # pid of the process between this one and mcpd
        self._respawn_at = 0.0  # monotonic; after another daemon was found
        try:
            self._spawn()
        except BaseException:
            os.close(self._log)
            raise

    def poll(self) -> None:
        """Spawn ``mcpd`` again if it is time; raise ``DaemonUnavailable`` if its start failed."""
        if self._waiter is None:
            if time.monotonic() >= self._respawn_at:
                self._spawn()
            return
        pid, status = os.waitpid(self._waiter, os.WNOHANG)
        if pid == 0:
            return
        self._waiter = None
        code = os.waitstatus_to_exitcode(status)
        if code != ANOTHER_RUNS:
            raise DaemonUnavailable(
                f"mcpd ended with {code} at its start{self.log_excerpt()}",
                hint=check_command(self._config) if code == BAD_CONFIG else None,
                why="start_failed",
                exit_code=code,
                log=self.log_path,
            )
        self._respawn_at = time.monotonic() + RESPAWN_S

    def close(self) -> None:
        """Stop watching. A daemon that was started keeps running, reparented to init."""
        os.close(self._log)
        if self._waiter is not None:
            os.kill(self._waiter, 9)  # not reaped yet, so the pid is still this process's
            os.waitpid(self._waiter, 0)
            self._waiter = None

    def log_excerpt(self) -> str:
        """Return where the log is, followed by the last lines that this start has written to it."""
        with open(self.log_path, "rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, end - TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()[-10:]
        return "".join([f"; see {self.log_path}", *(f"\n  {line}" for line in lines)])

    def _spawn(self) -> None:
        """Start ``mcpd`` detached, through a process that reports how it ended.

        ``mcpd`` must not stay a descendant of this process: a bridge may run inside a server,
        whose descendants are stopped with it, and nothing would reap it.
        """
        null = os.open(os.devnull, os.O_RDWR)
        try:
            self._waiter = os.fork()
            if self._waiter == 0:
                try:
                    _run_waiter(self.argv, self._env, null, self._log)
                finally:
                    os._exit(CANNOT_EXEC)
        finally:
            os.close(null)


def _run_waiter(argv: list[str], env: dict[str, str], null: int, log: int) -> None:
    """Run ``argv``; exit with its status, or with 0 once the starting client is gone."""
    starter = os.getppid()
    _detach(null, log)
    child = os.fork()
    if child == 0:
        os.setsid()
        try:
            os.execvpe(argv[0], argv, env)
        except OSError as error:
            os.write(2, f"mcpd: cannot run {argv[0]}: {error.strerror}\n".encode())
        os._exit(CANNOT_EXEC)
    while os.getppid() == starter:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
        time.sleep(POLL_S)
    os._exit(0)


def _detach(null: int, log: int) -> None:
    """Leave the terminal and everything else that was inherited, except umask and limits."""
    import signal

    os.setsid()
    os.chdir("/")
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(log, 2)
    for fd in map(int, os.listdir("/dev/fd")):
        if fd > 2:
            try:
                os.close(fd)
            except OSError:
                continue  # the descriptor of the listing
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
