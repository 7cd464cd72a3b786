"""Which server of the aggregate a resource belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from mcpd.core.catalog.model import Kind
from mcpd.core.downstream.list_requests import ListRequests
from mcpd.core.facts import Failure
from mcpd.core.interface.entries import Entry
from mcpd.core.mcp import codes
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.state.session import ClientRequest, Session
from mcpd.core.state.state import MuxState
from mcpd.core.state.waiting import R

_RESOURCES: Final = (Kind.RESOURCES, Kind.TEMPLATES)


class ResourceOwners:
    """Finds the servers of resources, which may have to list them first."""

    def __init__(self, state: MuxState, list_requests: ListRequests) -> None:
        self._state = state
        self._list_requests = list_requests

    def by_uri(
        self,
        request: ClientRequest,
        uri: str | None,
        then: Callable[[ClientRequest, Entry], None],
        unusable: Callable[[ClientRequest, str, Failure], None] | None = None,
        *,
        template: bool = False,
    ) -> None:
        """Find the server that a resource URI belongs to, and go on with its entry.

        Lists that are unknown are read first; where no server has it, those that may have changed.
        Where its server cannot be used the request is refused, but by ``unusable`` where that is
        given.
        """
        if uri is None:
            request.reject(codes.INVALID_PARAMS, "uri must be a string")
            return
        state = self._state
        client = state.client_of(request.session, request)

        def owner() -> str | None:
            aggregate = state.aggregate_of(request)
            return aggregate.template_owner(uri) if template else aggregate.owner(uri)

        def find(request: ClientRequest) -> None:
            server = owner()
            entry = None if server is None else state.entry(server)
            if server is None or entry is None:
                self._refuse_unknown(request, uri)
            elif not isinstance(entry, Failure):
                then(request, entry)
            elif unusable is not None:
                unusable(request, server, entry)
            else:
                request.refuse(entry)

        if not template and self._is_owned(request.session, uri, client):
            find(request)
        else:
            is_unknown = owner() is None
            self._list_requests.gather(
                request.session, request, _RESOURCES, find, is_fresh=is_unknown
            )

    def _refuse_unknown(self, request: ClientRequest, uri: str) -> None:
        servers = self._state.servers_of(request.session)
        entries = self._state.entries
        asked = [entries[s].shown_name for s in servers if self._has_listed(s, _RESOURCES)]
        why = f"Resource not found: {uri} (servers asked: {', '.join(asked) or 'none'})"
        is_modern = request.client_info is not None
        code = codes.INVALID_PARAMS if is_modern else codes.RESOURCE_NOT_FOUND
        request.pass_error(codes.plain_error(code, why, {"uri": uri, "servers": asked}))

    def with_owners(
        self, session: Session, request: R, uris: tuple[str, ...], then: Callable[[R], None]
    ) -> None:
        """Go on once the servers that resources belong to can be found with ``owners``."""
        client = self._state.client_of(session, request)
        if all(self._is_owned(session, uri, client) for uri in uris):
            then(request)
        else:
            self._list_requests.gather(session, request, _RESOURCES, then, is_fresh=True)

    def owners(self, session: Session, request: object, uris: tuple[str, ...]) -> dict[str, Entry]:
        """Return the servers that resources belong to; one without a server is left out."""
        client = self._state.client_of(session, request)
        aggregate = self._state.aggregate_for(client, session)
        found: dict[str, Entry] = {}
        for uri in uris:
            server = aggregate.owner(uri)
            entry = None if server is None else self._state.entry(server)
            if isinstance(entry, Entry):
                found[uri] = entry
        return found

    def _has_listed(self, server: str, kinds: Iterable[Kind]) -> bool:
        catalog = self._state.catalog_of(server)
        return any(catalog.get(kind) is not None for kind in kinds)

    def _is_owned(self, session: Session, uri: str, client: ClientInfo | None) -> bool:
        """Tell whether a server lists this, and none before it could still do so."""
        for server in self._state.servers_of(session):
            known = self._state.catalog_for(server, client).get(Kind.RESOURCES)
            if known is not None and known.get(uri) is not None:
                return True
            if self._list_requests.unlisted(server, Kind.RESOURCES, client) is not None:
                return False
        return False
