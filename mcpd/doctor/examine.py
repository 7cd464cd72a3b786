"""The whole examination: runs the probes in order, then the checks, and masks secrets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from mcpd import __version__, paths
from mcpd.config.policy import TrustConfig
from mcpd.config.schema import DaemonConfig
from mcpd.daemon_start.place import locate, others
from mcpd.doctor.check import (
    audit,
    catalog,
    clients,
    config,
    daemon,
    http,
    machine,
    patterns,
    projects,
    secrets,
    servers,
    sign_ins,
)
from mcpd.doctor.check.machine import NO_LIMIT
from mcpd.doctor.facts import Daemon, Facts, Files, Place, Talk
from mcpd.doctor.finding import Finding, ordered, warning
from mcpd.doctor.probe import place as places
from mcpd.doctor.probe.audit import audit as probe_audit
from mcpd.doctor.probe.clients import clients as probe_clients
from mcpd.doctor.probe.files import files
from mcpd.doctor.probe.ledgers import ledgers
from mcpd.doctor.probe.machine import machine as probe_machine
from mcpd.doctor.probe.project import project
from mcpd.doctor.probe.runner import Probes
from mcpd.doctor.probe.secrets import secrets as probe_secrets
from mcpd.doctor.probe.sign_ins import sign_ins as probe_sign_ins
from mcpd.doctor.probe.talk import talk
from mcpd.doctor.probe.tokens import tokens
from mcpd.redact import Redactor
from mcpd.supervise.proctable import procfs

TIME_LIMIT_S = 4.7
"""Seconds for the whole examination, even if probes hang."""

FIRST_S = 1.0
"""Seconds to find the process that holds the lock, on which the other probes depend."""

UNREACHABLE = daemon.UNREACHABLE


def examine(
    socket: str | None, config_file: str | None, env: Mapping[str, str] = os.environ
) -> list[Finding]:
    """Return all findings, the worst first.

    ``socket`` and ``config_file`` are ``--socket`` and ``--config``. Takes ``TIME_LIMIT_S`` seconds
    at most. Sends no signal and writes no file, and starts no process but the one that asks the
    keyring, where an entry names a secret.
    """
    return ordered(findings(gather(socket, config_file, env)))


def gather(socket: str | None, config_file: str | None, env: Mapping[str, str]) -> Facts:
    """Run all probes and return their facts."""
    probes = Probes(TIME_LIMIT_S)
    path, variables = locate(socket, config_file, env)
    is_elsewhere = path != paths.socket_path(socket, env)
    wanted = path if is_elsewhere else places.wanted_path(socket, env)
    probes.run({"the socket": lambda: places.place(path, wanted)}, most_s=FIRST_S)
    place: Place | None = probes.get("the socket")
    pid = None if place is None else place.holder
    theirs = None if pid is None else places.environment(pid)
    argv = [] if pid is None else procfs.arguments(pid)
    around: Mapping[str, str] = {**env, **variables} if theirs is None else theirs
    state_dir = paths.state_dir(around)
    probes.run(
        {
            "the daemon": lambda: talk(path),
            "the disks and limits": lambda: probe_machine(state_dir, os.path.dirname(path), around),
            "the ledgers": lambda: ledgers(state_dir),
            "the other daemons": lambda: others(path, env),
            "the tokens": lambda: tokens(state_dir),
            "the sign-ins": lambda: probe_sign_ins(state_dir),
            "the audit": lambda: probe_audit(state_dir),
        }
    )
    said: Talk | None = probes.get("the daemon")
    if pid is None and said is not None:
        pid = said.pid
    chosen = config_file or places.config_option(argv)
    path_of_servers = None if said is None else _path_of_servers(said)
    probes.run(
        {
            "the configuration": lambda: files(
                chosen, around, is_daemons=theirs is not None, path=path_of_servers
            ),
            "the files of clients": lambda: probe_clients(chosen, env),
            "the project": lambda: project(state_dir, chosen, around),
            "the daemon's process": lambda: None if pid is None else places.daemon(pid),
        }
    )
    configured: Files | None = probes.get("the configuration")
    if configured is not None:
        loaded = configured.loaded
        probes.run({"the secrets": lambda: probe_secrets(state_dir, loaded, around)})
    return Facts(
        version=__version__,
        place=place,
        talk=said,
        daemon=_with_limits(probes.get("the daemon's process"), said),
        files=configured,
        machine=probes.get("the disks and limits"),
        ledgers=probes.get("the ledgers"),
        others=tuple((each.pid, each.socket) for each in probes.get("the other daemons") or ()),
        tokens=probes.get("the tokens"),
        sign_ins=probes.get("the sign-ins"),
        secrets=probes.get("the secrets"),
        clients=probes.get("the files of clients"),
        project=probes.get("the project"),
        audit=probes.get("the audit"),
        unfinished=tuple(probes.unfinished),
    )


def judge(facts: Facts) -> Iterator[Finding]:
    """Yield the findings that follow from the facts."""
    for what in facts.unfinished:
        yield warning(
            "not_looked_at",
            f"looking at {what} did not come to an end",
            "is a disk or a network file system there that hangs? then again: mcpctl doctor",
        )
    yield from daemon.check(facts)
    explained: set[str] = set()
    settings = DaemonConfig()
    if facts.files is not None:
        settings = facts.files.loaded.daemon
        found = list(config.check(facts.files, facts.talk))
        explained = {each.server for each in found if each.server and each.severity == "error"}
        yield from found
        yield from catalog.check(
            list(facts.files.loaded.entries), {} if facts.talk is None else facts.talk.tools
        )
        names = {} if facts.talk is None else facts.talk.names
        yield from patterns.check(facts.files.loaded, names)
        yield from http.check(facts.files.loaded.http, facts.tokens, facts.talk)
    if facts.talk is not None:
        yield from servers.check(facts.talk, explained)
    yield from projects.check(facts.project, facts.talk)
    yield from sign_ins.check(facts.sign_ins)
    yield from secrets.check(facts.secrets)
    yield from clients.check(facts.clients)
    trust = TrustConfig() if facts.files is None else facts.files.loaded.trust
    yield from audit.check(facts.audit, facts.talk, is_on=trust.audit)
    if facts.machine is not None:
        yield from machine.check(facts.machine, facts.daemon, settings)


def findings(facts: Facts) -> Iterator[Finding]:
    """Yield the findings with secrets masked: those of their server, or all if they have none.

    Quoted commands, tools and log lines may contain secrets. Tools are masked before they are
    judged, because quotations of them are cut.
    """
    entries = {} if facts.files is None else facts.files.loaded.entries
    redactors = {name: Redactor(entry.secrets) for name, entry in entries.items()}
    every = Redactor(frozenset[str]().union(*(entry.secrets for entry in entries.values())))
    if facts.talk is not None:
        tools = {
            name: _hidden(listed, redactors.get(name, every).mask)
            for name, listed in facts.talk.tools.items()
        }
        said = msgspec.structs.replace(facts.talk, tools=tools)
        facts = msgspec.structs.replace(facts, talk=said)
    for finding in judge(facts):
        mask = redactors.get(finding.server or "", every).mask
        yield msgspec.structs.replace(
            finding,
            message=mask(finding.message),
            remedy=None if finding.remedy is None else mask(finding.remedy),
        )


def _hidden(value: Any, mask: Callable[[str], str]) -> Any:
    """Return data with all its strings masked."""
    match value:
        case str():
            return mask(value)
        case list():
            return [_hidden(each, mask) for each in value]
        case dict():
            return {mask(name): _hidden(each, mask) for name, each in value.items()}
        case _:
            return value


def _with_limits(found: Daemon | None, said: Talk | None) -> Daemon | None:
    """Return the facts of the process; limits that the system hides come from its status."""
    status = None if said is None else said.status
    nofile = None if status is None else status["daemon"].get("nofile")
    if found is None or found.nofile is not None or not nofile:
        return found
    soft, hard = (NO_LIMIT if nofile[key] is None else nofile[key] for key in ("soft", "hard"))
    return Daemon(
        pid=found.pid,
        state=found.state,
        nofile=(soft, hard),
        open_fds=nofile["open"],
        unit=found.unit,
    )


def _path_of_servers(said: Talk) -> str | None:
    """Return the PATH that servers get from the daemon, or ``None`` if it does not report one."""
    path: Any = None if said.listed is None else said.listed.get("path")
    found = path.get("directories") if isinstance(path, dict) else None
    return os.pathsep.join(map(str, found)) if isinstance(found, list) else None
