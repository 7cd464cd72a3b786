"""Looks where the secrets are that entries name, without their values."""

from __future__ import annotations

from collections.abc import Mapping

from mcpd.config.load import Loaded
from mcpd.doctor.facts import Secrets
from mcpd.secrets import keyring, places, uses
from mcpd.secrets.places import SecretsError
from mcpd.secrets.store import Store

KEYRING_S = 3.0
"""Seconds for the keyring, which is asked in a process of its own; it may show a prompt."""


def secrets(state_dir: str, loaded: Loaded, env: Mapping[str, str]) -> Secrets:
    """Return where secrets are. The keyring is asked only where there are any to ask for."""
    used = uses.of(loaded)
    path = places.path_in(state_dir)
    try:
        in_file = places.in_file(path)
        store = Store(state_dir, used.mode, env, lambda order: keyring.use(order, KEYRING_S))
        found = store.where({*used.servers, *in_file})
    except SecretsError as error:
        return Secrets(path=path, mode=used.mode, trouble=error.message, remedy=error.hint)
    enabled = {name for name, entry in loaded.entries.items() if entry.enabled}
    return Secrets(
        path=path,
        mode=used.mode,
        in_file=tuple(sorted(in_file)),
        missing=tuple(
            (server, name)
            for name, servers in sorted(used.servers.items())
            for server in servers
            if server in enabled and not found.places[name]
        ),
        problem=found.problem,
    )
