"""The daemon's life: in which order it starts, what wakes it, in which order it stops."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import signal
import socket
from collections.abc import Callable

from mcpd import __version__, paths, tasks
from mcpd.daemon.server_side import ServerSide, Start
from mcpd.daemon.upkeep.watchdog import Watchdog
from mcpd.daemon.wiring import Daemon
from mcpd.daemon_start.hints import check_command
from mcpd.logfiles.daemonlog import DaemonLog
from mcpd.observe.form import Form, parse
from mcpd.observe.pipeline import Pipeline, install
from mcpd.service import bind, privatedir
from mcpd.service.lock import DaemonLock
from mcpd.supervise.cleanup.keeper import GuardianKeeper
from mcpd.supervise.cleanup.sweep import sweep_dead

LEFT_LENGTH = 300
"""Characters of a container engine's message about containers of a dead daemon."""

LOG_DELAY_S = 0.1
"""Seconds from when clients can connect until structlog is imported: it delays no first answer."""

LOG_RETRY_S = 10.0
"""Seconds between two tries to import structlog."""

BAD_CONFIG = 78
"""Exit status: no file of the configuration could be read as one (EX_CONFIG)."""


def run(
    start: Start,
    path: str,
    lock: DaemonLock,
    listener: socket.socket,
    identity: bind.Identity | None,
) -> int:
    """Run the daemon until it is asked to end; return the exit status.

    Raises ``PathRefused`` where its state directory cannot be used.
    """
    state_dir = paths.state_dir()
    privatedir.ensure_private(
        state_dir, own="MCPD_STATE_DIR" not in os.environ, elsewhere=paths.STATE_ELSEWHERE
    )

    async def live() -> int:
        form = Form()
        lines = DaemonLog(file=os.path.join(state_dir, "mcpd.log"), note=form.note, parse=parse)
        pipeline = Pipeline(lines, form, level=start.options.log_level or "info")
        install(pipeline.logger)
        try:
            daemon = Daemon(
                start,
                pipeline,
                lines,
                state_dir=state_dir,
                path=path,
                lock=lock,
                listening=listener,
                identity=identity,
            )
            return await _live(daemon, lock)
        finally:
            pipeline.load()

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(live())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:  # it has no build for this platform
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _live(daemon: Daemon, lock: DaemonLock) -> int:
    """Start, serve until the daemon is asked to end, and stop; return the exit status."""
    servers, clients = daemon.servers, daemon.clients
    for problem in servers.loaded.errors:
        servers.log.error("config.error", problem=str(problem))
    if servers.loaded.broken:
        hint = check_command(servers.start.options.config)
        servers.log.error("config.refused", hint=hint)
        return BAD_CONFIG
    watchdog = Watchdog(asyncio.get_running_loop(), form=servers.pipeline.form)
    watchdog.start()
    guardian = GuardianKeeper(
        servers.ledger.open(), servers.reaper, on_trouble=servers.notices.guardian_trouble
    )
    _start(daemon, guardian, lock)
    opening = tasks.spawn(_allow_servers(servers), name="daemon.open")
    gc.freeze()
    reason, drain = await clients.ending.wait()
    opening.cancel()
    await _stop(daemon, guardian, reason, drain)
    watchdog.close()
    return 0


def _start(daemon: Daemon, guardian: GuardianKeeper, lock: DaemonLock) -> None:
    """Start everything but servers."""
    servers, clients = daemon.servers, daemon.clients
    servers.reaper.start()
    # Before a client is answered: until its exec, a process that is being started holds our socket
    # and our lock, also when we are killed.
    guardian.start()
    _take_signals(daemon)
    servers.audit.apply()
    clients.approvals.load()
    servers.applier.apply_entries()
    servers.budgets.start()
    servers.applier.apply_listeners()
    clients.http.start()
    clients.socket_keeper.start()
    clients.place_keeper.start()
    clients.manager_status.ready()
    lock.announce()
    servers.log.info("daemon.started", pid=os.getpid(), version=__version__, socket=clients.path)
    tasks.spawn(_load_log(servers.pipeline), name="daemon.log")


async def _load_log(pipeline: Pipeline) -> None:
    """Import structlog once the first answers are given; the lines until then are kept.

    The import is in a thread, so that the loop goes on.
    """
    await asyncio.sleep(LOG_DELAY_S)
    while pipeline.bound is None:
        try:
            await asyncio.to_thread(importlib.import_module, "mcpd.observe.processors")
            pipeline.load()
        except (ImportError, OSError) as error:  # no descriptors left
            pipeline.write_directly("error", "log.delayed", {"error": error})
            await asyncio.sleep(LOG_RETRY_S)


async def _allow_servers(servers: ServerSide) -> None:
    """Clean up after daemons that died, then let servers start."""
    report = await sweep_dead(servers.state_dir, own=servers.id)
    if report.dead or report.set_aside:
        left = "; ".join(report.containers_left).encode()
        redactor = servers.registry.redactor(None)
        servers.notices.swept(report, redactor.excerpt(left, LEFT_LENGTH))
    servers.supervisor.allow_starts()
    servers.applier.start_eager()
    servers.reloader.ask_for_variables(servers.loaded)


def _take_signals(daemon: Daemon) -> None:
    """End on SIGTERM and SIGINT, reload on SIGHUP."""
    servers, clients = daemon.servers, daemon.clients

    async def reload() -> None:
        clients.manager_status.reloading()
        try:
            await servers.reloader.reload("SIGHUP")
        finally:
            clients.manager_status.ready()

    loop = asyncio.get_running_loop()
    actions = {
        signal.SIGTERM: lambda: clients.ending.request("SIGTERM"),
        signal.SIGINT: lambda: clients.ending.request("SIGINT"),
        signal.SIGHUP: lambda: tasks.spawn(reload(), name="reload"),
    }
    for signum, action in actions.items():
        loop.add_signal_handler(signum, action)
    for number in servers.start.signals:  # those that came before the loop ran
        if number != signal.SIGHUP:
            clients.ending.request(signal.Signals(number).name)


async def _stop(daemon: Daemon, guardian: GuardianKeeper, reason: str, drain: float | None) -> None:
    """Stop everything: what notices changes, calls, servers and sessions, then the rest."""
    servers, clients = daemon.servers, daemon.clients
    log = servers.log
    timeout = servers.registry.daemon.drain_timeout if drain is None else drain
    log.info("daemon.draining", reason=reason, timeout_s=timeout)
    servers.journal.add("daemon.draining", reason=reason)
    clients.manager_status.stopping(reason, timeout)
    clients.socket_keeper.close()
    servers.reloader.close()
    servers.ad_hoc.close()
    servers.projects.close()
    servers.memory_watch.close()
    stopped = await clients.drain.run(timeout)
    clients.control_server.close()
    servers.dispatcher.close()
    await servers.checks.close()
    await servers.examinations.close()
    await clients.approvals.close()
    await servers.credentials.end_logins()
    await servers.login.close()
    await guardian.farewell()
    servers.ledger.close()
    await servers.budgets.close()
    await servers.cache.flush()
    await servers.pins.flush()
    await servers.audit.close()
    await servers.log_quota.close()
    servers.registry.close()
    clients.unix.close()
    servers.reaper.close()
    await clients.place_keeper.close()
    clients.socket_keeper.remove_socket()
    clients.manager_status.close()
    uptime = clients.handlers.uptime_s()
    log.info("daemon.stopped", reason=reason, uptime_s=uptime, servers_stopped=stopped)
