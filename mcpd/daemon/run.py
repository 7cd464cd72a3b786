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
from mcpd.daemon.server_side import Start
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
    for problem in daemon.loaded.errors:
        daemon.log.error("config.error", problem=str(problem))
    if daemon.loaded.broken:
        hint = check_command(daemon.start.options.config)
        daemon.log.error("config.refused", hint=hint)
        return BAD_CONFIG
    watchdog = Watchdog(asyncio.get_running_loop(), form=daemon.pipeline.form)
    watchdog.start()
    guardian = GuardianKeeper(
        daemon.ledger.open(), daemon.reaper, on_trouble=daemon.notices.guardian_trouble
    )
    _start(daemon, guardian, lock)
    opening = tasks.spawn(_allow_servers(daemon), name="daemon.open")
    gc.freeze()
    reason, drain = await daemon.ending.wait()
    opening.cancel()
    await _stop(daemon, guardian, reason, drain)
    watchdog.close()
    return 0


def _start(daemon: Daemon, guardian: GuardianKeeper, lock: DaemonLock) -> None:
    """Start everything but servers."""
    daemon.reaper.start()
    # Before a client is answered: until its exec, a process that is being started holds our socket
    # and our lock, also when we are killed.
    guardian.start()
    _take_signals(daemon)
    daemon.audit.apply()
    daemon.approvals.load()
    daemon.applier.apply_entries()
    daemon.budgets.start()
    daemon.applier.apply_listeners()
    daemon.http.start()
    daemon.socket_keeper.start()
    daemon.place_keeper.start()
    daemon.manager_status.ready()
    lock.announce()
    daemon.log.info("daemon.started", pid=os.getpid(), version=__version__, socket=daemon.path)
    tasks.spawn(_load_log(daemon.pipeline), name="daemon.log")


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


async def _allow_servers(daemon: Daemon) -> None:
    """Clean up after daemons that died, then let servers start."""
    report = await sweep_dead(daemon.state_dir, own=daemon.id)
    if report.dead or report.set_aside:
        left = "; ".join(report.containers_left).encode()
        redactor = daemon.registry.redactor(None)
        daemon.notices.swept(report, redactor.excerpt(left, LEFT_LENGTH))
    daemon.supervisor.allow_starts()
    daemon.applier.start_eager()
    daemon.reloader.ask_for_variables(daemon.loaded)


def _take_signals(daemon: Daemon) -> None:
    """End on SIGTERM and SIGINT, reload on SIGHUP."""

    async def reload() -> None:
        daemon.manager_status.reloading()
        try:
            await daemon.reloader.reload("SIGHUP")
        finally:
            daemon.manager_status.ready()

    loop = asyncio.get_running_loop()
    actions = {
        signal.SIGTERM: lambda: daemon.ending.request("SIGTERM"),
        signal.SIGINT: lambda: daemon.ending.request("SIGINT"),
        signal.SIGHUP: lambda: tasks.spawn(reload(), name="reload"),
    }
    for signum, action in actions.items():
        loop.add_signal_handler(signum, action)
    for number in daemon.start.signals:  # those that came before the loop ran
        if number != signal.SIGHUP:
            daemon.ending.request(signal.Signals(number).name)


async def _stop(daemon: Daemon, guardian: GuardianKeeper, reason: str, drain: float | None) -> None:
    """Stop everything: what notices changes, calls, servers and sessions, then the rest."""
    log = daemon.log
    timeout = daemon.registry.daemon.drain_timeout if drain is None else drain
    log.info("daemon.draining", reason=reason, timeout_s=timeout)
    daemon.journal.add("daemon.draining", reason=reason)
    daemon.manager_status.stopping(reason, timeout)
    daemon.socket_keeper.close()
    daemon.reloader.close()
    daemon.ad_hoc.close()
    daemon.projects.close()
    daemon.memory_watch.close()
    stopped = await daemon.drain.run(timeout)
    daemon.control_server.close()
    daemon.dispatcher.close()
    await daemon.checks.close()
    await daemon.examinations.close()
    await daemon.approvals.close()
    await daemon.credentials.end_logins()
    await daemon.login.close()
    await guardian.farewell()
    daemon.ledger.close()
    await daemon.budgets.close()
    await daemon.cache.flush()
    await daemon.pins.flush()
    await daemon.audit.close()
    await daemon.log_quota.close()
    daemon.registry.close()
    daemon.unix.close()
    daemon.reaper.close()
    await daemon.place_keeper.close()
    daemon.socket_keeper.remove_socket()
    daemon.manager_status.close()
    uptime = daemon.handlers.uptime_s()
    log.info("daemon.stopped", reason=reason, uptime_s=uptime, servers_stopped=stopped)
