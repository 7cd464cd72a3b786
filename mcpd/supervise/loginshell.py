"""Asks the user's login shell for its PATH: once, off the way of everything else, with an end."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import subprocess
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from mcpd import paths, tasks
from mcpd.errors import SpawnFailed
from mcpd.supervise import ladder, loginpath, procfs
from mcpd.supervise.loginpath import Answer, Login, NotUsable
from mcpd.supervise.process import Child
from mcpd.supervise.reaper import Reaper

TIMEOUT_S: Final = 5.0
"""For the shell, its rc files included."""

PATIENCE_S: Final = 1.0
"""How long a command waits for it that is an absolute path and so is found without."""

GRACE_S: Final = 0.2
"""For what rc files have left running. An interactive shell ignores SIGTERM."""

LOWEST_FD: Final = 64
"""Of the pipe: a login shell of bash keeps those from 3 to 19 from what it executes."""

CHUNK_BYTES: Final = 1 << 16

LAST_CHUNKS: Final = 4
"""Of what is read after its end; a pipe holds one."""


class Command(Protocol):
    """What counts in a server's command for the PATH on which it is found."""

    @property
    def command(self) -> str:
        """The program: a name, or a path."""

    @property
    def env(self) -> Mapping[str, str]:
        """The variables of its entry."""

    @property
    def base_env(self) -> Mapping[str, str]:
        """The environment that it may inherit."""

    @property
    def is_typed(self) -> bool:
        """Whether it is a command line of a client, with its environment."""


class LoginPath:
    """The PATH of the user's login shell, where the daemon's own is a service manager's.

    The shell is asked when the first process that could need it is to be started, and once in the
    daemon's life. It is not between us and any server: it has ended before one starts.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        reaper: Reaper,
        daemon_id: str,
        tell: Callable[[Login], None],
        timeout: float = TIMEOUT_S,
    ) -> None:
        """``env`` is the daemon's environment; ``tell`` hears what came of asking."""
        self.own = env.get("PATH")
        self.shell = loginpath.shell_of(env) if loginpath.is_minimal(self.own) else None
        """Whom to ask; ``None`` where our own PATH does."""
        self.login: Login | None = None
        """What came of it; ``None`` before that."""
        self._env = env
        self._reaper = reaper
        self._daemon_id = daemon_id
        self._tell = tell
        self._timeout = timeout
        self._waiters: set[Callable[[], None]] = set()
        self._begun_at: float | None = None
        self._asking: asyncio.Task[None] | None = None
        self._ends: set[asyncio.Task[None]] = set()
        """The clearing up after shells."""

    def must_wait(self, spec: Command, then: Callable[[], None]) -> bool:
        """Say whether a start has to wait for the shell; ``then`` is called when it need not.

        A command that is a path is found without, and waits for ``PATIENCE_S`` at most: it is to
        have the same environment each time, but not to suffer from an rc file that hangs.
        """
        if self.shell is None or self.login is not None or not self._counts(spec):
            return False
        loop = asyncio.get_running_loop()
        if self._begun_at is None:
            self._begun_at = loop.time()
            self._asking = tasks.spawn(self._ask(self.shell), name="loginshell.ask")
            loop.call_at(self._begun_at + PATIENCE_S, self._wake)
        if "/" in spec.command and loop.time() >= self._begun_at + PATIENCE_S:
            return False
        self._waiters.add(then)
        return True

    def base_of(self, spec: Command) -> Mapping[str, str]:
        """Return what a server may inherit, with the PATH that counts."""
        if self.login is None or not self._counts(spec):
            return spec.base_env
        return {**spec.base_env, "PATH": self.login.path}

    def explain(self, spec: Command, error: SpawnFailed) -> SpawnFailed:
        """Return a failure that says whose PATH a command was looked for on."""
        if spec.is_typed or "/" in spec.command or not error.details.get("searched"):
            return error
        whose = self._whose(spec)
        hint = whose if error.hint is None else f"{error.hint}. {whose}"
        return SpawnFailed(error.message, hint=hint, **error.details)

    def report(self) -> dict[str, object]:
        """Return, for people, which PATH servers get and why."""
        login = self.login
        told: dict[str, object] = {
            "source": "daemon" if login is None or not login.added else "login shell",
            "shell": self.shell,
            "directories": ((login.path if login else self.own) or os.defpath).split(os.pathsep),
        }
        if login is not None:
            told |= {"added": login.added, "took_s": round(login.took_s, 3)}
            told |= {} if login.failure is None else {"failure": login.failure}
        return told

    async def close(self) -> None:
        """Ask no more; nothing is left of the shell."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait((self._asking,))
        if self._ends:
            await asyncio.wait(self._ends)

    # -- inside ------------------------------------------------------------------------------------

    def _counts(self, spec: Command) -> bool:
        """Tell whether a server's command is looked for on the daemon's own PATH."""
        return "PATH" not in spec.env and spec.base_env.get("PATH") == self.own

    def _whose(self, spec: Command) -> str:
        if not self._counts(spec):
            return "What was searched is the PATH that its entry or its client sets"
        if self.login is None:
            return "What was searched is the daemon's own PATH"
        if self.login.failure is not None:
            why = f"the login shell {self.shell} was asked for its own, but {self.login.failure}"
            return f"What was searched is the daemon's own PATH: {why}"
        return f"What was searched is the PATH of the login shell {self.shell}, and the daemon's"

    async def _ask(self, shell: str) -> None:
        loop = asyncio.get_running_loop()
        begun_at = loop.time()
        failure = None
        path, added = self.own or "", 0
        try:
            told = await self._told(shell, begun_at + self._timeout)
            path, added = await asyncio.to_thread(loginpath.merged, told, self.own)
        except (NotUsable, OSError) as wrong:  # no descriptors: nobody is to wait for ever
            failure = str(wrong)
        took = loop.time() - begun_at
        self.login = Login(
            shell=shell, path=path or os.defpath, added=added, failure=failure, took_s=took
        )
        self._tell(self.login)
        self._wake()

    def _wake(self) -> None:
        """Let those look again who wait; who still has to wait will say so."""
        waiters, self._waiters = self._waiters, set()
        for then in waiters:
            then()

    async def _told(self, shell: str, deadline: float) -> str:
        """Return what the shell says; a second, plainer question where the first is not answered.

        Raises ``NotUsable``.
        """
        loop = asyncio.get_running_loop()
        mark = secrets.token_hex(loginpath.MARK_BYTES)
        with contextlib.ExitStack() as undo:
            reading, writing = _pipe(undo)
            for number, argv in enumerate(loginpath.attempts(shell, mark, writing), 1):
                child = self._start(
                    argv, reading, writing, f"{self._daemon_id}:login-path:{number}"
                )
                try:
                    told = await _hear(reading, Answer(mark), child, deadline)
                finally:
                    ending = tasks.spawn(_end(child), name="loginshell.end")
                    self._ends.add(ending)
                    ending.add_done_callback(self._ends.discard)
                if told is not None:
                    return told
                if loop.time() >= deadline:
                    raise NotUsable(f"it did not answer within {self._timeout:g} s")
        raise NotUsable("it ended without an answer")

    def _start(self, argv: list[str], reading: int, writing: int, tag: str) -> Child:
        home = paths.home(self._env)
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=subprocess.DEVNULL,
                pass_fds=(writing,),
                cwd=home if os.path.isdir(home) else "/",
                env=loginpath.environment(self._env, argv[0], tag),
                start_new_session=True,
            )
        except OSError as error:
            raise NotUsable(f"it cannot be started: {error.strerror}") from None
        identity = procfs.identify(process.pid)
        started = procfs.ticks_now() if identity is None else identity.started
        child = Child(process, started, tag=tag, argv=tuple(argv), pipes=(-1, reading, -1))
        return self._reaper.register(child)


def _pipe(undo: contextlib.ExitStack) -> tuple[int, int]:
    """Return what to read from and what the shell writes to, which ``undo`` closes."""
    reading, low = os.pipe()
    undo.callback(os.close, reading)
    try:
        writing = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, LOWEST_FD)
    finally:
        os.close(low)
    undo.callback(os.close, writing)
    os.set_blocking(reading, False)
    return reading, writing


async def _hear(reading: int, answer: Answer, child: Child, deadline: float) -> str | None:
    """Read until the answer is there, the shell has ended, or ``deadline``; ``None``: no answer."""
    loop = asyncio.get_running_loop()
    heard: asyncio.Future[str | None] = loop.create_future()

    def read() -> None:
        told = None
        with contextlib.suppress(BlockingIOError):
            told = answer.feed(os.read(reading, CHUNK_BYTES))
        if told is not None and not heard.done():
            heard.set_result(told)

    def ended(_: Child) -> None:
        loop.call_soon(finish)

    def finish() -> None:
        """What it wrote before it ended is in the pipe; others may go on writing there."""
        for _ in range(LAST_CHUNKS):
            if not heard.done():
                read()
        if not heard.done():
            heard.set_result(None)

    loop.add_reader(reading, read)
    child.on_exit(ended)
    try:
        await asyncio.wait((heard,), timeout=max(0.0, deadline - loop.time()))
        return heard.result() if heard.done() else None
    finally:
        heard.cancel()
        loop.remove_reader(reading)


async def _end(child: Child) -> None:
    """End the shell, and what its rc files have started there."""
    await ladder.stop(child, close_stdin=lambda: None, grace=GRACE_S)
