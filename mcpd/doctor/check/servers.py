"""Checks the servers: failures, silence, restarts, noise on stdout."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from mcpd.core.policy.runners import broken_cache
from mcpd.doctor.facts import Talk
from mcpd.doctor.finding import Finding, error, fine, note, warning

Server = Mapping[str, Any]

SILENT_FROM_S = 30
UNUSABLE = ("disabled", "misconfigured", "untrusted")
"""States in which a server can be started only after a change of its entry, or a person's word."""

MANY_RESTARTS = 3
"""Unplanned restarts from which a server is reported."""

_WRONG = re.compile(r"error|fatal|exception|denied|not found|cannot|can't|unknown|invalid", re.I)

WORDS = 160
"""Characters of a server's last line that are shown."""

LSP = "Content-Length"
"""The beginning of the reason with which lines of the language server protocol are dropped."""


def check(talk: Talk, explained: Collection[str]) -> Iterator[Finding]:
    """Yield the findings about each server; for those ``explained`` the cause is known already."""
    if talk.status is None:
        return
    entries = [] if talk.listed is None else talk.listed["servers"]
    configs = {one["name"]: one["config"] or {} for one in entries}
    for server in talk.status["servers"]:
        name = server["name"]
        found = list(_state(server, configs.get(name, {}), talk.said.get(name, ()), explained))
        found += _health(server)
        yield from found
        if not found and server["state"] == "ready":
            yield fine("server", "ready", name)
        yield from _notes(server)
        yield from _definitions(server)


def _definitions(server: Server) -> Iterator[Finding]:
    """Yield what is wrong with the approved definitions of a server."""
    name, trust = server["name"], server.get("trust") or {}
    word = shlex.quote(name)
    if trust.get("lost"):
        message = "its approved definitions cannot be read, so its calls are refused"
        remedy = "mend or remove its file in trust/pins, then: mcpctl reload"
        yield error("pins_lost", message, remedy, name)
    if trust.get("held"):
        message = f"{trust['held']} of its definitions are held: nobody has approved them"
        yield warning("definitions_held", message, f"mcpctl pins diff {word}", name)
    if volatile := trust.get("volatile"):
        names = ", ".join(json.dumps(each, ensure_ascii=False) for each in volatile)
        message = "texts of its definitions change all the time; their changes are not told"
        yield note("definitions_volatile", message, f"pin_volatile = [{names}]", name)


def _state(
    server: Server, config: Mapping[str, Any], said: Sequence[str], explained: Collection[str]
) -> Iterator[Finding]:
    name, state = server["name"], server["state"]
    text = str(server["last_error"] or "it did not say why")
    text = text.removeprefix(f"{name} ").removeprefix(f"{name}: ")
    why = f"{text}{_when(server)}{_last_words(said)}"
    if state == "misconfigured" and name not in explained:
        yield error("server_misconfigured", why, "correct its entry, then: mcpctl reload", name)
    if state == "starting":
        yield from _slow_start(server, config, why)
    if state == "login":
        yield warning("server_login", why, f"mcpctl login {shlex.quote(name)}", name)
    if state not in ("failed", "backoff"):
        return
    if name in explained and server.get("last_error_kind") in (None, "spawn_failed"):
        return
    if cache := broken_cache(said):
        yield error(
            "runner_cache_broken",
            f"{why}; what its package runner has in {cache} is not whole",
            f"rm -r {shlex.quote(cache)}, then: mcpctl restart {shlex.quote(name)}",
            name,
        )
    elif state == "failed":
        message = f"{why}; it is not started any more by itself"
        yield error("server_failed", message, _remedy(server, config), name)
    else:
        message = f"{why}; the next start waits"
        yield warning("server_backoff", message, _remedy(server, config), name)


def _slow_start(server: Server, config: Mapping[str, Any], why: str) -> Iterator[Finding]:
    """Warn of a start whose predecessor timed out, so that its limit has been raised."""
    limit = server.get("starting", {}).get("limit_s", 0)
    now, most = config.get("startup_timeout", 30), config.get("startup_timeout_max", 300)
    if server.get("last_error_kind") == "startup_timeout" and (limit > now or now >= most):
        yield warning(
            "server_slow_start",
            f"{why}; it is being started again",
            _remedy(server, config),
            server["name"],
        )


def _remedy(server: Server, config: Mapping[str, Any]) -> str:
    name = shlex.quote(server["name"])
    match server.get("last_error_kind"):
        case "startup_timeout":
            now, most = config.get("startup_timeout", 30), config.get("startup_timeout_max", 300)
            return (
                f"see mcpctl logs {name}; if it only needs longer: startup_timeout = {2 * now:g} "
                f"(it is {now:g} now, and grows to startup_timeout_max = {most:g})"
            )
        case "connect_failed":
            return (
                "check its url, the network and the proxy of the daemon (HTTPS_PROXY), then: "
                f"mcpctl restart {name}"
            )
        case "unauthorized":
            return "correct `auth` or `headers` of its entry, then: mcpctl reload"
        case "handshake_failed" if "url" in server:
            return f"does its url lead to an MCP endpoint? then: mcpctl restart {name}"
        case "spawn_failed":
            return f"correct its command, then: mcpctl restart {name}"
        case "handshake_failed":
            return (
                f"see mcpctl logs {name}: does it speak MCP over stdio? then: mcpctl restart {name}"
            )
        case _:
            return f"see mcpctl logs {name}; when it is mended: mcpctl restart {name}"


def _health(server: Server) -> Iterator[Finding]:
    name, quoted = server["name"], shlex.quote(server["name"])
    if stopped := server.get("stopped_pids"):
        pids = " ".join(map(str, stopped))
        yield error(
            "server_unresponsive",
            f"a signal has stopped its process: {pids}",
            f"kill -CONT {pids}; or: mcpctl restart {quoted}",
            name,
        )
    elif (silent_s := server.get("silent_s") or 0) >= SILENT_FROM_S:
        told = f"it has said nothing for {silent_s:.0f} s and owes an answer"
        if server["state"] == "starting":  # to the handshake: nobody's call
            question = (
                "does its url lead to an MCP endpoint?"
                if "url" in server
                else "does it speak MCP over stdio? or is it installing?"
            )
            remedy = f"see mcpctl logs {quoted}: {question}"
        else:
            remedy = f"if the call should not take so long: mcpctl restart {quoted}"
        yield warning("server_silent", told, remedy, name)
    if server["restarts"] >= MANY_RESTARTS:
        yield warning(
            "server_restarts",
            f"it ended {server['restarts']} times unplanned; last: {server['last_error']}"
            f"{_when(server)}",
            f"see mcpctl logs {quoted}",
            name,
        )
    noise, reason = server.get("noise") or 0, str(server.get("noise_reason") or "no message")
    if noise and reason.startswith(LSP):
        yield error(
            "server_speaks_lsp",
            f"it writes Content-Length headers, as language servers do ({noise} lines so far)",
            "is there an option for MCP over stdio? else it is no MCP server",
            name,
        )
    elif noise:
        yield warning(
            "server_noise",
            f"{noise} lines on its stdout were no messages ({reason}); they are left out, and "
            "other clients may fail on them",
            f"see mcpctl logs {quoted}; logs belong on stderr",
            name,
        )


def _notes(server: Server) -> Iterator[Finding]:
    name = server["name"]
    if server.get("held") and server["state"] not in UNUSABLE:
        yield note(
            "server_held", "held down by mcpctl stop", f"mcpctl start {shlex.quote(name)}", name
        )
    if server.get("left_out"):
        refused = ", ".join(server["left_out"])
        yield note(
            "server_refuses_capabilities",
            f"refuses clients that declare {refused}: it is not told of them, and does without",
            "a newer version of the server may know them",
            name,
        )
    if server.get("sharing_reason"):
        yield note(
            "server_sharing",
            f"sharing {server['sharing']}: {server['sharing_reason']}",
            "`sharing` in its entry decides otherwise",
            name,
        )


def _last_words(said: Sequence[str]) -> str:
    """Return the last line that looks like an error, or the last one; usage texts come last."""
    lines = [line.strip() for line in reversed(said) if line.strip()]
    last = next((line for line in lines if _WRONG.search(line)), lines[0] if lines else "")
    cut = last if len(last) <= WORDS else f"{last[:WORDS]}…"
    return f" (its last words: {cut})" if last else ""


def _when(server: Server) -> str:
    at = server.get("last_error_at")
    return "" if at is None else f", {datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M:%S}"
