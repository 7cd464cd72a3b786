"""The loss of a process: which of its requests the next process gets, and how the others end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mcpd.core.catalog.model import Item
from mcpd.core.facts import Failure
from mcpd.core.interface.failures import with_details
from mcpd.core.requests.inflight import LOST, OURS, Outcome, UpstreamRequest, failed
from mcpd.core.requests.noise import Noise

UNSENT_TRIES: Final = 10
"""How often a request goes to the next process that none has read."""


def may_repeat(leg: UpstreamRequest, tool: Callable[[str], Item | None]) -> bool:
    """Tell whether the next process may get a request that this one has not answered.

    ``tool`` finds what a tool says of itself: whether calling it twice does harm.
    """
    if not leg.is_written:
        return leg.tries < UNSENT_TRIES
    if leg.tries:
        return False
    if leg.entry is None or not leg.entry.may_repeat:
        return False
    if leg.tool is not None:
        known = tool(leg.tool)
        return known is not None and (known.read_only or known.idempotent)
    return leg.method.may_repeat


def outcome_of(leg: UpstreamRequest, failure: Failure, noise: Noise) -> Outcome:
    """Return how a request ends that goes to no other process; ``failure`` is why this one ended.

    One that the process may have read quotes what the process wrote instead of an answer.
    """
    if leg.owner == OURS:
        return LOST
    if not leg.is_written:
        return failed(failure)
    heard = noise.since(leg.sent_at, leg.owner)
    return failed(with_details(failure, heard, outcome_unknown=True))
