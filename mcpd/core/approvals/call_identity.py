"""What makes two calls the same call for a person who is asked about them."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from msgspec import UNSET

from mcpd.core.requests.inflight import CONTROL_CLIENT, UpstreamRequest
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.wire import envelope

_NO_ARGUMENTS: Final = b"{}"
_DIGEST_BYTES: Final = 16


class Call(NamedTuple):
    """What makes two calls the same one for a person who is asked: all but their session."""

    principal: str
    client: str | None
    server: str
    identity: str
    tool: str
    pin: bytes
    digest: bytes
    """Of the arguments."""

    def with_state(self, state: bytes) -> Call:
        """Return what the call is when it is made again with a server's state."""
        both = hashlib.blake2b(self.digest + state, digest_size=_DIGEST_BYTES)
        return self._replace(digest=both.digest())


def approval_of(identity: str, pin: bytes) -> bytes:
    """Return what a call is approved for: what is started, and the definition of its tool."""
    return identity.encode() + pin


def arguments_of(leg: UpstreamRequest) -> bytes:
    """Return the arguments of a call as they came, an empty object where there are none."""
    found = None if leg.params is None else envelope.params_of(leg.params)
    if found is None or found.arguments is UNSET or bytes(found.arguments) == b"null":
        return _NO_ARGUMENTS
    return bytes(found.arguments)


def client_of(session: Session, request: ClientRequest) -> tuple[str | None, str | None]:
    """Return the name and the version of the client whose request this is."""
    if request.is_control:
        return CONTROL_CLIENT, None
    info = (request.client_info or session.client_info).info
    members = (envelope.object_of(info) if info is not None else None) or {}
    name, version = (envelope.text(members.get(each, UNSET)) for each in ("name", "version"))
    return name or session.client, version
