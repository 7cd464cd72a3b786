"""What cannot be written or used now, as ``status`` shows it."""

from __future__ import annotations

from mcpd.daemon.approvals.keeper import ApprovalKeeper
from mcpd.daemon.audit import AuditKeeper
from mcpd.daemon.http.switch import HttpSwitch
from mcpd.daemon.servers.cache import CatalogCache
from mcpd.daemon.servers.pinstore import PinStore
from mcpd.daemon.servers.registry import Registry
from mcpd.daemon.upkeep.ledger_keeper import LedgerKeeper
from mcpd.daemon.upkeep.place_keeper import PlaceKeeper
from mcpd.daemon.upkeep.socket_keeper import SocketKeeper


def problems(
    keeper: SocketKeeper,
    place: PlaceKeeper,
    ledger: LedgerKeeper,
    cache: CatalogCache,
    pins: PinStore,
    registry: Registry,
    http: HttpSwitch,
    audit: AuditKeeper,
    approvals: ApprovalKeeper,
) -> list[str]:
    """Return a sentence for each thing that cannot be written, or used."""
    found = []
    if keeper.trouble is not None:
        found.append(f"the socket is not made again: {keeper.trouble.message}")
    if place.trouble is not None:
        found.append(f"clients without MCPD_* may not find this daemon: {place.trouble}")
    if ledger.trouble is not None:
        found.append(f"the record of processes is not kept: {ledger.trouble}")
    if cache.trouble is not None:
        found.append(f"the lists of servers are not kept: {cache.trouble}")
    if pins.trouble is not None:
        found.append(f"what is approved of servers is not kept: {pins.trouble}")
    found += audit.problems
    if approvals.trouble is not None:
        found.append(approvals.trouble)
    found += http.problems
    troubles = registry.log_troubles()
    return found + [f"the log of {name} is not written: {why}" for name, why in troubles]
