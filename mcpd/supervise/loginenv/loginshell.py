"""Runs the user's login shell once, within a time limit, to get its environment."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from mcpd import paths, tasks
from mcpd.errors import SpawnFailed
from mcpd.supervise import ladder
from mcpd.supervise.loginenv import loginpath
from mcpd.supervise.loginenv.loginpath import AnswerParser, LoginResult, NotUsable
from mcpd.supervise.process import Child
from mcpd.supervise.proctable import procfs
from mcpd.supervise.reaper import Reaper

TIMEOUT_S: Final = 5.0
"""Seconds for the shell, its rc files included."""

ABSOLUTE_WAIT_S: Final = 1.0
"""Seconds that a server waits for the result if its command is a path, which needs no PATH."""

GRACE_S: Final = 0.2
"""Seconds for processes that rc files started. An interactive shell ignores SIGTERM."""

LOWEST_FD: Final = 64
"""Lowest number of the pipe: a login bash closes descriptors 3 to 19 for what it executes."""

CHUNK_BYTES: Final = 1 << 16

LAST_CHUNKS: Final = 4
"""Chunks that are read after the shell has ended; a pipe holds one."""


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


class LoginShell:
    """The environment of the user's login shell.

    Its PATH is used if the daemon's own is a service manager's, its variables for the names that
    entries mention and the daemon lacks. The shell runs once in the daemon's life, when the first
    server that could need it starts. It ends before that server starts, and is never the parent of
    one. What it said is kept in memory alone.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        reaper: Reaper,
        daemon_id: str,
        on_result: Callable[[LoginResult], None],
        on_variables: Callable[[], None] = lambda: None,
        keeps_variables: Callable[[], bool] = lambda: True,
        timeout: float = TIMEOUT_S,
    ) -> None:
        """Create it; ``env`` is the daemon's environment.

        ``on_result`` is called once, at most, with what counts for the PATH, and ``on_variables``
        when the variables are known, which are kept if ``keeps_variables()``.
        """
        self.own = env.get("PATH")
        self._shell = loginpath.shell_of(env)
        self.shell = self._shell if loginpath.is_minimal(self.own) else None
        """The shell whose PATH is used; ``None`` if our own is."""
        self.login: LoginResult | None = None
        """What counts for the PATH, once the shell has answered."""
        self.variables: dict[str, str] | None = None if self._shell else {}
        """Its variables, once it has answered; empty if it gave no usable answer."""
        self.told = ""
        """What a message about a variable says of the shell, once it has answered."""
        self._env = env
        self._reaper = reaper
        self._daemon_id = daemon_id
        self._on_result = on_result
        self._on_variables = on_variables
        self._keeps_variables = keeps_variables
        self._timeout = timeout
        self._waiters: set[Callable[[], None]] = set()
        self._begun_at = 0.0  # monotonic; when the shell was started
        self._asking: asyncio.Task[None] | None = None
        self._ends: set[asyncio.Task[None]] = set()
        """Tasks that end shells."""

    def must_wait(self, spec: Command, then: Callable[[], None]) -> bool:
        """Say whether a start has to wait for the shell; ``then`` is called when it need not.

        A command that is a path is found without the result, so it waits ``ABSOLUTE_WAIT_S`` at
        most: long enough to have the same environment each time, unless an rc file hangs.
        """
        if self.shell is None or self.login is not None or not self._counts(spec):
            return False
        loop = asyncio.get_running_loop()
        self.ask()
        if "/" in spec.command and loop.time() >= self._begun_at + ABSOLUTE_WAIT_S:
            return False
        self._waiters.add(then)
        return True

    def ask(self) -> None:
        """Run the shell, unless it runs or its variables are known."""
        if self._asking is None and self._shell is not None and self.variables is None:
            loop = asyncio.get_running_loop()
            self._begun_at = loop.time()
            self._asking = tasks.spawn(self._ask(self._shell), name="loginshell.ask")
            loop.call_at(self._begun_at + ABSOLUTE_WAIT_S, self._wake)

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
        """Return which PATH servers get and why, for ``mcpctl status``."""
        login = self.login
        found: dict[str, object] = {
            "source": "daemon" if login is None or not login.added else "login shell",
            "shell": self.shell,
            "directories": ((login.path if login else self.own) or os.defpath).split(os.pathsep),
        }
        if login is not None:
            found |= {"added": login.added, "took_s": round(login.took_s, 3)}
            found |= {} if login.failure is None else {"failure": login.failure}
        return found

    async def close(self) -> None:
        """Stop asking, and wait until the shell has ended."""
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
        failure = None
        variables: dict[str, str] = {}
        try:
            answer = await self._run(shell, self._begun_at + self._timeout)
            variables = loginpath.variables(answer)
        except (NotUsable, OSError) as wrong:  # OSError: no descriptors; waiting starts go on
            failure = str(wrong)
        if self.shell is not None and self.login is None:
            self.login = await self._login(shell, variables.get("PATH", ""), failure)
            self._on_result(self.login)
        self._asking = None
        if self._keeps_variables():
            self.variables = variables
            self.told = f", and that of the login shell {shell}"
            if failure is not None:
                self.told = f"; the login shell {shell} was asked, too, but {failure}"
            self._on_variables()
        self._wake()

    async def _login(self, shell: str, told: str, failure: str | None) -> LoginResult:
        """Return what counts for the PATH; ``told`` is that of the shell."""
        path, added = self.own or "", 0
        if failure is None:
            try:
                path, added = await asyncio.to_thread(loginpath.merge, told, self.own)
            except NotUsable as wrong:
                failure = str(wrong)
        took = asyncio.get_running_loop().time() - self._begun_at
        return LoginResult(
            shell=shell, path=path or os.defpath, added=added, failure=failure, took_s=took
        )

    def _wake(self) -> None:
        """Call the waiting starts; each asks ``must_wait`` again."""
        waiters, self._waiters = self._waiters, set()
        for then in waiters:
            then()

    async def _run(self, shell: str, deadline: float) -> str:
        """Return the shell's answer; try the next command line if one gives none.

        Raises ``NotUsable``.
        """
        loop = asyncio.get_running_loop()
        mark = secrets.token_hex(loginpath.MARK_BYTES)
        with contextlib.ExitStack() as undo:
            reading, writing = open_pipe(undo)
            for number, argv in enumerate(loginpath.command_lines(shell, mark, writing), 1):
                child = self._start(
                    argv, reading, writing, f"{self._daemon_id}:login-shell:{number}"
                )
                try:
                    answer = await _read_answer(reading, AnswerParser(mark), child, deadline)
                finally:
                    ending = tasks.spawn(_end(child), name="loginshell.end")
                    self._ends.add(ending)
                    ending.add_done_callback(self._ends.discard)
                if answer is not None:
                    return answer
                if loop.time() >= deadline:
                    raise NotUsable(f"it did not answer within {self._timeout:g} s")
        raise NotUsable("it ended without an answer")

    def _start(self, argv: list[str], reading: int, writing: int, tag: str) -> Child:
        try:
            process = start(argv, self._env, writing, tag)
        except OSError as error:
            raise NotUsable(f"it cannot be started: {error.strerror}") from None
        identity = procfs.identify(process.pid)
        started = procfs.ticks_now() if identity is None else identity.started
        child = Child(process, started, tag=tag, argv=tuple(argv), pipes=(-1, reading, -1))
        return self._reaper.register(child)


def start(
    argv: Sequence[str], env: Mapping[str, str], writing: int, tag: str
) -> subprocess.Popen[bytes]:
    """Start a login shell in a session of its own; its answer goes to ``writing``."""
    home = paths.home(env)
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.DEVNULL,
        pass_fds=(writing,),
        cwd=home if os.path.isdir(home) else "/",
        env=loginpath.environment(env, argv[0], tag),
        start_new_session=True,
    )


def open_pipe(undo: contextlib.ExitStack) -> tuple[int, int]:
    """Return the reading and the writing end of a pipe; ``undo`` closes both.

    Reading does not block, and the writing end has a number that a shell's script does not use.
    """
    reading, low = os.pipe()
    undo.callback(os.close, reading)
    try:
        writing = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, LOWEST_FD)
    finally:
        os.close(low)
    undo.callback(os.close, writing)
    os.set_blocking(reading, False)
    return reading, writing


async def _read_answer(
    reading: int, parser: AnswerParser, child: Child, deadline: float
) -> str | None:
    """Return the answer, or ``None`` if there is none when the shell ends or at ``deadline``."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[str | None] = loop.create_future()

    def read() -> None:
        answer = None
        with contextlib.suppress(BlockingIOError):
            answer = parser.feed(os.read(reading, CHUNK_BYTES))
        if answer is not None and not result.done():
            result.set_result(answer)

    def ended(_: Child) -> None:
        loop.call_soon(finish)

    def finish() -> None:
        """Read the rest of the pipe, within a limit: other processes may still write to it."""
        for _ in range(LAST_CHUNKS):
            if not result.done():
                read()
        if not result.done():
            result.set_result(None)

    loop.add_reader(reading, read)
    child.on_exit(ended)
    try:
        await asyncio.wait((result,), timeout=max(0.0, deadline - loop.time()))
        return result.result() if result.done() else None
    finally:
        result.cancel()
        loop.remove_reader(reading)


async def _end(child: Child) -> None:
    """End the shell and the processes that its rc files started."""
    await ladder.stop(child, close_stdin=lambda: None, grace=GRACE_S)
