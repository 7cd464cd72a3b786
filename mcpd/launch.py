"""The way to the daemon: who listens is looked at first, and where nobody does one is started.

Clients start a daemon under a lock of their own (``SOCKET.start``), so that twenty at once start
one. Who holds it spawns ``mcpd`` and waits for the socket; the others wait for the socket too, and
take over when the holder gave up. An ``mcpd`` that ends with 75 found another daemon, which may
be on its way up or on its way out: its starter goes on waiting and tries again from time to time.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
import time

from mcpd import paths, presence
from mcpd.errors import DaemonUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:  # what costs start-up time is loaded where it is needed
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    T = TypeVar("T")

EPHEMERAL_PATTERNS = (
    # the terminal, and what draws it
    "TERM", "TERM_*", "TERMINAL_*", "TERMCAP", "COLORTERM", "COLORFGBG", "COLUMNS", "LINES",
    "LC_TERMINAL", "LC_TERMINAL_*", "WINDOWID", "WINDOWPATH", "GPG_TTY", "VTE_VERSION",
    "ALACRITTY_*", "GHOSTTY_*", "GNOME_TERMINAL_*", "ITERM_*", "KITTY_*", "KONSOLE_*", "TILIX_ID",
    "TERMINATOR_*", "WEZTERM_*", "WT_*", "XTERM_*",
    # multiplexers and remote logins; SSH_AUTH_SOCK stays, since servers that run git need it
    "STY", "TMUX", "TMUX_*", "WINDOW", "ZELLIJ", "ZELLIJ_*",
    "SSH_CLIENT", "SSH_CONNECTION", "SSH_ORIGINAL_COMMAND", "SSH_TTY",
    # a shell's bookkeeping, and an editor's that runs it
    "_", "OLDPWD", "PWD", "SHLVL", "SHELL_SESSION_*", "DIRENV_*",
    "INSIDE_EMACS", "NVIM", "NVIM_*", "VIM", "VIMRUNTIME", "VSCODE_*",
    # one start of one program, by a desktop or a service manager
    "DESKTOP_STARTUP_ID", "XDG_ACTIVATION_TOKEN", "INVOCATION_ID", "JOURNAL_STREAM",
    "LISTEN_FD*", "LISTEN_PID*", "MAINPID", "MANAGERPID*", "MEMORY_PRESSURE_*", "NOTIFY_SOCKET",
    "SYSTEMD_EXEC_PID", "WATCHDOG_*",
    # a test run, and our own tag of a server's process
    "PYTEST_*", "MCPD_INSTANCE",
)  # fmt: skip
"""Variables that tell one terminal from another and mean nothing elsewhere; ``*`` ends a pattern.

A daemon that a client starts does not inherit them, and they do not tell ad-hoc servers apart.
"""

RELATIVE_PATHS = ("MCPD_CONFIG", "MCPD_STATE_DIR", "MCPD_SOCKET")
"""Variables that a daemon, which sits in ``/``, must get as absolute paths."""

ANOTHER_RUNS = 75
"""How ``mcpd`` ends when another daemon holds the lock."""

BAD_CONFIG = 78
"""How it ends when no file of the configuration could be read as one."""

CANNOT_EXEC = 127
CONNECT_TIMEOUT_S = presence.ANSWER_S
START_TIMEOUT_S = 20.0
LOOK_AGAIN_S = 0.01
RETRY_S = 0.5
HUNG_UP_PAUSE_S = 0.1
TAIL_BYTES = 4096


def is_ephemeral(name: str) -> bool:
    """Tell whether ``EPHEMERAL_PATTERNS`` names that environment variable."""
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in EPHEMERAL_PATTERNS
    )


def clean_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return ``env`` as a daemon started from here inherits it."""
    kept = {name: value for name, value in env.items() if not is_ephemeral(name)}
    for name in RELATIVE_PATHS:
        if kept.get(name):
            kept[name] = os.path.abspath(kept[name])
    return kept


def connect(path: str, timeout: float | None = CONNECT_TIMEOUT_S) -> socket.socket:
    """Return a connection to the daemon that listens on ``path``, with ``timeout`` seconds set.

    The directory and the listener are looked at before anything is sent: a stranger who came
    first to a predictable name must not be taken for the daemon. Raises ``DaemonUnavailable``
    with ``details["why"]``: ``absent``, ``refused``, ``not_ours``, ``exposed``, ``forbidden``,
    ``unresponsive`` or ``unusable``.
    """
    check_directory(path, may_tighten=False)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _connect(connection, path, timeout)
        uid = presence.peer_of(connection)[1]
        if uid != os.geteuid():
            raise _not_ours(path, uid)
    except OSError as error:
        connection.close()
        raise _explain(path, error) from None
    except DaemonUnavailable:
        connection.close()
        raise
    return connection


def reach(
    path: str,
    greet: Callable[[socket.socket], T],
    *,
    is_to_start: bool = True,
    config: str | None = None,
    timeout: float = START_TIMEOUT_S,
    progress: Callable[[str], None] | None = None,
) -> T:
    """Return what ``greet`` makes of a connection to the daemon on ``path``.

    With ``is_to_start`` one is started where none listens, and where the one that does is on its
    way out: then ``greet`` raises ``DaemonUnavailable`` with ``gone``. It closes a connection that
    it raises for. ``config`` is given on as ``--config``; ``progress`` is told once when there is
    something to wait for. Raises ``DaemonUnavailable`` as ``connect`` does, and with ``no_socket``
    (a daemon without one keeps others away), ``start_failed`` (the message ends in the last lines
    of its log) or, after ``timeout`` seconds, ``start_timeout``.
    """
    try:
        return greet(connect(path))
    except DaemonUnavailable as error:
        is_leaving = error.details["why"] == "gone"
        if not (is_to_start and (is_leaving or may_start(error))):
            raise _seen_closer(error, path) from None
    if progress is not None:
        progress("starting mcpd")
    with Search(path, config=config, timeout=timeout) as search:
        return search.reach(greet)


class Search:
    """The way to a daemon in steps that do not wait, for a client that has other things to do.

    ``look`` again and again until there is a connection; ``config`` and ``timeout`` are as for
    ``reach``. Closing it lets other clients start a daemon.
    """

    def __init__(
        self, path: str, *, config: str | None = None, timeout: float = START_TIMEOUT_S
    ) -> None:
        self._path = path
        self._config = config
        self._timeout = timeout
        self._deadline: float | None = None  # monotonic; from the first look
        self._start: _Start | None = None
        self.is_starter = False
        """Whether it is up to us to start one."""
        make_private(os.path.dirname(path), paths.SOCKET_ELSEWHERE)
        check_directory(path, may_tighten=True)
        self._lock = _open_private(paths.start_lock_path(path), os.O_RDWR, paths.SOCKET_ELSEWHERE)

    def __enter__(self) -> Search:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hold(self) -> bool:
        """Have every other client wait with starting one; tell whether none has begun already."""
        self.is_starter = self.is_starter or _try_lock(self._lock)
        return self.is_starter

    def look(self, timeout: float = 0.0) -> socket.socket | None:
        """Return a connection as soon as there is one; raise as ``reach`` does.

        ``timeout``, in seconds, is for a daemon that listens and takes no connection.
        """
        # The lock first: whoever held it until now may just have succeeded.
        is_starter = self.hold()
        if self._deadline is None:
            self._deadline = time.monotonic() + self._timeout
        try:
            return connect(self._path, timeout)
        except DaemonUnavailable as error:
            if not may_start(error):
                raise
            obstacle = error
        if is_starter:
            self._start = self._start or _Start(self._path, self._config)
            self._start.look()
        if time.monotonic() > self._deadline:
            raise _too_slow(self._path, self._timeout, obstacle, self._start)
        return None

    def reach(self, greet: Callable[[socket.socket], T]) -> T:
        """Return what ``greet`` makes of a connection, however long that takes.

        A daemon listens before it has read its configuration, and hangs up if that is of no use.
        Then the next one is waited for: what is raised in the end says how it ended.
        """
        while True:
            while (connection := self.look(CONNECT_TIMEOUT_S)) is None:
                time.sleep(LOOK_AGAIN_S)
            try:
                return greet(connection)
            except DaemonUnavailable as error:
                is_late = self._deadline is not None and time.monotonic() > self._deadline
                if error.details["why"] != "gone" or is_late:
                    raise
            time.sleep(HUNG_UP_PAUSE_S)

    def close(self) -> None:
        """Let go of the lock and of what was started, which goes on."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        if self._start is not None:
            self._start.leave()
            self._start = None


def check_directory(path: str, *, may_tighten: bool) -> None:
    """Refuse a socket whose directory is a link, a stranger's, or open to others.

    ``may_tighten``: a daemon is about to start, which makes its own directory 0700 or says why
    not; an open one is then no reason to stop here.
    """
    directory = os.path.dirname(path)
    try:
        found = os.lstat(directory)
    except FileNotFoundError:
        raise _absent(path) from None
    except OSError as error:
        raise _explain(path, error) from None
    if stat.S_ISLNK(found.st_mode):
        message = f"{directory} is a link, and the socket's directory must not be one"
        raise DaemonUnavailable(message, hint=f"rm {directory}", why="exposed", path=path)
    if found.st_uid not in (os.geteuid(), 0):
        raise _not_ours(directory, found.st_uid)
    is_open = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
    if is_open and not (may_tighten and found.st_uid == os.geteuid()):
        message = f"others can write in {directory} (mode {stat.S_IMODE(found.st_mode):04o})"
        raise DaemonUnavailable(message, hint=f"chmod go-w {directory}", why="exposed", path=path)


def make_private(directory: str, elsewhere: str) -> None:
    """Make ``directory``, and what is missing above it, for nobody else; an old one stays.

    ``elsewhere`` is how a person chooses another one.
    """
    try:
        above = os.stat(os.path.dirname(directory))
        if above.st_uid not in (0, os.getuid()) and not os.path.lexists(directory):
            raise _not_ours(os.path.dirname(directory), above.st_uid)  # root in a user's directory
        os.mkdir(directory, 0o700)
    except FileExistsError:
        return
    except OSError as error:
        parent = os.path.dirname(directory)
        if isinstance(error, FileNotFoundError) and not os.path.lexists(parent):
            make_private(parent, elsewhere)
            make_private(directory, elsewhere)
            return
        raise _cannot(f"make {directory}", error, elsewhere) from None


def addressed(text: str, socket: str | None) -> str:
    """Return a hint whose commands go to ``socket``, the one of the command line if it names one.

    Without it they would go to the daemon of another socket, or start one there.
    """
    if socket is None:
        return text
    import re
    import shlex

    option = f"--socket {shlex.quote(os.path.abspath(socket))} "
    return re.sub(r"\b(?:mcpctl (?=[a-z])|mcpd (?=--log-level ))", lambda at: at[0] + option, text)


def check_command(config: str | None) -> str:
    """Return what has those files checked that a daemon with ``--config CONFIG`` reads."""
    import shlex

    alone = config or os.environ.get("MCPD_CONFIG")
    return (
        f"mcpd --config {shlex.quote(os.path.abspath(alone))} --check" if alone else "mcpd --check"
    )


def daemon_command() -> list[str]:
    """Return how to run ``mcpd``: the one beside this Python, else this Python's module."""
    beside = os.path.join(os.path.dirname(sys.executable), "mcpd")
    return [beside] if os.access(beside, os.X_OK) else [sys.executable, "-m", "mcpd"]


class _Start:
    """One starter's attempts, from the first ``mcpd`` it spawns until a daemon listens."""

    def __init__(self, path: str, config: str | None) -> None:
        self.argv = [*daemon_command(), "--socket", path]
        if config is not None:
            self.argv += ["--config", os.path.abspath(config)]
        self._config = config
        state = paths.state_dir()
        make_private(state, paths.STATE_ELSEWHERE)
        self.log_path = os.path.join(state, "mcpd.log")
        self._log = _open_private(self.log_path, os.O_WRONLY | os.O_APPEND, paths.STATE_ELSEWHERE)
        self._log_begins = os.fstat(self._log).st_size
        self._waiter: int | None = None  # the process between us and mcpd, while it lives
        self._again_at = 0.0  # monotonic; when to spawn anew after another daemon was found
        try:
            self._spawn()
        except BaseException:
            os.close(self._log)
            raise

    def look(self) -> None:
        """Spawn another ``mcpd`` when it is time; raise when the last one could not start."""
        if self._waiter is None:
            if time.monotonic() >= self._again_at:
                self._spawn()
            return
        pid, status = os.waitpid(self._waiter, os.WNOHANG)
        if pid == 0:
            return
        self._waiter = None
        code = os.waitstatus_to_exitcode(status)
        if code != ANOTHER_RUNS:
            raise DaemonUnavailable(
                f"mcpd ended with {code} at its start; see {self.log_path}{self.tail()}",
                hint=check_command(self._config) if code == BAD_CONFIG else None,
                why="start_failed",
                exit_code=code,
                log=self.log_path,
            )
        self._again_at = time.monotonic() + RETRY_S

    def leave(self) -> None:
        """Let go: what was started stays, and is nobody's child."""
        os.close(self._log)
        if self._waiter is not None:
            os.kill(self._waiter, 9)  # not reaped yet, so this pid is nobody else's
            os.waitpid(self._waiter, 0)
            self._waiter = None

    def tail(self) -> str:
        """Return what this start has written to the log, its last lines, each indented."""
        with open(self.log_path, "rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_begins, end - TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()[-10:]
        return "".join(f"\n  {line}" for line in lines)

    def _spawn(self) -> None:
        """Start ``mcpd`` detached, through a process that reports how it ended.

        ``mcpd`` must be no descendant of ours for longer than its start: a bridge may run inside
        a server, whose descendants are stopped with it, and nobody would reap it.
        """
        env = clean_environment(os.environ)
        null = os.open(os.devnull, os.O_RDWR)
        try:
            self._waiter = os.fork()
            if self._waiter == 0:
                try:
                    _become_waiter(self.argv, env, null, self._log)
                finally:
                    os._exit(CANNOT_EXEC)
        finally:
            os.close(null)


def _become_waiter(argv: list[str], env: dict[str, str], null: int, log: int) -> None:
    """Run ``argv`` and end as it ends, or when the starter is gone. Never returns."""
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
        time.sleep(LOOK_AGAIN_S)
    os._exit(0)


def _detach(null: int, log: int) -> None:
    """Keep nothing of the terminal or of whoever started us, but umask and limits."""
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
                continue  # the listing's own
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def may_start(error: DaemonUnavailable) -> bool:
    """Tell whether starting a daemon is an answer to that silence."""
    return error.details["why"] in ("absent", "refused", "no_socket", "exposed")


def _open_private(path: str, flags: int, elsewhere: str) -> int:
    """Open a file of ours, made if missing; never through a link, never a stranger's."""
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise _cannot(f"open {path}", error, elsewhere) from None
    found = os.fstat(fd)
    if found.st_uid != os.geteuid():
        os.close(fd)
        raise _not_ours(path, found.st_uid)
    if not stat.S_ISREG(found.st_mode):
        os.close(fd)
        raise DaemonUnavailable(f"{path} is not a regular file", why="unusable", path=path)
    return fd


def _try_lock(fd: int) -> bool:
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _absent(path: str) -> DaemonUnavailable:
    return DaemonUnavailable("no daemon runs", hint="mcpctl up", why="absent", path=path)


def _not_ours(path: str, uid: int) -> DaemonUnavailable:
    return DaemonUnavailable(f"not yours: {path} belongs to {uid}", why="not_ours", path=path)


def _explain(path: str, error: OSError) -> DaemonUnavailable:
    """Say what it means that ``path`` could not be looked at or connected to."""
    if isinstance(error, FileNotFoundError):
        return _absent(path)
    if isinstance(error, ConnectionRefusedError):
        if not _is_socket(path):
            return DaemonUnavailable(f"{path} is not a socket", why="unusable", path=path)
        message = "no daemon runs (the socket is a dead one's)"
        return DaemonUnavailable(message, hint="mcpctl up", why="refused", path=path)
    if isinstance(error, (TimeoutError, BlockingIOError)):
        return presence.unresponsive(path, presence.who_is(path, None), CONNECT_TIMEOUT_S)
    why = "forbidden" if isinstance(error, PermissionError) else "unusable"
    return DaemonUnavailable(f"{path}: {error.strerror}", why=why, path=path)


def _connect(connection: socket.socket, path: str, timeout: float | None) -> None:
    """Connect, and leave ``timeout`` set; a full queue is waited for, which the kernel does not."""
    deadline = None if timeout is None else time.monotonic() + timeout
    connection.settimeout(timeout)
    while True:
        try:
            return connection.connect(path)
        except BlockingIOError:
            if deadline is not None and time.monotonic() >= deadline:
                raise
            time.sleep(LOOK_AGAIN_S)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except FileNotFoundError:  # gone since: no reason to complain about what it was
        return True


def _cannot(what: str, error: OSError, elsewhere: str) -> DaemonUnavailable:
    message = f"cannot start mcpd: cannot {what}: {error.strerror}"
    hint = f"mend that, or choose another place: {elsewhere}"
    return DaemonUnavailable(message, hint=hint, why="start_failed", errno=error.errno)


def _seen_closer(silence: DaemonUnavailable, path: str) -> DaemonUnavailable:
    """Return what it is that nobody listens: a daemon without its socket keeps others away."""
    why = silence.details["why"]
    pid = presence.pid_in_lock(path) if why in ("absent", "refused") else None
    if pid is None or not presence.is_daemon_of(pid, path):
        return silence
    what = "is not there" if why == "absent" else "takes no connection"
    return DaemonUnavailable(
        f"mcpd, pid {pid}, holds the lock {paths.lock_path(path)}, but its socket {path} {what}",
        hint="wait a minute, it may mend that itself; else: mcpctl down --force",
        why="no_socket",
        pid=pid,
        path=path,
    )


def _too_slow(
    path: str, timeout: float, obstacle: DaemonUnavailable, start: _Start | None
) -> DaemonUnavailable:
    silence = _seen_closer(obstacle, path)
    if silence.details["why"] == "no_socket":
        return silence  # whatever was started says no more than that another one runs
    message = f"no daemon could be reached on {path} within {timeout:g} s: {obstacle.message}"
    if start is not None:
        message += f"; see {start.log_path}{start.tail()}"
    return DaemonUnavailable(message, why="start_timeout", path=path)
