"""Reads the files of MCP clients, for entries that mcpd has to do with."""

from __future__ import annotations

from collections.abc import Mapping

from mcpd import paths
from mcpd.doctor.facts import ClientEntry, Clients
from mcpd.errors import ConfigError
from mcpd.onboarding import own
from mcpd.onboarding.adopting import is_gone
from mcpd.onboarding.clients import search
from mcpd.onboarding.clients.entries import Found
from mcpd.onboarding.scan import compared


def clients(config: str | None, env: Mapping[str, str]) -> Clients:
    """Return the entries that run the bridge, and those whose servers mcpd has."""
    try:
        mine = own.read(config, env)
        is_known = True
    except ConfigError:  # the configuration is judged elsewhere
        mine = own.Own(path="", table="", entries={})
        is_known = False
    socket = paths.socket_path(None, env)
    found = []
    for file, servers in compared(search.found(env), mine):
        for each in servers:
            connects = each.found.connects
            if connects is None and (each.known is None or _is_off(each.found)):
                continue
            is_elsewhere = connects is not None and connects.socket not in (None, socket)
            found.append(
                ClientEntry(
                    client=file.client.id,
                    title=file.client.title,
                    path=file.path,
                    name=each.found.name,
                    program=None if connects is None else connects.program,
                    is_gone=connects is not None and is_gone(connects.program),
                    server=each.known if connects is None else connects.server,
                    is_missing=is_known
                    and connects is not None
                    and connects.server is not None
                    and each.known is None
                    and not is_elsewhere,
                )
            )
    return Clients(entries=tuple(found))


def _is_off(found: Found) -> bool:
    return found.entry.get("enabled") is False
