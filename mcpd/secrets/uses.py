"""Which entries of the configuration name which secrets, and where secrets are kept."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mcpd.config.load import Loaded, load
from mcpd.secrets.places import Mode


class Uses(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says of secrets."""

    mode: Mode = "auto"
    servers: dict[str, list[str]] = {}
    """The servers that use each, by its name."""


def read(config: str | None, env: Mapping[str, str]) -> Uses:
    """Read the configuration; ``config`` is the only file of it, if there is one alone."""
    return of(load(config, env))


def of(loaded: Loaded) -> Uses:
    """Return what a configuration says of secrets."""
    servers: dict[str, list[str]] = {}
    for entry in loaded.entries.values():
        for name in entry.secret_names:
            servers.setdefault(name, []).append(entry.name)
    return Uses(mode=loaded.trust.keyring, servers=servers)
