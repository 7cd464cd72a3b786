"""The server as requests to it see it: its address, session, revision and credentials."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from mcpd.core.mcp.routing import Routing, encoded
from mcpd.redact import Redactor
from mcpd.upstreams.http import failures
from mcpd.upstreams.http.authorizer import Authorizer, CannotAuthorize, Refused
from mcpd.upstreams.http.client import HttpClient, Response
from mcpd.upstreams.http.failures import Unreachable
from mcpd.upstreams.http.spec import RemoteSpec

ACCEPT_BOTH: Final = "application/json, text/event-stream"
ACCEPT_STREAM: Final = "text/event-stream"

AGAIN_S: Final = 0.1
"""Seconds before a request that was not sent is tried again, doubled each time."""

WAIT_MOST_S: Final = 3600.0
"""The longest ``Retry-After`` that is waited for; the call's own time-out is mostly shorter."""

PING_ID: Final = b'"mcpd-ping"'
PING: Final = b'{"jsonrpc":"2.0","id":"mcpd-ping","method":"ping"}\n'

_NO_SUCH_METHOD: Final = b"-32601"
_PONG_BYTES: Final = 4096
"""How much is read of the answer to a ping."""

_REFUSALS: Final = 2
"""How often one request is authorised again."""

_REMEMBERED: Final = 4
"""How many tokens are masked: an answer may repeat one that was renewed since it was sent."""

_WAITING: Final = (429, 503)


class Endpoint:
    """Sends requests with what every request needs, and again where nothing was lost."""

    def __init__(self, spec: RemoteSpec, client: HttpClient, authorizer: Authorizer) -> None:
        self.server = spec.server
        self.url = spec.remote.url
        """Where messages are sent: after a redirect, there."""
        self.session_id = ""
        self.is_forgotten = False
        """Whether the server does not know the session any more."""
        self.version = ""
        """The revision that was agreed on, empty before."""
        self.is_modern = False
        self.latency_s: float | None = None
        self.waits: dict[object, str] = {}
        """What is waited for before a request is sent again, as ``status`` shows it."""
        self.authorizer = authorizer
        self._sent: deque[dict[str, str]] = deque(maxlen=_REMEMBERED)
        """The different headers that authorised the last requests."""
        self._remote = spec.remote
        self._client = client

    def headers(self, routing: Routing | None, *, accept: str = ACCEPT_BOTH) -> dict[str, str]:
        """Return the headers of a message, without its credentials."""
        found = {**self._remote.headers, "Accept": accept}
        version = self.version
        if routing is not None and routing.version:
            version = routing.version
            found["Mcp-Method"] = routing.method
            if routing.name is not None:
                found["Mcp-Name"] = encoded(routing.name)
            for name, value in routing.parameters:
                found[f"Mcp-Param-{name}"] = value
        is_first = routing is not None and routing.method == "initialize"
        if version and not is_first:
            found["MCP-Protocol-Version"] = version
        if self.session_id and not is_first and not self.is_modern:
            found["Mcp-Session-Id"] = self.session_id
        return found

    async def post(
        self,
        body: bytes,
        routing: Routing | None,
        *,
        sending: Callable[[bool], None] | None = None,
        key: object = None,
    ) -> Response:
        """Send a message; ``key`` is its key in ``waits``.

        ``sending`` is called whenever it changes whether the server may have read some of it.
        """
        headers = self.headers(routing)
        headers["Content-Type"] = "application/json"
        return await self.send("POST", headers, body, sending=sending, key=key)

    async def send(
        self,
        method: str,
        headers: dict[str, str],
        body: bytes | None = None,
        *,
        sending: Callable[[bool], None] | None = None,
        key: object = None,
    ) -> Response:
        """Send a request, authorised, and return the response.

        It is sent again where the server has not read it, where other credentials may help, and
        where the server says when. Raises ``Unreachable`` and ``CannotAuthorize``.
        """
        tries = refusals = 0
        loop = asyncio.get_running_loop()
        while True:
            credentials = await self.authorizer.headers()
            if credentials not in self._sent:
                self._sent.append(credentials)
            begun = loop.time()
            try:
                response, url = await self._client.request(
                    method, self.url, headers=headers | credentials, body=body, sending=sending
                )
            except Unreachable as problem:
                most = self._remote.retry_attempts if self.version else 0  # a start is tried again
                if problem.is_sent or not problem.may_pass or tries >= most:
                    raise
                await asyncio.sleep(AGAIN_S * 2**tries * (0.5 + random.random()))
                tries += 1
                continue
            if method == "POST":
                self.url = url
            self.latency_s = loop.time() - begun
            if response.status in (401, 403):
                refused = Refused(response.status, response.challenge)
                response.close()
                if sending is not None:
                    sending(False)
                if refusals >= _REFUSALS:
                    what = "what the sign-in gave us"
                    raise CannotAuthorize(
                        failures.refused(self.server, refused.status, what, refused.challenge)
                    )
                refusals += 1
                await self.authorizer.refused(credentials, refused)
                continue
            wait = retry_after(response) if response.status in _WAITING else None
            if wait is None or wait > WAIT_MOST_S or key is None:
                return response
            response.close()
            if sending is not None:
                sending(False)
            self.waits[key] = f"HTTP {response.status}: waits {wait:g} s before it asks again"
            try:
                await asyncio.sleep(wait)
            finally:
                del self.waits[key]

    def masked(self, text: str) -> str:
        """Return what a server said without the credentials that it was sent, which it may echo."""
        values = [value for sent in self._sent for value in sent.values()]
        words = {word for value in values for word in value.split()}
        return Redactor({*words, self.session_id}).mask(text)

    async def is_session_lost(self, response: Response) -> bool:
        """Tell whether a response to a message says that the server does not know our session.

        Many servers say so with 400, which has other reasons, too: a ping tells. Raises what
        ``send`` does.
        """
        if not self.session_id or self.is_modern or response.status not in (400, 404):
            return False
        return response.status == 404 or await self.refuses_ping()

    async def refuses_ping(self) -> bool:
        """Tell whether a ping shows that the server does not know our session any more.

        A server that knows no such method may refuse it with 400, too. Raises what ``send`` does.
        """
        if not self.session_id or self.is_modern or self.is_forgotten:
            return self.is_forgotten
        response = await self.post(PING, Routing("ping"))
        try:
            said = await response.beginning(_PONG_BYTES)
            return response.status == 404 or (
                response.status == 400 and _NO_SUCH_METHOD not in said
            )
        finally:
            response.close()


def retry_after(response: Response) -> float | None:
    """Return the seconds that ``Retry-After`` names, ``None`` where it names none."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isdigit() and len(value) < 10:
        return float(value)
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())
