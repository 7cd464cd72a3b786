"""Why something of a server may not be used: nobody has approved its definition."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mcpd.core.catalog.examine import INSTRUCTIONS
from mcpd.core.definitions.approved import ApprovedDefinitions
from mcpd.core.facts import Failure
from mcpd.core.mcp.methods import Route
from mcpd.core.requests.inflight import UpstreamRequest
from mcpd.core.wire import envelope


def refusal_of(approved: ApprovedDefinitions, leg: UpstreamRequest) -> Failure | None:
    """Return why a request to the server is refused, or ``None`` where it is not."""
    if not approved.holds:
        return None
    if leg.tool is not None:
        return refusal(approved, "tool", leg.tool)
    if leg.method.route is not Route.PROMPT or leg.params is None:
        return None
    found = envelope.params_of(leg.params)
    name = None if found is None else envelope.text(found.name)
    return None if name is None else refusal(approved, "prompt", name)


def refusal(approved: ApprovedDefinitions, kind: str, name: str) -> Failure | None:
    """Return why a definition may not be used, or ``None`` where it may.

    Where some are approved, a name that has never been listed is not: it may be new.
    """
    if not approved.holds:
        return None
    server = approved.name
    if approved.is_lost:
        what = "its approved definitions cannot be read"
        return _denied(server, name, what, f"mcpctl pins {_word(server)}")
    if approved.pins is None:
        return None
    found = approved.pins.find(kind, name)
    if not found and any(kind in tables for tables in approved.pins.tables.values()):
        what = f"it is not among the approved {kind}s"
        return _denied(server, name, what, f"mcpctl pins diff {_word(server)}")
    for refused in found:
        if not refused.is_same and refused.is_refused:
            break
    else:
        return None
    what = "what it takes has changed since it was approved"
    if refused.approved is None:
        what = "nobody has approved it yet"
    target = f"{server}.{name}" if kind != INSTRUCTIONS else server
    return _denied(server, name, what, f"mcpctl pins diff {_word(target)}")


def not_as_shown(
    approved: ApprovedDefinitions, wanted: Mapping[tuple[str, str], str]
) -> Failure | None:
    """Return why nothing is accepted: a definition has another hash than a person was shown."""
    known = approved.merged()
    for (kind, name), digest in wanted.items():
        pin = known.get((kind, name))
        if pin is None or pin.hash != digest:
            where = f"{approved.name}.{name}" if name else approved.name
            return Failure(
                "denied",
                f"{where} is not what was shown: nothing is accepted",
                approved.name,
                False,
                f"mcpctl pins diff {_word(where)}",
                {"reason": "pin"},
            )
    return None


def _denied(server: str, name: str, what: str, hint: str) -> Failure:
    message = (
        f"{server}.{name} is held: {what}. Do not call it again; tell your user, who can "
        "look at it and accept it."
    )
    return Failure("denied", message, server, False, hint, {"reason": "pin"})


def _word(text: str) -> str:
    """Return a word of a command line, quoted where a shell would read it otherwise."""
    if re.fullmatch(r"[\w./@:+-]+", text):
        return text
    return "'" + text.replace("'", "'\\''") + "'"
