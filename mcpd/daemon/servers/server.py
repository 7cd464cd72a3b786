"""A server: its configured entry, turned into what the core and the supervisor work with."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping

import msgspec

from mcpd.config.entry import ServerEntry
from mcpd.config.policy import TrustConfig
from mcpd.config.remote import RemoteConfig
from mcpd.config.schema import ResolvedCommand, ServerConfig
from mcpd.config.texts.resolving import remedy_of_unset
from mcpd.core.catalog.filters import Filter
from mcpd.core.catalog.pins import Rules as DefinitionRules
from mcpd.core.catalog.sanitise import Removed, without_invisible
from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Entry, Interactive, SamplingRules, Sharing
from mcpd.core.lifecycle.rules import Rules
from mcpd.core.mcp.versions import Era
from mcpd.core.policy.runners import runner_package
from mcpd.core.policy.stateful import known_stateful
from mcpd.daemon.servers.policy import rate_of
from mcpd.daemon.servers.unresolved import UnresolvedSpec
from mcpd.daemon_start.environment import is_ephemeral
from mcpd.redact import Redactor
from mcpd.supervise.spawn import build_environment
from mcpd.upstreams.http.spec import RemoteSpec
from mcpd.upstreams.run import Backend
from mcpd.upstreams.stdio.spec import ProcessSpec

DIGEST_BYTES = 10

_KEY = os.urandom(16)


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """One server, as each part of the daemon needs it. Holds secrets: never shown."""

    name: str
    configured: ServerEntry
    entry: Entry
    backend: Backend | None
    """How to reach it, ``None`` where its entry cannot be used."""

    cache_key: str
    """Changes with the entry only, not with the environment of the daemon."""

    sharing_reason: str | None = None
    """Why its processes are shared as they are, where the entry does not say so."""

    is_ad_hoc: bool = False
    environment: Mapping[str, str] = {}
    """The variables that tell it from other servers with the same command."""


def assemble(
    configured: ServerEntry,
    *,
    base_env: Mapping[str, str],
    ignore_env: Iterable[str] = (),
    is_ad_hoc: bool = False,
    trust: TrustConfig | None = None,
) -> Server:
    """Return the server of an entry. One that cannot be used answers requests with the reason.

    ``base_env`` is what it may inherit: the environment of the daemon, or of the client that
    brought it. ``ignore_env`` are further patterns of variables that make no difference, ``trust``
    the settings for servers whose entries say nothing else.
    """
    config, trust = configured.config, trust or TrustConfig()
    unavailable = _unavailable(configured)
    if config is not None and configured.awaits:
        return _unresolved(configured, config)
    if config is None or not configured.is_resolved or unavailable is not None:
        return _unusable(configured, unavailable, is_ad_hoc=is_ad_hoc)
    roots = config.roots if isinstance(config.roots, tuple) else (config.roots,)
    declared = (roots, config.era, config.extensions, config.interactive == "off")
    if configured.remote is not None:
        return _remote(configured, config, configured.remote, declared, trust)
    resolved = configured.launch
    assert resolved is not None  # what is resolved has one of the two
    environment = _distinguishing(resolved, base_env, tuple(ignore_env), is_ad_hoc=is_ad_hoc)
    same = (resolved.command, resolved.args, resolved.cwd, *declared)
    sharing, reason = _sharing(config, resolved)
    entry = _entry(configured, config, _digest(same, environment), sharing)
    entry = msgspec.structs.replace(
        entry,
        identity=_digest((resolved.command, resolved.args), {}),
        of_workspace=resolved.of_workspace,
        is_fetched=runner_package(resolved.command, resolved.args) is not None,
        is_listed=not is_ad_hoc,
        rules=_definition_rules(config, trust, (resolved.command, resolved.args)),
    )
    return Server(
        name=configured.name,
        configured=configured,
        entry=entry,
        backend=_process_spec(configured, config, resolved, base_env, is_ad_hoc),
        cache_key=_digest(same, resolved.env, resolved.inherit_env),
        sharing_reason=reason,
        is_ad_hoc=is_ad_hoc,
        environment=environment,
    )


def _unusable(configured: ServerEntry, why: Failure | None, *, is_ad_hoc: bool) -> Server:
    """Return a server that answers each request with the reason why it cannot be used."""
    entry = Entry(
        name=configured.name,
        launch="",
        unavailable=why,
        redactor=redactor_of(configured.secrets),
    )
    return Server(
        name=configured.name,
        configured=configured,
        entry=entry,
        backend=None,
        cache_key="",
        is_ad_hoc=is_ad_hoc,
    )


def _unresolved(configured: ServerEntry, config: ServerConfig) -> Server:
    """Return a server that starts once the login shell was asked for its variables."""
    sharing, reason = _sharing_of_config(config)
    digest = _digest(("unresolved", configured.name, config), {})
    return Server(
        name=configured.name,
        configured=configured,
        entry=_entry(configured, config, digest, sharing),
        backend=UnresolvedSpec(
            server=configured.name, rules=_rules(config), grace=config.stop_grace
        ),
        cache_key="",
        sharing_reason=reason,
    )


def redactor_of(secrets: Iterable[str]) -> Redactor:
    """Return what hides secrets, also in texts of a server that were sanitised."""
    known = frozenset(secrets)
    return Redactor(known | {without_invisible(secret, Removed()) for secret in known})


def _remote(
    configured: ServerEntry,
    config: ServerConfig,
    remote: RemoteConfig,
    declared: object,
    trust: TrustConfig,
) -> Server:
    """Return a server that is reached by URL."""
    sharing, reason = _sharing_of_config(config)
    return Server(
        name=configured.name,
        configured=configured,
        entry=msgspec.structs.replace(
            _entry(configured, config, _digest((remote, declared), {}), sharing),
            is_remote=True,
            rules=_definition_rules(config, trust, remote.url),
            identity=_digest(remote.url, {}),
        ),
        backend=RemoteSpec(
            server=configured.name,
            remote=remote,
            rules=_rules(config),
            grace=config.stop_grace,
            secrets=configured.secret_names,
        ),
        cache_key=_digest((config.remote, declared), {}),
        sharing_reason=reason,
    )


def _sharing(config: ServerConfig, resolved: ResolvedCommand) -> tuple[Sharing, str | None]:
    """Return who shares a process, and the reason where the entry does not say or it is a risk."""
    package = known_stateful(resolved.command, resolved.args)
    if config.sharing != "auto":
        sharing = Sharing(config.sharing)
        if package is None or sharing is not Sharing.SHARED:
            return sharing, None
        return sharing, f"{package} keeps state for each client, and here all share it"
    if package is not None:
        return Sharing.SESSION, f"{package} keeps state for each client"
    if resolved.of_workspace:
        return Sharing.WORKSPACE, "${workspaceFolder} is in its entry"
    return _sharing_of_config(config)


def _sharing_of_config(config: ServerConfig) -> tuple[Sharing, str | None]:
    """Return who shares a server about which nothing else is known."""
    if config.sharing != "auto":
        return Sharing(config.sharing), None
    if config.roots == "session":
        return Sharing.SESSION, "its roots are those of a session"
    return Sharing.SHARED, None


def _entry(configured: ServerEntry, config: ServerConfig, digest: str, sharing: Sharing) -> Entry:
    return Entry(
        name=configured.name,
        launch=digest,
        sharing=sharing,
        filter=Filter(config.tools.allow, config.tools.deny),
        call_timeout=config.call_timeout,
        call_timeout_max=config.call_timeout_max,
        queue_timeout=config.queue_timeout,
        max_concurrency=config.max_concurrency,
        stop_grace=config.stop_grace,
        may_repeat=config.retry == "safe",
        validates=config.validate_arguments,
        roots=config.roots if isinstance(config.roots, tuple) else (),
        asks_for_roots=config.roots == "session" and sharing is not Sharing.SHARED,
        era=None if config.era == "auto" else Era(config.era),
        extensions=config.extensions,
        startup_timeout=config.startup_timeout,
        failed_retry=config.restart.failed_retry if config.restart.policy != "never" else 0.0,
        interactive=Interactive(config.interactive),
        question_timeout=config.question_timeout,
        question_wait=config.question_wait,
        parked_timeout=config.parked_timeout,
        approval=config.policy.approval or None,
        trusted=config.policy.trusted,
        ask=config.policy.ask,
        rate=rate_of(config.policy.rate),
        rate_wait=config.policy.rate_wait,
        sampling=SamplingRules(
            is_on=config.policy.sampling,
            rate=rate_of(config.policy.sampling_rate),
            tokens_a_day=config.policy.sampling_tokens,
            most_tokens=config.policy.sampling_max_tokens,
        ),
        redactor=redactor_of(configured.secrets),
    )


def _process_spec(
    configured: ServerEntry,
    config: ServerConfig,
    resolved: ResolvedCommand,
    base_env: Mapping[str, str],
    is_ad_hoc: bool,
) -> ProcessSpec:
    return ProcessSpec(
        server=configured.name,
        command=resolved.command,
        args=resolved.args,
        env=resolved.whole_env,
        base_env=base_env,
        inherit=resolved.inherit_env,
        cwd=resolved.cwd,
        names_cwd=config.cwd is not None,
        of_workspace=resolved.of_workspace,
        rules=_rules(config),
        grace=config.stop_grace,
        scope=config.stop_scope,
        is_typed=is_ad_hoc and resolved.inherit_env == "none",
        package=runner_package(resolved.command, resolved.args),
        secrets=configured.secret_names,
    )


def _definition_rules(config: ServerConfig, trust: TrustConfig, started: object) -> DefinitionRules:
    """Return what is done with a server's definitions; ``started`` is what makes it another one."""
    return DefinitionRules(
        identity=_digest(started, {}),
        pin=config.policy.pin or trust.pin,
        sanitise=trust.sanitise,
        volatile=config.policy.pin_volatile,
        results=config.policy.sanitise_results,
    )


def _rules(config: ServerConfig) -> Rules:
    restart = config.restart
    return Rules(
        startup_timeout=config.startup_timeout,
        startup_timeout_max=config.startup_timeout_max,
        idle_timeout=config.idle_timeout,
        restarts=restart.policy == "on-failure",
        backoff=restart.backoff,
        backoff_max=restart.backoff_max,
        max_failures=restart.max_failures,
        window=restart.window,
        failed_retry=restart.failed_retry,
    )


def _unavailable(configured: ServerEntry) -> Failure | None:
    name = configured.name
    if not configured.enabled:
        return Failure(
            kind="server_disabled",
            message=f"{name} is disabled",
            server=name,
            hint=f"set {_to_enable(configured)} for {name} in {configured.file}",
        )
    if configured.config is None or not (configured.is_resolved or configured.awaits):
        why = configured.error or "its entry cannot be used"
        return Failure(
            kind="config_invalid",
            message=f"{name} is misconfigured: {why}",
            server=name,
            hint=remedy_of_unset(configured.unset)
            if configured.unset
            else "when that is mended: mcpctl reload",
        )
    return None


def _to_enable(configured: ServerEntry) -> str:
    """Return what must replace the setting that disables an entry, in the syntax of its file."""
    key = "{} = {}" if configured.file.lower().endswith(".toml") else '"{}": {}'
    on = {"enabled": "true", "disabled": "false"}
    return " and ".join(key.format(each, on[each]) for each in configured.off_by)


def _distinguishing(
    resolved: ResolvedCommand,
    base_env: Mapping[str, str],
    ignore: tuple[str, ...],
    *,
    is_ad_hoc: bool,
) -> dict[str, str]:
    """Return the variables that tell one process from another.

    Those of a terminal do not count, but all of an entry's own do.
    """
    hidden = {name: _fingerprint(value) for name, value in resolved.file_env.items()}
    own = {**hidden, **resolved.env}
    whole = build_environment(base_env, own, inherit=resolved.inherit_env, tag="")
    written = () if is_ad_hoc else own
    return {
        name: value
        for name, value in whole.items()
        if name in written or not (is_ephemeral(name) or _is_ignored(name, ignore))
    }


def _fingerprint(secret: str) -> str:
    """Return a digest of a secret under a key of this daemon.

    Without a key, passwords could be tried on the digest: it is part of the ledger and of the tag
    of each process.
    """
    data = secret.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES, key=_KEY).hexdigest()


def _is_ignored(name: str, patterns: tuple[str, ...]) -> bool:
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in patterns
    )


def _digest(same: object, environment: Mapping[str, str], *more: str) -> str:
    """Return a digest that equal launches share, in any order of their variables."""
    text = repr((same, sorted(environment.items()), more))
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()
