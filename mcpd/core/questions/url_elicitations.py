"""Who was asked to go to a page: when a server says that it is done, that session is told."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Raw

from mcpd.core.state.session import Session
from mcpd.core.state.state import MuxState
from mcpd.core.upstream.upstream import Upstream
from mcpd.core.wire import envelope
from mcpd.ids import SessionId

_MOST: Final = 1000
"""Of one process: elicitations at a URL whose end may still be told."""

_NAME: Final = 1024
"""Characters of the longest name of one."""


class UrlElicitations:
    """The URL elicitations of legacy servers, by the name that the server gave them."""

    def __init__(self, state: MuxState) -> None:
        self._state = state
        self._by_server: dict[Upstream, dict[str, SessionId]] = {}

    def note(self, upstream: Upstream, params: Raw, session: Session) -> None:
        """A session was asked something; remember it if it is sent to a page."""
        name = _name_in(params)
        if name is not None:
            url_elicitations = self._by_server.setdefault(upstream, {})
            if len(url_elicitations) >= _MOST:
                del url_elicitations[next(iter(url_elicitations))]
            url_elicitations[name] = session.id

    def completed(self, upstream: Upstream, params: Raw) -> None:
        """Notify the session that was sent to a page, and no other, that it is done there."""
        name = _name_in(params)
        url_elicitations = self._by_server.get(upstream, {})
        ident = url_elicitations.pop(name, None) if name is not None else None
        session = None if ident is None else self._state.sessions.get(ident)
        if session is not None:
            session.notify("notifications/elicitation/complete", params)

    def server_gone(self, upstream: Upstream) -> None:
        """The process is gone; another one knows nothing of its pages."""
        self._by_server.pop(upstream, None)


def _name_in(params: Raw) -> str | None:
    name = envelope.text((envelope.object_of(params) or {}).get("elicitationId", UNSET))
    return None if name is None or len(name) > _NAME else name
