"""What cannot be written or used now, as ``status`` shows it."""

from __future__ import annotations

from mcpd.daemon.approvals import ApprovalKeeper
from mcpd.daemon.http.switch import HttpSwitch
from mcpd.daemon.servers.cache import CatalogCache
from mcpd.daemon.servers.registry import Registry
from mcpd.daemon.upkeep.ledger_keeper import LedgerKeeper
from mcpd.daemon.upkeep.socket_keeper import SocketKeeper


def problems(
    keeper: SocketKeeper,
    ledger: LedgerKeeper,
    cache: CatalogCache,
    registry: Registry,
    http: HttpSwitch,
    approvals: ApprovalKeeper,
) -> list[str]:
    """Return a sentence for each thing that cannot be written, or used."""
    found = []
    if keeper.trouble is not None:
        found.append(f"the socket is not made again: {keeper.trouble.message}")
    if ledger.trouble is not None:
        found.append(f"the record of processes is not kept: {ledger.trouble}")
    if cache.trouble is not None:
        found.append(f"the lists of servers are not kept: {cache.trouble}")
    if approvals.trouble is not None:
        found.append(approvals.trouble)
    found += http.problems
    troubles = registry.log_troubles()
    return found + [f"the log of {name} is not written: {why}" for name, why in troubles]
