"""The program ``mcpd``: its options, and the start of a daemon up to the listening socket.

Only light modules of the standard library are imported here. The umask and the signal handlers are
set first, and the socket listens before the imports that take most of the start-up time, so that
clients can connect early.
"""

from __future__ import annotations

import os
import signal
import sys

from mcpd import __version__, paths
from mcpd.errors import AlreadyRunning, McpdError, PathRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from mcpd.service.lock import DaemonLock
    from mcpd.service.notify import Notifier

MANAGER = "MCPD_SERVICE"
"""Set by the launchd agent that ``mcpctl service install`` writes."""

TAG = "MCPD_INSTANCE"
"""Marks the processes of a server; a daemon started from inside a server must not have it."""

LEVELS = ("debug", "info", "warning", "error")

OK, USAGE, INTERNAL, CANNOT_BE_PRIVATE, ANOTHER_RUNS, BAD_CONFIG = 0, 2, 70, 73, 75, 78
"""Exit statuses; those above 64 follow ``sysexits.h``."""

HELP = """\
Usage: mcpd [--config FILE] [--socket PATH] [--log-level LEVEL] [--check]

Runs every configured MCP server once, for any number of clients, in the foreground.
`mcpctl up` runs it in the background; `mcpctl connect` is what a client starts.

  --config FILE      use this file alone (.json, .toml; default: MCPD_CONFIG, else
                     /etc/mcpd and ~/.config/mcpd)
  --socket PATH      listen here (default: MCPD_SOCKET, else $XDG_RUNTIME_DIR/mcpd/mcpd.sock)
  --log-level LEVEL  debug, info, warning or error (default: the configuration's, else info)
  --check            check the configuration, explain it and end: 0, or 2 with errors
  --version          print the version and end
  --help             print this and end
"""


class Options:
    """The parsed command line."""

    def __init__(self) -> None:
        self.config: str | None = None
        self.socket: str | None = None
        self.log_level: str | None = None
        self.check = False


class Early:
    """State from the start of the program for the daemon, and the signals received so far."""

    def __init__(self, options: Options, umask: int, nofile_soft: int) -> None:
        self.options = options
        self.umask = umask
        """The umask that we were started with; servers inherit it."""
        self.nofile_soft = nofile_soft
        """The soft limit on open files that we were started with; servers inherit it."""
        self.signals: list[int] = []
        """SIGTERM, SIGINT and SIGHUP in the order in which they were received."""
        self.notifier: Notifier
        """Sends notifications to the service manager, if one started us."""

    def note(self, signum: int, _frame: FrameType | None) -> None:
        """Record a signal until the daemon can handle it."""
        self.signals.append(signum)

    @property
    def must_end(self) -> bool:
        """Whether SIGTERM or SIGINT was received."""
        return signal.SIGTERM in self.signals or signal.SIGINT in self.signals


def main() -> None:
    """Run the program; never returns."""
    _open_standard_streams()
    manager = os.environ.pop(MANAGER, "")
    try:
        status = _run(sys.argv[1:])
    except McpdError as error:
        _say(error.message, error.hint)
        status = CANNOT_BE_PRIVATE if isinstance(error, PathRefused) else INTERNAL
    if status and manager == "launchd":
        status = _give_up(status)
    sys.exit(status)


def _open_standard_streams() -> None:
    """Open descriptors 0, 1 and 2 on ``/dev/null`` if they are closed.

    Otherwise the lock or the socket would get one of these numbers, and the log would go there.
    """
    fd = os.open(os.devnull, os.O_RDWR)
    while fd <= 2:
        fd = os.dup(fd)  # the lowest that is free
    os.close(fd)
    if not sys.stderr:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def _give_up(status: int) -> int:
    """Return the exit status for launchd, which restarts a daemon that ends with another than 0."""
    from mcpd.service import giveup

    final = giveup.judge(status, paths.state_dir())
    if final != status:
        _say(f"status {status} for the last time: ending with 0", "mcpctl service status")
    return final


def _run(argv: list[str]) -> int:
    umask = os.umask(0o077)
    if TAG in os.environ:
        _exec_without_tag(umask)
    try:
        options = _read(argv)
    except ValueError as problem:
        _say(str(problem), "mcpd --help")
        return USAGE
    if options is None:
        return OK
    if options.check:
        return _check(options)
    early = Early(options, umask, _raise_nofile())
    _set_up_process(early)
    from mcpd.service import activation, bind, notify

    early.notifier = notify.Notifier.take(os.environ)
    passed = activation.take(os.environ)
    path = paths.socket_path(options.socket) if passed is None else passed[1]
    try:
        lock = _acquire_lock(path)
        listener = bind.bind_socket(path, lock) if passed is None else passed[0]
    except AlreadyRunning as error:
        from mcpd.daemon_start.hints import with_socket

        _say(error.message, error.hint and with_socket(error.hint, options.socket))
        return ANOTHER_RUNS
    # A socket of the service manager has no identity here: it must not be removed.
    identity = bind.identity_of(path) if passed is None else None
    try:
        if early.must_end:
            return OK
        from mcpd.daemon.run import run

        return run(early, path, lock, listener, identity)
    finally:
        bind.remove_socket(path, identity)


def _exec_without_tag(umask: int) -> None:
    """Execute this program again without the tag; ``/proc`` shows the environment of the exec."""
    os.umask(umask)
    env = {name: value for name, value in os.environ.items() if name != TAG}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], env)


def _read(argv: list[str]) -> Options | None:
    """Parse the command line; return ``None`` after printing the help or the version."""
    options = Options()
    words = list(argv)
    while words:
        name, given, value = words.pop(0).partition("=")
        if name in ("--help", "-h", "--version", "--check") and given:
            raise ValueError(f"{name} takes no value")
        if name in ("--help", "-h"):
            sys.stdout.write(HELP)
            return None
        if name == "--version":
            sys.stdout.write(f"mcpd {__version__}\n")
            return None
        if name == "--check":
            options.check = True
            continue
        if name not in ("--config", "--socket", "--log-level"):
            raise ValueError(f"unknown argument {name!r}")
        if not given:
            if not words:
                raise ValueError(f"{name} needs a value")
            value = words.pop(0)
        if not value:
            raise ValueError(f"{name} needs a value")
        if name == "--log-level" and value not in LEVELS:
            raise ValueError(f"--log-level is one of {', '.join(LEVELS)}, not {value!r}")
        setattr(options, name[2:].replace("-", "_"), value)
    return options


def _check(options: Options) -> int:
    from mcpd.config import explain, load

    loaded = load.load(options.config, os.environ, login=None)
    if any(entry.awaits for entry in loaded.entries.values()):
        from mcpd.config.texts.resolving import Login
        from mcpd.supervise.loginenv import once

        told = ", and that of the login shell"
        login = Login(variables=once.variables(os.environ), told=told)
        loaded = load.load(options.config, os.environ, login=login)
    text, status = explain.report(loaded)
    sys.stdout.write(text)
    return status


def _set_up_process(early: Early) -> None:
    """Install signal handlers, make relative paths absolute and change to ``/``."""
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, early.note)
    for signum in signal.valid_signals():
        # Servers would inherit ignored signals (nohup, a shell's `&`): a handler that does nothing
        # has the same effect here, and exec resets it.
        if signum not in (signal.SIGPIPE, signal.SIGXFSZ) and (
            signal.getsignal(signum) is signal.SIG_IGN
        ):
            signal.signal(signum, _do_nothing)
    options = early.options
    for name in ("MCPD_CONFIG", "MCPD_SOCKET", "MCPD_STATE_DIR"):
        if os.environ.get(name):
            os.environ[name] = os.path.abspath(os.environ[name])
    if options.config is not None:
        options.config = os.path.abspath(options.config)
    if options.socket is not None:
        options.socket = os.path.abspath(options.socket)
    os.chdir("/")


def _do_nothing(_signum: int, _frame: FrameType | None) -> None:
    """Handle a signal that was ignored before."""


def _raise_nofile() -> int:
    """Raise the soft limit on open files to the hard limit; return the old soft limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):  # macOS reports a hard limit that it does not accept
        return soft
    return soft


def _acquire_lock(path: str) -> DaemonLock:
    from mcpd.service import lock, privatedir

    privatedir.prepare(path)
    return lock.DaemonLock.acquire(paths.lock_path(path))


def _say(message: str, hint: str | None) -> None:
    sys.stderr.write(f"mcpd: {message}\n")
    if hint:
        sys.stderr.write(f"  {hint}\n")
