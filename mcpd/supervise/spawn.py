"""Finds a server's program, builds its environment, and starts it as a child process."""

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
"""A locale that sets the character encoding only: no language, sort order or number format."""

_LOCALE = ("LC_ALL", "LC_CTYPE", "LANG")
"""The first that is set determines the encoding."""

_ENCODINGS = (*_LOCALE, "PYTHONIOENCODING", "PYTHONUTF8")
_UTF8 = re.compile(r"utf-?8", re.IGNORECASE)

PIPE_BYTES = 256 * 1024
"""Buffer size requested for stdin and stdout, whose default is 64 KiB, so that a large message
takes fewer reads and writes. More is no faster, and the kernel limits all pipes of a user together
(64 MiB): beyond that each new pipe of any of the user's programs gets a small buffer."""

SPARE_FDS = 64
"""Descriptors that other threads may open while a child is being started."""


class PreparedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that ``spawn`` needs to start a process; made by ``prepare``."""

    argv: tuple[str, ...]
    """The arguments; the first is the command as written in the configuration."""

    program: str
    """The path of the executable file, from ``resolve``."""

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
) -> PreparedCommand:
    """Return an entry's command with its program found and its environment complete.

    ``env`` is the entry's own. ``base_env``, from which it inherits, defaults to this process's;
    an ad-hoc server inherits from its client's. ``is_typed`` says that the command was typed after
    ``mcpctl connect --`` and has no entry. Raises ``SpawnFailed``, which the user has to fix.
    """
    base = os.environ if base_env is None else base_env
    whole = build_environment(base, env, inherit=inherit, tag=tag)
    if inherit != "none" and not any(env.get(name) for name in _ENCODINGS):
        whole.update(_utf8(whole))
    program = resolve(command, whole.get("PATH", base.get("PATH")), cwd, is_typed=is_typed)
    if os.path.isabs(command) and _is_script(program):
        whole["PATH"] = _with_directory(whole.get("PATH"), os.path.dirname(program))
    return PreparedCommand(argv=(command, *args), program=program, env=whole, cwd=cwd)


def build_environment(
    base: Mapping[str, str],
    entry: Mapping[str, str],
    *,
    inherit: Literal["all", "minimal", "none"] = "all",
    tag: str,
) -> dict[str, str]:
    """Return a child's environment: what it inherits of ``base``, then ``entry``, then the tag."""
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
    """Return variables that make a server use UTF-8, which MCP requires, if its locale does not.

    A service manager sets no locale, and programs then assume ASCII. A locale that was chosen and
    has another encoding is kept; only Python's pipes are set to UTF-8 then.
    """
    chosen = next((env[name] for name in _LOCALE if env.get(name)), None)
    if chosen is None:
        return {"LC_CTYPE": UTF8_LOCALE}
    if _UTF8.search(chosen) or env.get("PYTHONIOENCODING") or env.get("PYTHONUTF8"):
        return {}
    return {"PYTHONIOENCODING": "utf-8"}


def _is_script(program: str) -> bool:
    """Return whether a file begins with ``#!``; its interpreter may be in the same directory."""
    try:
        with open(program, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _with_directory(path: str | None, directory: str) -> str:
    """Return ``path`` with ``directory`` appended, so that ``#!/usr/bin/env node`` finds node."""
    directories = (path or os.defpath).split(os.pathsep)
    if directory not in directories:
        directories.append(directory)
    return os.pathsep.join(directories)


def resolve(command: str, path: str | None, cwd: str, *, is_typed: bool = False) -> str:
    """Return the executable file that a shell in ``cwd`` with ``path`` would find for ``command``.

    A command with a slash is relative to ``cwd``; any other is searched for on ``path`` (the
    system's default if ``None``). Raises ``SpawnFailed`` with the directories that were searched.
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
    command: PreparedCommand,
    *,
    tag: str,
    umask: int = -1,
    nofile_soft: int | None = None,
    scope: Scope = "tree",
) -> Child:
    """Start a process in its own session, with three pipes and no other descriptor of ours.

    ``umask`` (-1: ours) and ``nofile_soft`` are those that the daemon itself was started with.
    Takes a few milliseconds and never waits for the program. Register the child with the reaper
    before the loop runs again. Raises ``SpawnFailed``; no process or descriptor is left then.
    """
    if not os.path.isdir(command.cwd):
        raise cwd_missing(command.cwd)
    with contextlib.ExitStack() as undo:
        try:
            theirs, ours = _pipes(undo)
            if (
                max(*theirs, *ours) >= descriptors.usable()
            ):  # new ones get the lowest numbers there are
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            with _as_started(nofile_soft, highest_fd=max(theirs)) as limit_later:
                process = subprocess.Popen(
                    command.argv,
                    executable=command.program,
                    cwd=command.cwd,
                    env=command.env,
                    stdin=theirs[0],
                    stdout=theirs[1],
                    stderr=theirs[2],
                    close_fds=True,
                    start_new_session=True,
                    restore_signals=True,
                    umask=umask,
                )
        except (OSError, ValueError) as error:
            raise exec_refused(command.argv[0], command.program, command.cwd, error) from None
        undo.callback(_abandon, process)
        if limit_later and nofile_soft is not None:
            _limit(process.pid, nofile_soft)
        identity = procfs.identify(process.pid)
        if identity is None and procfs.HAVE_PROC:  # it cannot have been reaped: no descriptor left
            shortage = OSError(errno.ENFILE, os.strerror(errno.ENFILE))
            raise exec_refused(command.argv[0], command.program, command.cwd, shortage)
        started = procfs.ticks_now() if identity is None else identity.started
        child = Child(process, started, tag=tag, argv=command.argv, scope=scope, pipes=ours)
        undo.pop_all()
        for fd in theirs:
            os.close(fd)
        return child


def _abandon(process: subprocess.Popen[bytes]) -> None:
    """Kill a process whose start is being undone, and reap it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _pipes(undo: contextlib.ExitStack) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return the child's ends and our ends of three pipes; ``undo`` closes all of them."""
    theirs: list[int] = []
    ours: list[int] = []
    for ours_writes in (True, False, False):
        reading, writing = os.pipe()  # a child inherits neither, unless as its stdin or stdout
        undo.callback(os.close, reading)
        undo.callback(os.close, writing)
        mine = writing if ours_writes else reading
        os.set_blocking(mine, False)
        if sys.platform == "linux" and len(ours) < 2:  # stderr carries no large messages
            with contextlib.suppress(OSError):  # the limit of all the user's pipes is reached
                fcntl.fcntl(mine, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        ours.append(mine)
        theirs.append(reading if ours_writes else writing)
    return (theirs[0], theirs[1], theirs[2]), (ours[0], ours[1], ours[2])


@contextlib.contextmanager
def _as_started(nofile_soft: int | None, *, highest_fd: int) -> Iterator[bool]:
    """Set, while a child is started, the signal dispositions and the limit that it inherits.

    This takes a millisecond and does not affect the rest of the daemon. Signals that we handle are
    untouched; only those that were ignored when we started (``nohup``, a shell's ``&``) are reset.
    Lowering the limit on descriptors closes none, and new ones get the lowest free numbers: if our
    newest is well below the limit, no other thread can run into it. Otherwise the limit stays as it
    is, and the context value is true: the caller has to set it in the running child.
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
