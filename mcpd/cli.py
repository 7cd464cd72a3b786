"""``mcpd``: flags, and what a daemon must do before anything heavy is imported.

Stage one uses the standard library's light half alone: from the first instant the umask is ours
and no signal leaves half a daemon behind, and the socket listens before the imports that take
most of the start-up time, so that whoever starts us waits for nothing else.
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
"""Set by the agent that ``mcpctl service install`` writes for launchd."""

TAG = "MCPD_INSTANCE"
"""What marks a server's processes; a daemon that is started from inside of one must not have it."""

LEVELS = ("debug", "info", "warning", "error")

OK, USAGE, INTERNAL, CANNOT_BE_PRIVATE, ANOTHER_RUNS, BAD_CONFIG = 0, 2, 70, 73, 75, 78
"""Exit statuses; those above 64 are those of ``sysexits.h`` where it has one."""

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
    """The command line, read."""

    def __init__(self) -> None:
        self.config: str | None = None
        self.socket: str | None = None
        self.log_level: str | None = None
        self.check = False


class Early:
    """What was found at the start and is needed later, and the signals that came meanwhile."""

    def __init__(self, options: Options, umask: int, nofile_soft: int) -> None:
        self.options = options
        self.umask = umask
        """Of whoever started us, in octal terms: what servers get."""
        self.nofile_soft = nofile_soft
        """Likewise the soft limit on open files."""
        self.signals: list[int] = []
        """SIGTERM, SIGINT and SIGHUP in the order in which they came."""
        self.notifier: Notifier
        """The way to the service manager, if one started us."""

    def note(self, signum: int, _frame: FrameType | None) -> None:
        """Remember a signal until somebody can act on it."""
        self.signals.append(signum)

    @property
    def must_end(self) -> bool:
        """Whether one of them says that there shall be no daemon."""
        return signal.SIGTERM in self.signals or signal.SIGINT in self.signals


def main() -> None:
    """Run the program; never returns."""
    _open_standard()
    manager = os.environ.pop(MANAGER, "")
    try:
        status = _run(sys.argv[1:])
    except McpdError as error:
        _say(error.message, error.hint)
        status = CANNOT_BE_PRIVATE if isinstance(error, PathRefused) else INTERNAL
    if status and manager == "launchd":
        status = _give_up(status)
    sys.exit(status)


def _open_standard() -> None:
    """Have descriptors 0, 1 and 2 be something harmless where whoever started us closed them.

    Else the lock, the socket and the loop's own would get these numbers, and the log with them.
    """
    fd = os.open(os.devnull, os.O_RDWR)
    while fd <= 2:
        fd = os.dup(fd)  # the lowest that is free
    os.close(fd)
    if not sys.stderr:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def _give_up(status: int) -> int:
    """Return the status for a manager that would start us again and again."""
    from mcpd.service import giveup

    told = giveup.judge(status, paths.state_dir())
    if told != status:
        _say(f"status {status} for the last time: ending with 0", "mcpctl service status")
    return told


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
    _be_a_daemon(early)
    from mcpd.service import activation, bind, notify

    early.notifier = notify.Notifier.take(os.environ)
    passed = activation.take(os.environ)
    path = paths.socket_path(options.socket) if passed is None else passed[1]
    try:
        lock = _become_the_one(path)
        listener = bind.bind_socket(path, lock) if passed is None else passed[0]
    except AlreadyRunning as error:
        from mcpd.daemon_start.hints import with_socket

        _say(error.message, error.hint and with_socket(error.hint, options.socket))
        return ANOTHER_RUNS
    # A socket of the service manager's has no identity for us: it is not ours to remove.
    identity = bind.identity_of(path) if passed is None else None
    try:
        if early.must_end:
            return OK
        from mcpd.daemon.run import run

        return run(early, path, lock, listener, identity)
    finally:
        bind.remove_socket(path, identity)


def _exec_without_tag(umask: int) -> None:
    """Begin again without the tag: what is in the environment now shows until we end."""
    os.umask(umask)
    env = {name: value for name, value in os.environ.items() if name != TAG}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], env)


def _read(argv: list[str]) -> Options | None:
    """Read the command line; ``None`` when it asked for a text that is printed already."""
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

    text, status = explain.report(load.load(options.config, os.environ))
    sys.stdout.write(text)
    return status


def _be_a_daemon(early: Early) -> None:
    """Take the signals, make relative paths absolute and sit down in ``/``."""
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, early.note)
    for signum in signal.valid_signals():
        # What is ignored (nohup, a shell's `&`) would be ignored by every server, too: a handler
        # that does nothing has the same effect on us and ends with exec.
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
    """Stand where a signal was ignored."""


def _raise_nofile() -> int:
    """Raise the soft limit on open files to the hard one and return what it was."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):  # macOS has a hard limit that it does not accept
        return soft
    return soft


def _become_the_one(path: str) -> DaemonLock:
    from mcpd.service import lock, privatedir

    privatedir.prepare(path)
    return lock.DaemonLock.acquire(paths.lock_path(path))


def _say(message: str, hint: str | None) -> None:
    sys.stderr.write(f"mcpd: {message}\n")
    if hint:
        sys.stderr.write(f"  {hint}\n")
