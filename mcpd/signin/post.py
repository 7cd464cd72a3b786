"""Sends the requests of the daemon itself to token endpoints, by the client for remote servers."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any, Final

from mcpd.config.remote import RemoteConfig
from mcpd.signin.addresses import AddressRefused, Policy, host_of
from mcpd.signin.token_requests import Post, Reply, Unanswered
from mcpd.upstreams.http import tls
from mcpd.upstreams.http.proxies import proxy_for

TIMEOUT_S: Final = 30.0
_MOST_BYTES: Final = 1024 * 1024


async def post(request: Post, remote: RemoteConfig) -> Reply | Unanswered:
    """Send a request to an address that was discovered for a server.

    Redirects are not followed: the body has secrets. Returns ``Unanswered`` where there is no
    response, or the address must not be used.
    """
    import aiohttp  # only where a server needs it
    from aiohttp.resolver import ThreadedResolver

    policy = Policy(remote.url, await _addresses(remote.url))

    class Resolver(ThreadedResolver):
        async def resolve(self, host: str, *arguments: Any, **more: Any) -> Any:
            found = await super().resolve(host, *arguments, **more)
            if host == host_of(request.url) and not policy.is_own(host):
                for each in found:
                    policy.check_address(each["host"], host)
            return found

    sent = False

    async def on_sent(*_: object) -> None:
        nonlocal sent
        sent = True

    trace = aiohttp.TraceConfig()
    trace.on_request_headers_sent.append(on_sent)
    try:
        policy.check_url(request.url)
        context = await asyncio.to_thread(
            tls.context,
            ca_file=remote.ca_file,
            client_cert=remote.client_cert,
            client_key=remote.client_key,
        )
        connector = aiohttp.TCPConnector(ssl=context, resolver=Resolver(), force_close=True)
        async with (
            aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                trace_configs=[trace],
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
            session.post(
                request.url,
                data=request.body,
                headers=request.headers,
                allow_redirects=False,
                proxy=proxy_for(request.url, remote.proxy, os.environ),
            ) as response,
        ):
            return Reply(response.status, await _body(response))
    except AddressRefused as error:
        return Unanswered(str(error))
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        return Unanswered(_reason(error), is_lost=sent)


async def _body(response: Any) -> bytes:
    body = b""
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > _MOST_BYTES:
            raise ValueError("the answer is too long")
    return body


async def _addresses(url: str) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host_of(url), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(each[4][0]) for each in found]


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT_S:g} s"
    refused = error.__cause__ if isinstance(error.__cause__, AddressRefused) else error
    text = str(refused) or type(refused).__name__
    return "".join(c if c.isprintable() else " " for c in text)[:200]
