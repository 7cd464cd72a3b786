"""The daemon's life: the order of its start, what wakes it, how it ends."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import socket
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from mcpd import __version__, launch, paths, tasks
from mcpd.config.diff import Change
from mcpd.core.facts import Fact, ServerReady, ServerStopped
from mcpd.core.facts import SessionClosed as SessionIsOver
from mcpd.core.mux import commands as cmd
from mcpd.core.mux import events
from mcpd.core.mux.client_messages import NO_SESSION
from mcpd.core.mux.entries import Settings
from mcpd.core.mux.mux import Mux
from mcpd.core.wire.framing import Frame, Oversized
from mcpd.daemon.adhoc import AdHoc
from mcpd.daemon.backend import Answers
from mcpd.daemon.cache import CatalogCache, Remembered
from mcpd.daemon.checks import Checks
from mcpd.daemon.clock import Clock
from mcpd.daemon.drain import Drain
from mcpd.daemon.herald import Herald
from mcpd.daemon.memory_watch import MemoryWatch
from mcpd.daemon.operate import Operator
from mcpd.daemon.perform import Performer
from mcpd.daemon.place import Place
from mcpd.daemon.registry import Registry
from mcpd.daemon.reload import Reloader
from mcpd.daemon.stamp import stamp_of
from mcpd.daemon.watchdog import Watchdog
from mcpd.errors import PathRefused
from mcpd.ids import SessionId, SlotId
from mcpd.listeners.connection import HUNG_UP, Connection, Outboxes
from mcpd.listeners.control import Desk
from mcpd.listeners.halfopen import HalfOpen
from mcpd.listeners.peer import Peer
from mcpd.listeners.unix import UnixListener
from mcpd.observe.journal import Journal
from mcpd.observe.logs import DaemonLog, install
from mcpd.observe.observer import Observer
from mcpd.schemas.suggest import nearest
from mcpd.service import bind, privatedir
from mcpd.service.lock import DaemonLock
from mcpd.service.notify import Notifier
from mcpd.supervise import descriptors, files
from mcpd.supervise.guard import Guardian
from mcpd.supervise.ledger import Ledger, new_daemon_id
from mcpd.supervise.logfile import last_lines
from mcpd.supervise.loginpath import Login
from mcpd.supervise.loginshell import LoginPath
from mcpd.supervise.logroom import LogRoom, Removed
from mcpd.supervise.logs import ServerLog
from mcpd.supervise.process import Child
from mcpd.supervise.slot import Spec
from mcpd.supervise.supervisor import Supervisor
from mcpd.supervise.sweep import sweep_dead
from mcpd.upstreams.stdio import Pipes

SLACK_BYTES = 64 * 1024
"""What a client's line may have over ``max_request_bytes``, which counts what is sent on."""

SECRET_BYTES = 32
QUESTION_BYTES = 5
"""Of chance in the ids of our questions, which JavaScript must hold as numbers."""

MOST_CONNECTIONS = 1000

AT_LEAST_STARTS = 4

LEFT_LENGTH = 300
"""Characters told of what an engine of containers says of those of a dead daemon."""

LEDGER_RETRY_S = 10.0
"""Between two tries to write what a full disk did not take."""

BAD_CONFIG = 78
"""Exit status: no file of the configuration could be read as one (EX_CONFIG)."""


class Flags(Protocol):
    """The command line, as far as it concerns a running daemon."""

    config: str | None
    log_level: str | None


class Start(Protocol):
    """What was found before the loop ran."""

    @property
    def options(self) -> Flags: ...

    umask: int
    """What servers get."""

    nofile_soft: int
    """Likewise."""

    signals: list[int]
    """Those that came already."""

    notifier: Notifier
    """The way to the service manager."""


def run(
    start: Start,
    path: str,
    lock: DaemonLock,
    listener: socket.socket,
    identity: bind.Identity | None,
) -> int:
    """Be the daemon until it is to end; return the exit status.

    Raises ``PathRefused`` where there is no place for its state.
    """
    state_dir = paths.state_dir()
    privatedir.ensure_private(
        state_dir, own="MCPD_STATE_DIR" not in os.environ, elsewhere=paths.STATE_ELSEWHERE
    )
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_live(start, path, state_dir, lock, listener, identity))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:  # it has no build for this platform
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _live(
    start: Start,
    path: str,
    state_dir: str,
    lock: DaemonLock,
    listener: socket.socket,
    identity: bind.Identity | None,
) -> int:
    log = DaemonLog(
        level=start.options.log_level or "info",
        file=os.path.join(state_dir, "mcpd.log"),
        read_back=last_lines,
        open_directory=files.open_checked,
    )
    install(log)
    daemon = Daemon(start, path, state_dir, log)
    for problem in daemon.config_errors:
        log.log("error", "config.error", problem=problem)
    if daemon.is_refused:
        log.log("error", "config.refused", hint=launch.check_command(start.options.config))
        return BAD_CONFIG
    return await daemon.live(lock, listener, identity)


class Daemon:
    """Everything, wired together; the only object that knows everybody."""

    def __init__(self, start: Start, path: str, state_dir: str, log: DaemonLog) -> None:
        """Read the configuration and make what it asks for; nothing runs yet."""
        loop = asyncio.get_running_loop()
        self._start = start
        self._path = path
        self._log = log
        self._journal = Journal()
        self._id = new_daemon_id()
        self._state_dir = state_dir
        self._sessions = itertools.count(1)
        self._ending: asyncio.Future[tuple[str, float | None]] = loop.create_future()
        self._cache = CatalogCache(state_dir, on_trouble=self._warn_of_cache)
        self._room = LogRoom(
            state_dir, known=self._log_files, on_removed=self._tell_of_removed_logs
        )
        self._registry = Registry(
            state_dir,
            self._cache,
            dict(os.environ),
            on_log_growth=self._room.grew,
            on_log_trouble=self._warn_of_log,
        )
        log.on_growth = self._room.grew
        log.mask = lambda text: self._mask(None, text)
        self._reloader = Reloader(
            start.options.config,
            datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %Z"),
            registry=self._registry,
            applied=self._configuration_changed,
            log=log,
            journal=self._journal,
        )
        self._reloader.watch()
        loaded = self._reloader.read()
        self._registry.apply(loaded)
        self._reloader.watch()
        self.config_errors = [str(problem) for problem in loaded.errors]
        self.is_refused = loaded.broken
        """Whether the configuration is none at all, and not only wrong in some entries."""
        settings = self._registry.daemon
        self._take_limits()
        self._observer = Observer(log, self._journal, self._note, self._mask)
        mux = Mux(
            Settings(
                version=__version__,
                max_request_bytes=settings.max_request_bytes,
                list_wait=settings.list_wait,
                secret=os.urandom(SECRET_BYTES),
                max_buffered_bytes=settings.max_buffered_bytes,
                first_question=int.from_bytes(os.urandom(QUESTION_BYTES), "big") + 1,
            ),
            suggest=nearest,
        )
        self._clock = Clock(loop, on_gap=self._note_gap)
        self._performer = Performer(mux, self._clock)
        mux.context.unfinished = self._performer.unfinished
        self._supervisor = Supervisor(
            self,
            daemon_id=self._id,
            state_dir=state_dir,
            most_starts=_most_starts(settings.max_concurrent_starts),
            umask=start.umask,
            nofile_soft=start.nofile_soft,
        )
        self._supervisor.login = LoginPath(
            os.environ,
            reaper=self._supervisor.reaper,
            daemon_id=self._id,
            tell=self._note_login_path,
        )
        self._performer.supervisor = self._supervisor
        self._operator = Operator(self._registry, mux, self._supervisor, self.dispatch)
        self._ad_hoc = AdHoc(self._registry, mux, self._entries_changed)
        self._memory = MemoryWatch(
            self._registry.memory_max, supervisor=self._supervisor, mux=mux, tell=self.tell
        )
        self._checks = Checks(self._supervisor.reaper, self.dispatch)
        self._answers = Answers(
            socket=path,
            config=start.options.config or os.environ.get("MCPD_CONFIG") or None,
            registry=self._registry,
            mux=mux,
            supervisor=self._supervisor,
            operator=self._operator,
            reloader=self._reloader,
            ad_hoc=self._ad_hoc,
            log=log,
            journal=self._journal,
            shutdown=lambda drain: self.end("asked by mcpd/shutdown", drain),
            problems=self._problems,
        )
        self._desk = Desk(self._answers, dispatch=self.dispatch, notify=self._notify)
        self._herald = Herald(start.notifier, self._registry, mux, self._supervisor)
        self._outboxes = Outboxes(one_bytes=settings.outbox_bytes, memory=mux.memory)
        self._half_open = HalfOpen(lambda session: self.dispatch(events.InputEnded(session)))
        self._ledger: Ledger
        self._ledger_retry: asyncio.TimerHandle | None = None
        """While the ledger's last change is not on disk: when it is tried again."""
        self._listener: UnixListener
        self._drain: Drain
        self._place: Place
        self._performer.route(cmd.Tell, lambda command: self.tell(command.fact))
        self._performer.route(cmd.Control, self._serve)
        self._performer.route(cmd.ControlCancelled, lambda c: self._desk.cancel(c.session, c.key))
        self._performer.route(cmd.Validate, self._checks.check)
        self._performer.route(cmd.KeepCatalog, self._keep_catalog)

    async def live(
        self, lock: DaemonLock, listener: socket.socket, identity: bind.Identity | None
    ) -> int:
        """Serve until it is to end, then end everything; return the exit status."""
        supervisor = self._supervisor
        watchdog = Watchdog(asyncio.get_running_loop())
        watchdog.start()
        self._ledger = self._open_ledger()
        guardian = Guardian(self._ledger.path, supervisor.reaper, on_trouble=self._warn_of_guardian)
        self._listener = UnixListener(
            listener,
            most=MOST_CONNECTIONS,
            usable_fds=lambda: (descriptors.usable(), descriptors.usable_for_control()),
            connect=self._connect,
            admitted=lambda connection: self.dispatch(events.Admitted(connection.session)),
            is_idle=lambda connection: not self._performer.mux.owes(connection.session),
            refused=self._warn_of_refusal,
        )
        self._place = Place(
            self._path,
            lock,
            identity,
            is_lent=identity is None,
            replace=self._listener.replace,
            lost=self.end,
            refused=self._warn_of_place,
        )
        self._drain = Drain(self._performer, supervisor, self._listener)
        supervisor.reaper.start()
        # Before anybody is answered: a process that is just being started holds our socket and our
        # lock until its exec, also when we are killed meanwhile.
        guardian.start()
        self._take_signals()
        self._entries_changed()
        self._listener.start()
        self._place.start()
        self._herald.ready()
        lock.announce()
        self._log.log(
            "info", "daemon.started", pid=os.getpid(), version=__version__, socket=self._path
        )
        opening = tasks.spawn(self._open_for_servers(), name="daemon.open")
        gc.freeze()
        reason, drain = await self._ending
        opening.cancel()
        await self._stop(reason, drain, guardian)
        watchdog.close()
        return 0

    def end(self, reason: str, drain: float | None = None) -> None:
        """Begin to end; the second time, hurry."""
        if not self._ending.done():
            self._ending.set_result((reason, drain))
        else:
            self._drain.hurry()

    # -- what the supervisor asks ------------------------------------------------------------------

    def spec(self, slot: SlotId) -> Spec | None:
        """Return how to run what belongs in a slot."""
        return self._registry.spec(slot)

    def log(self, server: str) -> ServerLog:
        """Return a server's log."""
        return self._registry.log(server)

    def pipes(
        self, slot: SlotId, on_stderr: Callable[[bytes], None], on_end: Callable[[], None]
    ) -> Pipes:
        """Make what reads and writes a child's pipes."""
        settings = self._registry.daemon
        pipes = Pipes(
            max_message_bytes=settings.max_message_bytes,
            max_unsent_bytes=settings.outbox_bytes,
            memory=self._performer.mux.memory,
            on_frame=self._performer.frame_from(slot),
            on_stderr=on_stderr,
            on_end=on_end,
        )
        self._performer.pipes[slot] = pipes
        return pipes

    def said_instead(self, slot: SlotId) -> str:
        """Return the end of an error: what a process that is not ready wrote that is no message."""
        return self._performer.mux.said_instead(slot)

    def now(self) -> float:
        """Return the daemon's time."""
        return self._clock.now()

    def dispatch(self, event: events.Event) -> None:
        """Have the mux react."""
        self._performer.dispatch(event)

    def arm(self) -> None:
        """Have the one timer go off in time."""
        self._performer.arm()

    def tell(self, fact: Fact) -> None:
        """Say what happened to whoever wants to know."""
        self._observer.tell(fact)
        self._herald.changed()
        if isinstance(fact, SessionIsOver):
            self._ad_hoc.session_closed(fact.server)
        elif isinstance(fact, ServerReady):
            self._memory.wake()
        elif isinstance(fact, ServerStopped):
            asyncio.get_running_loop().call_soon(self._forget_logs)

    def record(self, child: Child, server: str, generation: int) -> None:
        """Write a new child down."""
        self._ledger.record(child, server, generation)
        self._warn_of_ledger()

    def record_members(self) -> None:
        """Write down what has become known of trees."""
        self._ledger.save()
        self._warn_of_ledger()

    def forget(self, child: Child) -> None:
        """Strike out one whose tree is gone."""
        self._ledger.forget(child)
        self._warn_of_ledger()

    # -- beginning and ending ----------------------------------------------------------------------

    def _open_ledger(self) -> Ledger:
        try:
            return Ledger(self._state_dir, self._id)
        except OSError as error:
            raise PathRefused(
                f"cannot keep a record of processes in {self._state_dir}: {error.strerror}",
                hint="MCPD_STATE_DIR names another place for it",
            ) from None

    async def _open_for_servers(self) -> None:
        """Clear up after daemons that died, then let servers start."""
        swept = await sweep_dead(self._state_dir, own=self._id)
        if swept.dead or swept.set_aside:
            left = "; ".join(swept.containers_left).encode()
            self._log.log(
                "warning",
                "ledger.swept",
                daemons=swept.dead,
                processes=swept.reaped,
                containers=swept.containers or None,
                left=self._registry.redactor(None).excerpt(left, LEFT_LENGTH) or None,
                set_aside=", ".join(swept.set_aside) or None,
            )
        self._supervisor.allow_starts()
        for server in list(self._registry):
            config = server.configured.config
            if config is not None and config.start == "eager":
                self._operator.start_unasked(server.name)

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        actions = {
            signal.SIGTERM: lambda: self.end("SIGTERM"),
            signal.SIGINT: lambda: self.end("SIGINT"),
            signal.SIGHUP: self._hang_up,
        }
        for signum, action in actions.items():
            loop.add_signal_handler(signum, action)
        for number in self._start.signals:  # those that came before the loop ran
            if number != signal.SIGHUP:
                self.end(signal.Signals(number).name)

    def _hang_up(self) -> None:
        tasks.spawn(self._reload(), name="reload")

    async def _reload(self) -> None:
        self._herald.reloading()
        try:
            await self._reloader.reload("SIGHUP")
        finally:
            self._herald.ready()

    async def _stop(self, reason: str, drain: float | None, guardian: Guardian) -> None:
        timeout = self._registry.daemon.drain_timeout if drain is None else drain
        self._log.log("info", "daemon.draining", reason=reason, timeout_s=timeout)
        self._journal.add("daemon.draining", reason=reason)
        self._herald.stopping(reason, timeout)
        self._place.close()
        self._reloader.close()
        self._ad_hoc.close()
        self._memory.close()
        stopped = await self._drain.run(timeout)
        self._desk.close()
        self._performer.close()
        await self._checks.close()
        if self._supervisor.login is not None:
            await self._supervisor.login.close()
        await guardian.farewell()
        if self._ledger_retry is not None:
            self._ledger_retry.cancel()
        self._ledger.close()
        await self._cache.flush()
        await self._room.close()
        self._registry.close()
        self._half_open.close()
        self._supervisor.reaper.close()
        self._place.remove_socket()
        self._herald.close()
        self._log.log(
            "info",
            "daemon.stopped",
            reason=reason,
            uptime_s=self._answers.uptime_s(),
            servers_stopped=stopped,
        )

    # -- the configuration -------------------------------------------------------------------------

    def _entries_changed(self) -> None:
        self.dispatch(events.EntriesChanged(self._registry.entries()))

    def _configuration_changed(self, change: Change) -> None:
        for name in (*change.changed, *change.removed):
            self._operator.release(name)
        self._entries_changed()
        self._take_limits()
        self._forget_logs()
        self._supervisor.most_starts = _most_starts(self._registry.daemon.max_concurrent_starts)
        self._supervisor.apply_rules()
        self._memory.wake()
        self._operator.forgive(change.changed)
        for name in (*change.added, *change.changed):
            server = self._registry.get(name)
            config = None if server is None else server.configured.config
            if config is not None and config.start == "eager":
                self._operator.start_unasked(name)

    def _take_limits(self) -> None:
        settings = self._registry.daemon
        self._log.limit(
            level=self._start.options.log_level or settings.log_level,
            max_bytes=settings.log_max_bytes,
            backups=settings.log_backups,
        )
        self._room.max_bytes = settings.logs_max_bytes
        self._room.look_soon()

    # -- connections -------------------------------------------------------------------------------

    def _connect(self, _peer: Peer, in_reserve: bool) -> Connection:
        session = SessionId(next(self._sessions))
        settings = self._registry.daemon
        connection = Connection(
            session,
            max_frame_bytes=settings.max_request_bytes + SLACK_BYTES,
            outboxes=self._outboxes,
            on_frame=self._hear,
            on_closed=self._closed,
            half_open=self._half_open,
        )
        self._performer.connections[session] = connection
        self.dispatch(events.SessionOpened(session, in_reserve))
        return connection

    def _hear(self, session: SessionId, frame: Frame | Oversized) -> None:
        self._performer.dispatch(events.FrameFromSession(session, frame))

    def _closed(self, session: SessionId, reason: str) -> None:
        connection = self._performer.connections.pop(session, None)
        if connection is not None:
            self._listener.ended(connection)
        if reason == NO_SESSION:
            self._listener.say(reason)
        elif not reason.startswith(HUNG_UP):
            self._log.log("info", "connection.closed", session=session, reason=reason)
        self.dispatch(events.SessionClosed(session, reason))

    def _notify(self, session: SessionId, line: bytes) -> None:
        connection = self._performer.connections.get(session)
        if connection is not None:
            connection.write(line, is_notification=True)

    def _serve(self, command: cmd.Control) -> None:
        if command.method == "mcpd/call":
            self._checks.prewarm()
        self._desk.serve(command)

    # -- words -------------------------------------------------------------------------------------

    def _keep_catalog(self, command: cmd.KeepCatalog) -> None:
        for server in self._registry:
            if server.entry.launch == command.launch and server.spec and not server.is_ad_hoc:
                stamp = stamp_of(server.spec)
                said = Remembered(
                    command.introduction,
                    command.catalog,
                    command.has_asked,
                    stamp,
                    command.offer,
                    command.capabilities,
                    command.of_clients,
                )
                redactor = self._registry.redactor(server.name)
                self._cache.keep(server.name, server.cache_key, said, redactor)

    def _note(self, server: str, source: str, text: str) -> None:
        self._registry.log(server).add(source, text)

    def _mask(self, server: str | None, text: str) -> str:
        if server is None:
            return self._registry.redactor(None).mask(text)
        return self._registry.log(server).redactor.mask(text)  # it is kept longer than the entry

    def _note_gap(self, seconds: float) -> None:
        self._log.log("info", "clock.jumped", seconds=seconds)

    def _warn_of_ledger(self) -> None:
        """Say once that the record of processes cannot be kept, and try again until it can.

        Servers run without it.
        """
        trouble = self._ledger.trouble
        if trouble is not None and self._ledger_retry is None:
            self._log.log("error", "ledger.trouble", path=self._ledger.path, error=trouble)
        if self._ledger_retry is not None:
            self._ledger_retry.cancel()
            self._ledger_retry = None
        if trouble is not None:
            loop = asyncio.get_running_loop()
            self._ledger_retry = loop.call_later(LEDGER_RETRY_S, self.record_members)

    def _warn_of_place(self, refusal: PathRefused) -> None:
        reason = refusal.message
        self._log.log("error", "place.refused", socket=self._path, reason=reason, hint=refusal.hint)

    def _problems(self) -> list[str]:
        """Return what cannot be written now, for ``status``."""
        found = []
        if self._place.trouble is not None:
            found.append(f"the socket is not made again: {self._place.trouble.message}")
        if self._ledger.trouble is not None:
            found.append(f"the record of processes is not kept: {self._ledger.trouble}")
        if self._cache.trouble is not None:
            found.append(f"the lists of servers are not kept: {self._cache.trouble}")
        troubles = self._registry.log_troubles()
        return found + [f"the log of {name} is not written: {why}" for name, why in troubles]

    def _log_files(self) -> list[str]:
        return self._registry.log_files()

    def _forget_logs(self) -> None:
        self._registry.forget_logs({slot.server for slot in self._supervisor.slots()})

    def _warn_of_log(self, path: str, error: OSError | None, lost: int) -> None:
        if error is not None:
            self._log.log("warning", "log.trouble", path=path, error=error)
        else:
            self._log.log("info", "log.resumed", path=path, lost=lost)

    def _tell_of_removed_logs(self, removed: Removed) -> None:
        self._log.log("info", "logs.removed", files=removed.files, bytes=removed.bytes)

    def _warn_of_cache(self, error: OSError) -> None:
        self._log.log("warning", "cache.trouble", error=error)

    def _warn_of_guardian(self, text: str) -> None:
        self._log.log("warning", "guardian.trouble", text=text)

    def _note_login_path(self, login: Login) -> None:
        took = round(login.took_s, 3)
        if login.failure is not None:
            self._log.log(
                "warning",
                "env.login_path_failed",
                shell=login.shell,
                reason=login.failure,
                took_s=took,
            )
        else:
            self._log.log(
                "info", "env.login_path", shell=login.shell, added=login.added, took_s=took
            )

    def _warn_of_refusal(self, reason: str) -> None:
        self._log.log("warning", "connection.refused", reason=reason)


def _most_starts(configured: int) -> int:
    return configured or max(AT_LEAST_STARTS, os.cpu_count() or 1)
