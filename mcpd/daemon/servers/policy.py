"""What the configuration says of calls, as the mux knows it."""

from __future__ import annotations

from mcpd.config import policy
from mcpd.config.load import Loaded
from mcpd.config.policy import ProfileConfig
from mcpd.core.interface.entries import Policy, Profile
from mcpd.core.policy.rates import Rate
from mcpd.principal import Scope


def policy_of(loaded: Loaded) -> Policy:
    """Return what a configuration says of calls, of no server in particular."""
    profiles = {name: _profile(config) for name, config in loaded.profiles.items()}
    trust = loaded.trust
    return Policy(
        profiles=profiles,
        client_rate=rate_of(trust.client_rate),
        approval=trust.approval,
        approval_timeout=trust.approval_timeout,
        approval_keep=trust.approval_keep,
    )


def rate_of(text: str) -> Rate | None:
    """Return a rate of the configuration, ``None`` for no limit."""
    found = policy.rate_of(text)
    return None if found is None else Rate(*found)


def _profile(config: ProfileConfig) -> Profile:
    scope = Scope(
        frozenset(config.servers) if config.servers else None,
        (config.tools,) if config.tools else (),
        config.read_only,
        config.resources,
        config.prompts,
    )
    return Profile(scope=scope, rate=rate_of(config.rate), approval=config.approval)
