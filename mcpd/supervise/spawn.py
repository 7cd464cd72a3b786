"""From a command to a process: where it is looked for, what it inherits, how it is started."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from mcpd.supervise import descriptors
from mcpd.supervise.process import Child, Scope
from mcpd.supervise.proctable import procfs
from mcpd.supervise.refusals import command_not_found, cwd_missing, exec_refused, not_executable

MINIMAL = ("HOME", "LOGNAME", "USER", "SHELL", "PATH", "TERM", "LANG", "TMPDIR", "TZ")
"""What ``inherit_env = "minimal"`` lets through, besides every ``LC_*``."""

UTF8_LOCALE = "UTF-8" if sys.platform == "darwin" else "C.UTF-8"
"""Of characters alone: it changes no language, no order and no number."""

_LOCALE = ("LC_ALL", "LC_CTYPE", "LANG")
"""The first that is set counts."""

_ENCODINGS = (*_LOCALE, "PYTHONIOENCODING", "PYTHONUTF8")
_UTF8 = re.compile(r"utf-?8", re.IGNORECASE)

PIPE_BYTES = 256 * 1024
"""Asked for stdin and stdout, whose default is 64 KiB: a large message takes fewer turns then.
More is no faster, and what all pipes of a user have together is limited (64 MiB): beyond it each
new pipe of any of the user's programs is a small one."""

SPARE_FDS = 64
"""Descriptors that other threads may open while a child is being started."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """All that makes a process what it is."""

    argv: tuple[str, ...]
    """The first is the command as it was written, the child's own name for itself."""

    program: str
    """The file that is run: see ``resolve``."""

    env: dict[str, str]
    cwd: str


def prepare(
    command: str,
    args: tuple[str, ...] | list[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    tag: str,
    inherit: Literal["all", "minimal", "none"] = "all",
    base_env: Mapping[str, str] | None = None,
    is_typed: bool = False,
) -> Launch:
    """Return how to start an entry's command: found, and with its whole environment.

    ``env`` is the entry's own; ``base_env`` is the daemon's (or the client's whose server it is)
    and defaults to ours. ``is_typed``: there is no entry, but what somebody typed after
    ``mcpctl connect --``. Raises ``SpawnFailed``; the user is to blame.
    """
    base = os.environ if base_env is None else base_env
    whole = build_environment(base, env, inherit=inherit, tag=tag)
    if inherit != "none" and not any(env.get(name) for name in _ENCODINGS):
        whole.update(_utf8(whole))
    program = resolve(command, whole.get("PATH", base.get("PATH")), cwd, is_typed=is_typed)
    if os.path.isabs(command) and _is_script(program):
        whole["PATH"] = _with_directory(whole.get("PATH"), os.path.dirname(program))
    return Launch(argv=(command, *args), program=program, env=whole, cwd=cwd)


def build_environment(
    base: Mapping[str, str],
    entry: Mapping[str, str],
    *,
    inherit: Literal["all", "minimal", "none"] = "all",
    tag: str,
) -> dict[str, str]:
    """Return a child's environment: what it may inherit of ``base``, ``entry`` over it, the tag."""
    if inherit == "all":
        env = dict(base)
    elif inherit == "minimal":
        env = {
            name: value for name, value in base.items() if name in MINIMAL or name.startswith("LC_")
        }
    else:
        env = {}
    env.update(entry)
    env[procfs.TAG] = tag
    return env


def _utf8(env: Mapping[str, str]) -> dict[str, str]:
    """Return what makes a server speak UTF-8, as MCP wants it, where the locale does not.

    A service manager sets no locale, and programs then take ASCII for everything. One that was
    chosen and has another encoding is left alone: Python alone is told what its pipes are.
    """
    chosen = next((env[name] for name in _LOCALE if env.get(name)), None)
    if chosen is None:
        return {"LC_CTYPE": UTF8_LOCALE}
    if _UTF8.search(chosen) or env.get("PYTHONIOENCODING") or env.get("PYTHONUTF8"):
        return {}
    return {"PYTHONIOENCODING": "utf-8"}


def _is_script(program: str) -> bool:
    """Tell whether a file names an interpreter, which may have to be found beside it."""
    try:
        with open(program, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _with_directory(path: str | None, directory: str) -> str:
    """Return ``path`` with ``directory`` at its end: where ``#!/usr/bin/env node`` finds node."""
    directories = (path or os.defpath).split(os.pathsep)
    if directory not in directories:
        directories.append(directory)
    return os.pathsep.join(directories)


def resolve(command: str, path: str | None, cwd: str, *, is_typed: bool = False) -> str:
    """Return the file that ``command`` means, as a shell in ``cwd`` with ``path`` would find it.

    With a slash it is taken from ``cwd``, without one it is looked up on ``path`` (the system's
    default when ``None``). Raises ``SpawnFailed`` that says where it was looked for.
    """
    if "/" in command:
        program = os.path.join(cwd, command)
        if not os.path.exists(program):
            raise command_not_found(command, [os.path.dirname(program)], is_typed=is_typed)
        if not os.path.isfile(program) or not os.access(program, os.X_OK):
            raise not_executable(command, program, [os.path.dirname(program)])
        return program
    searched = [os.path.join(cwd, each) for each in (path or os.defpath).split(os.pathsep)]
    barred = None
    for directory in searched if command else ():
        program = os.path.join(directory, command)
        if not os.path.isfile(program):
            continue
        if os.access(program, os.X_OK):
            return program
        barred = barred or program
    searched = [os.path.normpath(each) for each in searched]
    if barred is not None:
        raise not_executable(command, barred, searched)
    raise command_not_found(command, searched, is_typed=is_typed)


def spawn(
    launch: Launch,
    *,
    tag: str,
    umask: int = -1,
    nofile_soft: int | None = None,
    scope: Scope = "tree",
) -> Child:
    """Start a process in its own session, with three pipes and no other descriptor of ours.

    ``umask`` (-1: ours) and ``nofile_soft`` are what the daemon itself was started with. Takes
    a few milliseconds and never waits for the program. The child must be registered with the
    reaper before the loop runs again. Raises ``SpawnFailed``; nothing is left behind then.
    """
    if not os.path.isdir(launch.cwd):
        raise cwd_missing(launch.cwd)
    with contextlib.ExitStack() as undo:
        try:
            theirs, ours = _pipes(undo)
            if (
                max(*theirs, *ours) >= descriptors.usable()
            ):  # new ones get the lowest numbers there are
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            with _as_started(nofile_soft, highest_fd=max(theirs)) as limit_later:
                process = subprocess.Popen(
                    launch.argv,
                    executable=launch.program,
                    cwd=launch.cwd,
                    env=launch.env,
                    stdin=theirs[0],
                    stdout=theirs[1],
                    stderr=theirs[2],
                    close_fds=True,
                    start_new_session=True,
                    restore_signals=True,
                    umask=umask,
                )
        except (OSError, ValueError) as error:
            raise exec_refused(launch.argv[0], launch.program, launch.cwd, error) from None
        undo.callback(_abandon, process)
        if limit_later and nofile_soft is not None:
            _limit(process.pid, nofile_soft)
        identity = procfs.identify(process.pid)
        if identity is None and procfs.HAVE_PROC:  # nobody has waited for it: we can read nothing
            shortage = OSError(errno.ENFILE, os.strerror(errno.ENFILE))
            raise exec_refused(launch.argv[0], launch.program, launch.cwd, shortage)
        started = procfs.ticks_now() if identity is None else identity.started
        child = Child(process, started, tag=tag, argv=launch.argv, scope=scope, pipes=ours)
        undo.pop_all()
        for fd in theirs:
            os.close(fd)
        return child


def _abandon(process: subprocess.Popen[bytes]) -> None:
    """End a process that nobody will hear of, and take its status."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _pipes(undo: contextlib.ExitStack) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return the child's ends and ours of three pipes, all to be closed by ``undo``."""
    theirs: list[int] = []
    ours: list[int] = []
    for ours_writes in (True, False, False):
        reading, writing = os.pipe()  # neither end is inherited unless it is put in a child's place
        undo.callback(os.close, reading)
        undo.callback(os.close, writing)
        mine = writing if ours_writes else reading
        os.set_blocking(mine, False)
        if sys.platform == "linux" and len(ours) < 2:  # what comes on stderr is no large message
            with contextlib.suppress(OSError):  # more than a user's pipes may take together
                fcntl.fcntl(mine, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        ours.append(mine)
        theirs.append(reading if ours_writes else writing)
    return (theirs[0], theirs[1], theirs[2]), (ours[0], ours[1], ours[2])


@contextlib.contextmanager
def _as_started(nofile_soft: int | None, *, highest_fd: int) -> Iterator[bool]:
    """Be, while a child is made, what it is to inherit: signals at their defaults, the old limit.

    It lasts a millisecond and changes nothing for the rest of us. No signal that we handle is
    touched, only those ignored since before we began (``nohup``, a shell's ``&``). Lowering the
    limit for descriptors closes none, and new ones get the lowest free numbers: as our newest is
    well below the limit, no other thread can meet it. Where that is not so, the limit is left
    alone and the answer is that it is to be set afterwards, when the child runs already.
    """
    ignored = [
        signum
        for signum in signal.valid_signals()
        if signum not in (signal.SIGPIPE, signal.SIGXFSZ)  # Popen restores what Python ignores
        and signal.getsignal(signum) is signal.SIG_IGN
    ]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lower = nofile_soft is not None and nofile_soft != soft
    fits = nofile_soft is not None and highest_fd + SPARE_FDS < nofile_soft
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        for signum in ignored:
            signal.signal(signum, signal.SIG_DFL)
        if lower and fits and nofile_soft is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (nofile_soft, hard))
        yield lower and not fits
    finally:
        if lower and fits:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for signum in ignored:
            signal.signal(signum, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _limit(pid: int, nofile_soft: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (nofile_soft, hard))
