"""The result of ``mcpd/status``: the state of the daemon and of each server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec import Raw

from mcpd import __version__
from mcpd.api.status import (
    DaemonStatus,
    InstanceStatus,
    InteractiveStatus,
    ServerStatus,
    StartingStatus,
    State,
    TrustStatus,
)
from mcpd.config.remote import RemoteConfig
from mcpd.config.urls import public_part
from mcpd.core.mux.mux import Mux
from mcpd.core.mux.report import EntryReport, SlotReport
from mcpd.daemon.control.pin_handlers import trust_status
from mcpd.daemon.servers.server import Server
from mcpd.daemon_start.place import Place
from mcpd.logfiles.line import stamp
from mcpd.supervise import descriptors
from mcpd.supervise.process import Child
from mcpd.supervise.proctable import memory
from mcpd.supervise.proctable.procfs import Stat
from mcpd.supervise.reaper import Reaper
from mcpd.upstreams.http.spec import RemoteSpec
from mcpd.upstreams.run import Connection
from mcpd.upstreams.slot import Slot
from mcpd.upstreams.stdio.run import process_of
from mcpd.upstreams.supervisor import Supervisor

_BUSIEST_FIRST: tuple[State, ...] = (
    "ready",
    "starting",
    "backoff",
    "stopping",
    "failed",
    "login",
    "stopped",
)
"""The state of a server with several processes is the first of these that one of them has."""

STOPPED = "T"
"""The state of a process that a signal has stopped, and that goes on with SIGCONT (proc(5))."""

_LONG_AGO = datetime.fromtimestamp(0, UTC)


class Snapshot:
    """The state of everything at one time.

    Process trees and their memory were read from the system before, in a thread.
    """

    def __init__(
        self,
        mux: Mux,
        supervisor: Supervisor,
        trees: Mapping[Child, Sequence[Stat]],
        rss: Mapping[Child, int],
        auth: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """``auth`` returns how requests to a server are authorised, where a sign-in does that."""
        self._mux = mux
        self._supervisor = supervisor
        self._trees = trees
        self._rss = rss
        self._auth = auth
        self._now = supervisor.now()
        self._open = mux.approvals.open()

    def daemon(
        self,
        socket: str,
        uptime_s: float,
        *,
        problems: list[str],
        others: list[Place],
        http: list[str],
        declining: list[str],
    ) -> DaemonStatus:
        """Return the status of the daemon."""
        status: DaemonStatus = {
            "pid": os.getpid(),
            "version": __version__,
            "uptime_s": round(uptime_s, 3),
            "socket": socket,
            "sessions": self._mux.session_count(),
            "clients": [
                {"session": each.session, "server": each.server, "client": each.client}
                for each in self._mux.sessions()
            ],
            "tables": self._mux.table_sizes(),
            "nofile": descriptors.limits(),
            "problems": problems,
            "others": [{"pid": each.pid, "socket": each.socket} for each in others],
            "http": http,
        }
        if self._mux.asks_people or self._open:
            status["approvals_open"] = len(self._open)
        if declining:
            status["declining"] = declining
        return status

    def server(self, server: Server, *, is_held: bool, reason: str | None) -> ServerStatus:
        """Return the status of a server; ``reason`` overrides why it is shared as it is."""
        report = self._mux.report(server.name)
        found = [(each, self._supervisor.get(each.slot)) for each in report.slots]
        slots = [slot for _, slot in found if slot is not None]
        config = server.configured.config
        sharing = server.entry.sharing.value
        children = [child for slot in slots if (child := process_of(slot)) is not None]
        main = next((slot for slot in slots if slot.run is not None), None)
        main = main or next(iter(slots), None)
        connection = None if main is None or main.run is None else main.run.connection
        is_shared = sharing == "shared"
        error = _last_error(server, slots)
        status: ServerStatus = {
            "name": server.name,
            "state": self._state(server, slots, is_held=is_held),
            "held": is_held,
            "enabled": server.configured.enabled,
            "transport": _transport(server, connection),
            "sharing": sharing if config is not None else "shared",
            "sharing_reason": reason or server.sharing_reason,
            "interactive": _interactive(server, report),
            "era": None if report.era is None else report.era.value,
            "protocol_version": _version(report),
            "server_info": _info(server, report),
            "left_out": list(report.left_out),
            "pid": self._pid(main) if is_shared else None,
            "pids": [pid for child in children for pid in self._pids(child)],
            "generation": sum(slot.machine.generation for slot in slots),
            "uptime_s": self._uptime(main) if is_shared else None,
            "restarts": sum(slot.machine.restarts for slot in slots),
            "sessions": report.sessions,
            "in_flight": report.in_flight,
            "calls": report.calls,
            "errors": report.errors,
            "rss_bytes": sum(self._rss.get(c, 0) for c in children) if children else None,
            "tools": report.tools,
            "noise": report.noise,
            "noise_reason": report.noise_reason,
            "responsive": self._responds(children),
            "stopped_pids": [pid for child in children for pid in self._stopped(child)],
            "silent_s": _longest(each.silent_s for each in report.slots),
            "last_error": error.text,
            "last_error_at": error.at,
            "last_error_kind": error.kind,
        }
        if server.entry.workspace is not None:
            status["project"] = server.entry.workspace
        if trust := self._trust(server):
            status["trust"] = trust
        if config is not None and config.remote is not None:
            self._add_remote(status, server, config.remote, connection)
        if status["state"] == "starting":
            first = next(each for each in slots if _state_of(each) == "starting")
            status["starting"] = self._starting(first)
        if not is_shared:
            instances = [self._instance(each, slot) for each, slot in found if slot is not None]
            status["instances"] = instances
        return status

    def step(self, server: Server) -> str | None:
        """Return the last step that a stop needed: ``eof``, ``term`` or ``kill``, or ``None``."""
        slots = (self._supervisor.get(each.slot) for each in self._mux.report(server.name).slots)
        steps = {slot.step for slot in slots if slot is not None}
        return next((step for step in ("kill", "term", "eof") if step in steps), None)

    def _trust(self, server: Server) -> TrustStatus:
        """Return what is approved of a server's definitions, and how its calls are approved."""
        trust = trust_status(self._mux.definitions(server.name))
        if (mode := self._mux.approval_of(server.name)) is not None:
            asked = sum(each.server == server.name for each in self._open)
            trust |= {"approval": mode, "open": asked}
        return trust

    def _add_remote(
        self,
        status: ServerStatus,
        server: Server,
        remote: RemoteConfig,
        connection: Connection | None,
    ) -> None:
        """Add the address of a remote server, its authorisation, and its latency."""
        latency_s = None if connection is None else connection.latency_s
        status["url"] = _public_url(server)
        signed_in = self._auth(server.name)
        known = remote.auth.kind if connection is None else connection.auth
        status["auth"] = known if signed_in is None else signed_in
        status["latency_ms"] = None if latency_s is None else round(latency_s * 1000, 1)
        if connection is not None and connection.waits is not None:
            status["waits"] = connection.waits

    def _instance(self, report: SlotReport, slot: Slot) -> InstanceStatus:
        child = process_of(slot)
        status: InstanceStatus = {
            "key": report.key or "",
            "pid": self._pid(slot),
            "state": _state_of(slot),
            "sessions": report.sessions,
            "clients": list(report.clients),
            "uptime_s": self._uptime(slot),
            "rss_bytes": None if child is None else self._rss.get(child, 0),
            "responsive": self._responds([] if child is None else [child]),
        }
        if status["state"] == "starting":
            status["starting"] = self._starting(slot)
        return status

    def _starting(self, slot: Slot) -> StartingStatus:
        machine = slot.machine
        began = machine.began_at
        return {
            "for_s": None if began is None else round(self._now - began, 3),
            "limit_s": machine.start_limit if began is not None else machine.next_start_limit(),
            "installing": slot.is_installing,
        }

    def _state(self, server: Server, slots: Sequence[Slot], *, is_held: bool) -> State:
        if not server.configured.enabled:
            return "disabled"
        if server.entry.is_untrusted:
            return "untrusted"
        if server.backend is None:
            return "misconfigured"
        states = {_state_of(slot) for slot in slots}
        if is_held and "stopping" not in states:
            return "stopped"
        return next((state for state in _BUSIEST_FIRST if state in states), "stopped")

    def _pids(self, child: Child) -> list[int]:
        return [each.pid for each in self._trees.get(child, ())] or [child.pid]

    def _responds(self, children: Sequence[Child]) -> bool | None:
        """Tell whether no process is stopped by a signal; ``None`` without processes."""
        return not any(map(self._stopped, children)) if children else None

    def _stopped(self, child: Child) -> list[int]:
        return [each.pid for each in self._trees.get(child, ()) if each.state == STOPPED]

    def _pid(self, slot: Slot | None) -> int | None:
        child = None if slot is None else process_of(slot)
        if child is None or child.returncode is not None:
            return None  # its descendants may still be running
        return child.pid

    def _uptime(self, slot: Slot | None) -> float | None:
        if slot is None or slot.run is None or slot.machine.spawned_at is None:
            return None
        return round(self._now - slot.machine.spawned_at, 3)


async def snapshot(
    mux: Mux, supervisor: Supervisor, reaper: Reaper, auth: Callable[[str], str | None]
) -> Snapshot:
    """Read all process trees and their memory, in a thread, and return the state with them."""
    if not any(slot.run is not None for slot in supervisor.slots()):
        return Snapshot(mux, supervisor, {}, {}, auth)
    looked = await reaper.scan_trees()
    rss = await asyncio.to_thread(_measure, looked)
    return Snapshot(mux, supervisor, looked, rss, auth)


def _measure(looked: Mapping[Child, Sequence[Stat]]) -> dict[Child, int]:
    trees = {child: [each.pid for each in members] for child, members in looked.items()}
    return {child: memory.tree_usage(pids) for child, pids in trees.items()}


def _state_of(slot: Slot) -> State:
    state: State = slot.machine.state.value
    return state


def _interactive(server: Server, report: EntryReport) -> InteractiveStatus:
    """Return which session has the turn to be asked questions, and which sessions wait for it.

    With a process for each session none of them waits, so the first turn stands for all.
    """
    turns = [slot.turns for slot in report.slots]
    running = next((t.running for t in turns if t.running), ())
    holder = next((who for who in running if not who.is_lent), None)
    return {
        "mode": server.entry.interactive.value,
        "asks": report.has_asked,
        "turn": None
        if holder is None
        else {
            "session": holder.session,
            "since_s": round(holder.for_s, 3),
            "client": holder.client,
        },
        "waiting": [
            {"session": who.session, "for_s": round(who.for_s, 3), "client": who.client}
            for each in turns
            for who in each.waiting
        ],
    }


def _transport(server: Server, connection: Connection | None) -> str:
    """Return what carries a server's messages, as far as that is known.

    ``stdio`` also where its entry is wrong.
    """
    if connection is not None:
        return connection.transport
    config = server.configured.config
    if config is not None and config.remote is not None:
        return "sse" if config.remote.transport == "sse" else RemoteSpec.transport
    return "stdio" if server.backend is None else server.backend.transport


def _public_url(server: Server) -> str:
    """Return the address of a remote server without what may be secret; empty if unknown."""
    shown = server.configured.shown_remote
    return "" if shown is None else public_part(shown.url)


def _version(report: EntryReport) -> str | None:
    return None if report.introduction is None else report.introduction.version


def _info(server: Server, report: EntryReport) -> Any:
    if report.introduction is None:
        return None
    return Raw(server.entry.redactor.mask_bytes(report.introduction.info))


class _LastError(NamedTuple):
    text: str | None = None
    at: str | None = None
    kind: str | None = None


def _last_error(server: Server, slots: Sequence[Slot]) -> _LastError:
    """Return the error of an entry, else the newest error of its processes."""
    if server.configured.error is not None:
        return _LastError(server.configured.error, kind="config_invalid")
    ended = [slot for slot in slots if slot.machine.last_error is not None]
    ended.sort(key=lambda slot: slot.failed_at or _LONG_AGO)
    if not ended:
        return _LastError()
    newest = ended[-1]
    failure = newest.machine.last_failure
    return _LastError(
        newest.machine.last_error,
        None if newest.failed_at is None else stamp(newest.failed_at),
        None if failure is None else failure.kind,
    )


def _longest(times_s: Iterable[float | None]) -> float | None:
    longest = max((each for each in times_s if each is not None), default=None)
    return None if longest is None else round(longest, 3)
