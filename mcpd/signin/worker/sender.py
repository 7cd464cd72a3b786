"""Sends the requests of a sign-in: to addresses that may be asked, with bounds for the answers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Any, Final

import httpx2

from mcpd import tls
from mcpd.signin.addresses import AddressRefused, Policy, host_of, is_loopback
from mcpd.signin.protocol import Connection

CLIENT_NAME: Final = "mcpd"

_MOST_BYTES: Final = 1024 * 1024
_REQUEST_S: Final = 30.0
_MOST_REQUESTS: Final = 30
_MOST_CHARACTERS: Final = 300


class SignInFailed(Exception):
    """A sign-in that cannot be done; the message says why and has no secret."""


class GuardedLoop(asyncio.SelectorEventLoop):
    """A loop that checks each address that a host name has, when it is looked up to connect.

    Checked before, a name could have another address by the time that we connect.
    """

    policy: Policy | None = None

    async def getaddrinfo(self, host: Any, port: Any, **more: Any) -> Any:
        """Look a host up; raise :class:`AddressRefused` for one with a forbidden address."""
        found = await super().getaddrinfo(host, port, **more)
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
        if self.policy is not None and name and not self.policy.is_own(name):
            for each in found:
                self.policy.check_address(str(each[4][0]), name)
        return found


class Sender:
    """Sends the requests of a sign-in, within the rules for addresses and bounds for answers."""

    def __init__(self, connection: Connection, policy: Policy) -> None:
        self._policy = policy
        context = tls.context(
            ca_file=connection.ca_file,
            client_cert=connection.client_cert,
            client_key=connection.client_key,
        )
        self._direct = _client(context, None, trust_env=False)
        self._client = self._direct
        if connection.proxy == "env":
            self._client = _client(context, None, trust_env=True)
        elif connection.proxy != "none":
            self._client = _client(context, connection.proxy, trust_env=False)
        self._uses_environment = connection.proxy == "env"
        self._count = 0

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the whole response.

        Raises:
            AddressRefused: it must not be sent there.
            SignInFailed: there is no response, or one that is too long.
        """
        url = str(request.url)
        self._policy.check_url(url)
        self._count += 1
        if self._count > _MOST_REQUESTS:
            raise SignInFailed(f"more than {_MOST_REQUESTS} requests were needed")
        direct = self._uses_environment and is_loopback(url)
        client = self._direct if direct else self._client
        request.headers.setdefault("Accept", "application/json")
        request.headers.setdefault("User-Agent", CLIENT_NAME)
        where = f"{request.url.scheme}://{request.url.netloc.decode()}{request.url.path}"
        try:
            async with asyncio.timeout(_REQUEST_S):
                response = await client.send(request, stream=True, follow_redirects=False)
                try:
                    body = b""
                    async for piece in response.aiter_bytes():
                        body += piece
                        if len(body) > _MOST_BYTES:
                            raise SignInFailed(f"the answer of {where} is too long")
                finally:
                    await response.aclose()
        except TimeoutError:
            raise SignInFailed(f"{where} did not answer within {_REQUEST_S:g} s") from None
        except (httpx2.HTTPError, OSError) as error:
            refused = _cause(error)
            if refused is not None:
                raise refused from None
            raise SignInFailed(f"{where} cannot be reached: {_reason(error)}") from None
        headers = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name not in ("content-encoding", "content-length", "transfer-encoding")
        ]
        read = httpx2.Response(response.status_code, headers=headers, content=body, request=request)
        read.next_request = response.next_request
        return read

    async def close(self) -> None:
        """Close the connections."""
        await self._direct.aclose()
        if self._client is not self._direct:
            await self._client.aclose()


def _client(context: ssl.SSLContext, proxy: str | None, *, trust_env: bool) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        verify=context, proxy=proxy, trust_env=trust_env, timeout=httpx2.Timeout(_REQUEST_S)
    )


async def policy_of(url: str) -> Policy:
    """Return the rules for a server: where its host name leads decides what it may name."""
    loop = asyncio.get_running_loop()
    resolved: list[str] = []
    with contextlib.suppress(OSError, UnicodeError):
        async with asyncio.timeout(_REQUEST_S):
            found = await loop.getaddrinfo(host_of(url), None, type=socket.SOCK_STREAM)
            resolved = [str(each[4][0]) for each in found]
    policy = Policy(url, resolved)
    if isinstance(loop, GuardedLoop):
        loop.policy = policy
    return policy


def _cause(error: BaseException) -> AddressRefused | None:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, AddressRefused):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return "".join(c if c.isprintable() else " " for c in text)[:_MOST_CHARACTERS]
