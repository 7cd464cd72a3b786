"""Handles the control methods of pins and findings: ``mcpd/pins``, ``pin_accept``, ``inspect``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

import msgspec

from mcpd.api import requests as api
from mcpd.api import results
from mcpd.api.status import TrustStatus
from mcpd.core.catalog.examine import Examined, Job, examine, kind_of
from mcpd.core.catalog.model import Item, Kind
from mcpd.core.catalog.pins import Seen
from mcpd.core.catalog.scan import Finding
from mcpd.core.definitions.definitions import Definitions
from mcpd.core.facts import Failure
from mcpd.core.interface.events import AcceptPins
from mcpd.core.mux.mux import Mux
from mcpd.daemon.servers.control import ServerControl
from mcpd.daemon.servers.pinstore import PinStore
from mcpd.daemon.servers.registry import Registry, pins_name
from mcpd.daemon.servers.server import Server
from mcpd.listeners.requests import Request

_NAMED = 10  # definitions that ``status`` names


class PinHandlers:
    """Answers what is asked about pins and findings."""

    def __init__(
        self, mux: Mux, registry: Registry, operator: ServerControl, store: PinStore
    ) -> None:
        self._mux = mux
        self._registry = registry
        self._operator = operator
        self._store = store

    def pins(self, params: api.PinsParams) -> results.AllPinned | Failure:
        """Return what is approved of servers, and what differs from that."""
        found = self._servers(params.servers)
        if isinstance(found, Failure):
            return found
        return {"servers": [self._pinned(each, params.definitions) for each in found]}

    def accept(self, request: Request, params: api.PinAcceptParams) -> AcceptPins:
        """Approve definitions that a person was shown."""
        items = tuple((each.kind, each.name, each.hash) for each in params.items)
        return AcceptPins(request.session, request.key, params.server, items)

    async def inspect(self, params: api.InspectParams) -> results.Inspected | Failure:
        """Return what was found in the definitions of servers, and what was removed."""
        found = self._servers(params.servers)
        if isinstance(found, Failure):
            return found
        return {"servers": [await self._inspected(each) for each in found]}

    def _servers(self, names: tuple[str, ...] | None) -> list[Server] | Failure:
        return list(self._registry) if names is None else self._operator.find(names)

    def _pinned(self, server: Server, wants_definitions: bool) -> results.PinnedServer:
        name = server.name
        definitions = self._mux.definitions(name)
        pins = None if definitions is None else definitions.approved.pins
        items: list[results.PinnedItem] = []
        for (kind, item), pin in sorted(pins.merged().items() if pins is not None else ()):
            is_held = definitions is not None and definitions.approved.holds
            one: results.PinnedItem = {
                "kind": kind,
                "name": item,
                "state": pin.state,
                "held": is_held and pin.is_refused,
                "parts": list(pin.parts),
                "hash": pin.hash,
                "since": self._store.since(pins_name(server), kind, item),
                "volatile": pin.is_volatile,
            }
            if pin.before is not None and pin.state == "renamed":
                one["was"] = pin.before
            if wants_definitions:
                one["approved"] = _definition(pin.approved)
                one["current"] = _definition(pin.now)
            items.append(one)
        counted = None if definitions is None else definitions.approved.counts()
        return {
            "name": name,
            "pin": "off" if definitions is None else definitions.rules.pin,
            "approved_version": "" if pins is None else pins.version,
            "version": "" if definitions is None else definitions.approved.version,
            "changed": 0 if counted is None else counted.changed,
            "held": 0 if counted is None else counted.held,
            "lost": definitions is not None and definitions.approved.is_lost,
            "items": items,
        }

    async def _inspected(self, server: Server) -> results.InspectedServer:
        definitions = self._mux.definitions(server.name)
        findings: list[Finding] = [] if definitions is None else definitions.findings.all()
        is_whole = definitions is None or definitions.findings.is_whole
        is_known = definitions is not None and definitions.findings.is_examined
        if definitions is not None and not is_known:  # it has not run in this life of the daemon
            seen = await asyncio.to_thread(_examine, _known(definitions))
            findings = [*findings, *(found for each in seen for found in each.findings)]
            is_whole, is_known = all(each.is_whole for each in seen), bool(seen)
        notices = [] if definitions is None else definitions.findings.notices()
        coverage = "whole" if is_whole else "partial"
        return {
            "name": server.name,
            "coverage": coverage if is_known else "none",
            "findings": [msgspec.to_builtins(each) for each in findings],
            "sanitised": [msgspec.to_builtins(each) for each in notices],
        }


def _known(definitions: Definitions) -> list[tuple[Kind, Item]]:
    """Return the definitions of a server as they were last heard, from the disk."""
    found: list[tuple[Kind, Item]] = []
    for (kind, name), pin in definitions.approved.merged().items():
        which = kind_of(kind)
        if which is not None and pin.now is not None:
            found.append((which, Item(name, pin.now.raw.encode())))
    return found


def _examine(definitions: Iterable[tuple[Kind, Item]]) -> list[Examined]:
    found: list[Examined] = []
    for kind, item in definitions:
        found += examine(Job(kind, (item,), "off"))
    return found


def _definition(seen: Seen | None) -> object:
    """Return a definition as JSON data, or as its text where it is no JSON that we read."""
    if seen is None:
        return None
    try:
        return json.loads(seen.raw)
    except (ValueError, RecursionError):
        return seen.raw


def trust_status(definitions: Definitions | None) -> TrustStatus:
    """Return what ``status`` says of a server's definitions; nothing where nothing judges them."""
    if definitions is None:
        return {}
    counted = definitions.approved.counts()
    found = sum(each.weight != "noted" for each in definitions.findings.all())
    status: TrustStatus = {
        "pin": definitions.rules.pin,
        "changed": counted.changed,
        "held": counted.held,
        "findings": found,
    }
    if counted.changed or counted.held:
        status["waiting"] = definitions.approved.waiting()[:_NAMED]
    if definitions.approved.is_lost:
        status["lost"] = True
    if volatile := definitions.approved.volatile_names():
        status["volatile"] = volatile[:_NAMED]
    return status
