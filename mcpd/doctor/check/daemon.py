"""Checks the daemon: whether it runs, answers, has the right version and a private socket."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from mcpd import paths
from mcpd.client.hints import ADVICE
from mcpd.doctor.check.audit import AUDIT
from mcpd.doctor.check.http import HTTP
from mcpd.doctor.facts import Daemon, Facts, Ledger, Place, Talk
from mcpd.doctor.finding import Finding, error, fine, note, warning

UNREACHABLE = frozenset({
    "daemon_unresponsive", "daemon_wedged", "daemon_gone", "daemon_incompatible",
    "socket_not_ours", "socket_exposed", "socket_forbidden", "socket_unusable",
})  # fmt: skip
"""Findings with which no command can use the daemon."""

UP_AGAIN = "mcpctl down --force, then: mcpctl up"


def check(facts: Facts) -> Iterator[Finding]:
    """Yield the findings about the daemon."""
    place, talk = facts.place, facts.talk
    if place is not None:
        yield from _length(place)
        if talk is not None:
            yield from _answers(place, talk, facts.daemon, can_start=_can_start(facts))
        yield from _modes(place)
    if talk is not None and talk.hello is not None:
        yield from _version(talk.hello["version"], facts.version)
    if talk is not None:
        own = None if facts.daemon is None else facts.daemon.pid
        yield from _ledgers(facts.ledgers or (), own)
        known = {own, *(ledger.pid for ledger in facts.ledgers or ())}
        for pid, socket in facts.others:
            if pid not in known:
                yield _another(pid, socket)
    if facts.machine is not None and facts.daemon is not None:
        yield from _service(facts.daemon, facts.machine.units)


def _length(place: Place) -> Iterator[Finding]:
    if place.wanted != place.socket.path:
        size = len(place.wanted.encode("utf-8", "surrogateescape"))
        yield note(
            "socket_path_long",
            f"{place.wanted} has {size} bytes, a socket's path may have {paths.MAX_SOCKET_BYTES}: "
            f"{place.socket.path} is used instead, by daemon and clients alike",
            "a shorter one: --socket PATH or MCPD_SOCKET",
        )


def _can_start(facts: Facts) -> bool:
    """Return whether no known fact prevents a daemon from starting."""
    is_broken = facts.files is not None and facts.files.loaded.broken
    return not (is_broken or (facts.machine is not None and facts.machine.refusal is not None))


def _answers(
    place: Place, talk: Talk, daemon: Daemon | None, *, can_start: bool
) -> Iterator[Finding]:
    path = place.socket.path
    up = "mcpctl up" if can_start else "correct what keeps it from starting, then: mcpctl up"
    match talk.why:
        case None:
            yield from _runs(place, talk)
        case "absent" | "refused" if place.holder is not None:
            what = "is not there" if talk.why == "absent" else "takes no connection"
            yield error(
                "daemon_wedged",
                f"mcpd, pid {place.holder}, holds the lock {place.lock.path}, but its socket "
                f"{path} {what}",
                f"wait a minute, it may mend that itself; else: {UP_AGAIN}",
            )
        case "no_socket":
            yield error("daemon_wedged", talk.silence, talk.hint or UP_AGAIN)
        case "absent":
            does = "the first use starts one" if can_start else "none can start, as other lines say"
            yield note("daemon_absent", f"no daemon runs; {does}", up)
        case "refused":
            yield note(
                "socket_stale",
                f"no daemon runs; {path} is what a dead one has left, and the next one replaces it",
                up,
            )
        case "unresponsive":
            yield _unresponsive(talk, daemon)
        case "incompatible":
            yield error("daemon_incompatible", talk.silence, "mcpctl restart --daemon")
        case "gone":
            yield error("daemon_gone", f"{talk.silence} while it was asked", "mcpctl doctor")
        case _:
            ident = f"socket_{talk.why}"
            yield error(ident, talk.silence, talk.hint or ADVICE.get(talk.why or "", UP_AGAIN))


def _unresponsive(talk: Talk, daemon: Daemon | None) -> Finding:
    if daemon is None:
        return error("daemon_unresponsive", talk.silence, UP_AGAIN)
    who = f"mcpd, pid {daemon.pid}, does not respond"
    match daemon.state:
        case "T" | "t":
            why, first = "a signal has stopped it", f"kill -CONT {daemon.pid}; or: "
        case "D":
            why, first = "it waits in the kernel, as for a disk or a network file system", ""
        case "R":
            why, first = "it is busy with something else", "wait a moment; or: "
        case _:
            why, first = "it takes connections and says nothing", ""
    return error("daemon_unresponsive", f"{who}: {why}", first + UP_AGAIN)


def _runs(place: Place, talk: Talk) -> Iterator[Finding]:
    hello = talk.hello or {}
    pid = hello.get("pid")
    yield fine(
        "daemon_runs", f"mcpd {hello.get('version')} answers, pid {pid}, {place.socket.path}"
    )
    for problem in (talk.status or {}).get("daemon", {}).get("problems", ()):
        if problem.startswith((AUDIT, HTTP)):
            continue  # ``check.audit`` and ``check.http`` report these
        yield warning(
            "daemon_cannot_write",
            problem,
            "mend that: the daemon tries again within a minute; its log: mcpctl logs",
        )
    for client in (talk.status or {}).get("daemon", {}).get("declining", ()):
        yield warning(
            "client_declines",
            f"{client} refuses questions whether a call may run by itself: nobody sees them there",
            "answer in a terminal: mcpctl approvals -w",
        )
    if talk.status is None:
        yield warning(
            "daemon_draining",
            f"mcpd, pid {pid}, says hello and tells nothing else: it may be on its way out",
            "in a moment again: mcpctl doctor",
        )
    if place.holder is not None and place.holder != pid:
        yield error(
            "daemon_without_lock",
            f"pid {pid} answers, but pid {place.holder} holds the lock {place.lock.path}: two "
            "daemons, one of which cannot be reached",
            f"mcpctl down; then, if it is still there: kill {place.holder}; then: mcpctl up",
        )
    elif place.lock.kind == "absent":
        yield warning(
            "lock_missing",
            f"the lock {place.lock.path} is gone; the daemon creates it again within a minute",
            "if that is not so: mcpctl restart --daemon",
        )


def _modes(place: Place) -> Iterator[Finding]:
    """Warn of a socket mode that lets other users connect."""
    if place.socket.kind == "socket" and place.socket.mode & 0o077:
        path = place.socket.path
        yield warning(
            "socket_mode",
            f"{path} has mode {place.socket.mode:04o}; only its user needs it, and others are "
            "turned away by the daemon alone",
            f"chmod 600 {shlex.quote(path)}",
        )


def _version(running: str, ours: str) -> Iterator[Finding]:
    if running != ours:
        yield warning(
            "daemon_version",
            f"the daemon is mcpd {running}, this is mcpctl {ours}",
            "after an upgrade: mcpctl restart --daemon",
        )


def _another(pid: int, socket: str | None) -> Finding:
    return warning(
        "daemon_another",
        f"another mcpd of yours runs, pid {pid}, on {socket or 'a socket that cannot be seen'}: "
        "its servers are processes of their own",
        f"if that is not meant: mcpctl --socket {shlex.quote(socket)} down"
        if socket
        else f"if that is not meant: kill {pid}",
    )


def _ledgers(ledgers: tuple[Ledger, ...], own: int | None) -> Iterator[Finding]:
    for ledger in ledgers:
        if ledger.is_alive and ledger.pid != own:
            yield _another(ledger.pid, ledger.socket)
        elif not ledger.is_alive and ledger.orphans:
            pids = " ".join(map(str, ledger.orphans))
            count = len(ledger.orphans)
            yield warning(
                "orphans",
                f"{count} {'process' if count == 1 else 'processes'} of a daemon that died "
                f"(pid {ledger.pid}) still run: {pids}",
                "mcpctl restart --daemon" if own is not None else "mcpctl up",
            )


def _service(daemon: Daemon, units: tuple[str, ...]) -> Iterator[Finding]:
    is_service = daemon.unit is not None and daemon.unit.startswith("mcpd")
    if is_service:
        yield fine("daemon_service", f"it runs as the service {daemon.unit}")
    elif units and daemon.unit is not None:
        yield warning(
            "daemon_not_service",
            f"{units[0]} is installed, but the daemon that runs was started by hand or by a "
            "client: the service manager neither watches it nor starts it again",
            "mcpctl down, then: mcpctl service restart",
        )
