"""A person signs in: the process for it against a fake authorization server."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
import urllib.parse
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcpd.core import facts
from mcpd.core.facts import Failure
from mcpd.signin.credentials import Credentials
from mcpd.signin.logins import NotNeeded
from mcpd.upstreams.http.authorizer import CannotAuthorize, Refused
from tests.support.daemon import is_alive
from tests.support.fakeauth import FakeAuth, browse, ends_at
from tests.support.loopback import needs_ipv6, taken
from tests.support.signins import PIDS, Home, sign_in
from tests.support.waiting import wait_until_async


async def refusal(home: Home) -> str:
    """Try to sign in, with a browser where it gets as far; return why it failed."""
    login, _ = home.signins.logins.begin(home.authorizer)
    address = await login.address
    if address is not None:
        await asyncio.to_thread(browse, address)
    outcome = await login.outcome
    assert isinstance(outcome, Failure) and outcome.kind == "login_failed", outcome
    return outcome.message


async def test_a_person_signs_in(home: Home, auth: FakeAuth, tmp_path: Path) -> None:
    """
    PKCE S256, a state, the resource, registration as a native app, a loopback address to come back
    to; and what is kept is private and enough for the next daemon.
    """
    failure = await home.failure()
    assert failure.kind == "login_required" and "mcpctl login far" in failure.message
    found = await sign_in(home)
    assert await home.request() == found.access_token
    [asked], [registered] = auth.authorizations, auth.registrations
    [exchanged] = auth.used("authorization_code")
    assert asked["code_challenge_method"] == "S256" and len(asked["state"]) >= 32
    assert asked["resource"] == exchanged["resource"] == auth.url and asked["scope"] == "read"
    assert asked["redirect_uri"].startswith("http://127.0.0.1:")
    assert registered["redirect_uris"] == [asked["redirect_uri"]] == [exchanged["redirect_uri"]]
    assert registered["application_type"] == "native"
    assert {"authorization_code", "refresh_token"} <= {*registered["grant_types"]}
    assert found.issuer == auth.origin and found.token_endpoint == f"{auth.origin}/token"
    path = tmp_path / "state" / "credentials.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    until = home.authorizer.describe().removeprefix("oauth: signed in until ")
    assert home.told == [facts.SignedIn("far", auth.origin, until)]
    again = Home(tmp_path / "state", auth)
    assert await again.request() == found.access_token and len(auth.grants) == 1


@pytest.mark.parametrize("resolved", ["127.0.0.1", pytest.param("[::1]", marks=needs_ipv6)])
async def test_an_authorization_server_that_takes_localhost_alone(
    home: Home, auth: FakeAuth, resolved: str
) -> None:
    """
    The redirect address is the same text in all requests, whatever address a browser resolves it
    to.
    """
    home.entry(callback_host="localhost")
    await home.failure()
    login, _ = home.signins.logins.begin(home.authorizer)
    address = await login.address
    assert address is not None
    end = await asyncio.to_thread(ends_at, address)
    status, _, _ = await asyncio.to_thread(browse, end.replace("localhost", resolved, 1))
    found = await login.outcome
    assert status == 200 and isinstance(found, Credentials)
    [registered], [asked], [exchanged] = auth.registrations, auth.authorizations, auth.grants
    uri = asked["redirect_uri"]
    assert uri.startswith("http://localhost:") and uri.endswith("/callback")
    assert registered["redirect_uris"] == [uri] == [exchanged["redirect_uri"]]
    assert found.client.redirect_uri == uri and end.startswith(f"{uri}?")


async def test_another_host_to_come_back_to_is_registered(home: Home, auth: FakeAuth) -> None:
    """
    The port may stay the same.
    """
    await home.failure()
    before = (await sign_in(home)).client.redirect_uri
    home.entry(callback_host="localhost")
    after = (await sign_in(home)).client.redirect_uri
    assert after == before.replace("127.0.0.1", "localhost")
    assert auth.registrations[-1]["redirect_uris"] == [after] != [before]
    await sign_in(home)
    assert len(auth.registrations) == 2


async def pairs(home: Home) -> list[tuple[str, str]]:
    """Sign in; return the parameters of the authorization request, in order."""
    await home.failure()
    login, _ = home.signins.logins.begin(home.authorizer)
    address = await login.address
    assert address is not None
    await asyncio.to_thread(browse, address)
    assert isinstance(await login.outcome, Credentials)
    return urllib.parse.parse_qsl(urllib.parse.urlsplit(address).query)


async def test_further_parameters_of_the_authorization_request(home: Home, auth: FakeAuth) -> None:
    """
    Each of them is there once, with those of OAuth, and in no other request.
    """
    more = {"access_type": "offline", "login_hint": "a+b@example.com & ä=?"}
    home.entry(authorize_params=more)
    asked = await pairs(home)
    names = [name for name, _ in asked]
    assert len(names) == len({*names}) and more.items() <= dict(asked).items()
    usual = {"response_type", "client_id", "redirect_uri", "state", "code_challenge"}
    assert {*usual, "code_challenge_method", "resource", "scope", *more} == {*names}
    assert auth.authorizations == [dict(asked)]
    assert not {*more} & {*auth.registrations[0], *auth.grants[0]}


@pytest.mark.parametrize("prompt", ["consent", "select_account consent"])
@pytest.mark.parametrize("query", ["", "?prompt=login&tenant=a%20b"])
async def test_a_parameter_of_the_entry_comes_before_others(
    home: Home, auth: FakeAuth, prompt: str, query: str
) -> None:
    """
    One that is added for ``offline_access``, and one in the address of the authorization server.
    """
    auth.metadata["scopes_supported"] = ["read", "offline_access"]
    auth.metadata["authorization_endpoint"] = f"{auth.origin}/authorize{query}"
    home.entry(authorize_params={"prompt": prompt})
    asked = await pairs(home)
    assert ("scope", "read offline_access") in asked
    assert [value for name, value in asked if name == "prompt"] == [prompt]
    assert ("tenant", "a b") in asked or not query


async def test_the_process_ends_with_the_sign_in(home: Home, auth: FakeAuth) -> None:
    await home.failure()
    await sign_in(home)
    assert PIDS
    await wait_until_async(lambda: not any(map(is_alive, PIDS)), 5, what="its end")


async def test_others_cannot_look_into_the_process(home: Home, auth: FakeAuth) -> None:
    """
    It leaves no core file, and the kernel shows its memory and environment to root alone.
    """
    await home.failure()
    login, _ = home.signins.logins.begin(home.authorizer)
    await login.address
    assert login.running is not None
    place = Path(f"/proc/{login.running.pid}")
    limits = (place / "limits").read_text()
    assert "Max core file size        0                    0" in limits
    assert place.stat().st_uid == 0 or os.geteuid() == 0
    shown = (place / "cmdline").read_bytes()
    if os.geteuid() == 0:
        shown += (place / "environ").read_bytes()
    assert b"SENTINEL" not in shown and auth.origin.encode() not in shown
    login.running.end()
    assert isinstance(await login.outcome, Failure)


@pytest.mark.parametrize(
    ("issuer", "path"),
    [
        ("", "/.well-known/openid-configuration"),
        ("/tenant", "/.well-known/oauth-authorization-server/tenant"),
        ("/tenant", "/.well-known/openid-configuration/tenant"),
        ("/tenant", "/tenant/.well-known/openid-configuration"),
    ],
)
async def test_metadata_is_found_where_it_may_be(
    home: Home, auth: FakeAuth, issuer: str, path: str
) -> None:
    auth.issuer, auth.metadata_path = auth.origin + issuer, path
    await home.failure()
    assert (await sign_in(home)).issuer == auth.issuer


async def test_a_server_without_metadata_is_its_own_authorization_server(
    home: Home, auth: FakeAuth
) -> None:
    """
    As of 2025-03-26; no resource is sent there.
    """
    auth.has_prm = False
    auth.metadata_path = "/.well-known/nothing"
    auth.back = {"iss": None}
    await home.failure()
    found = await sign_in(home)
    assert found.resource == "" and "resource" not in auth.authorizations[0]
    assert await home.request() == found.access_token


async def test_a_document_comes_before_registration(home: Home, auth: FakeAuth) -> None:
    home.entry(client_metadata_url="https://client.example.com/mcpd.json")
    auth.metadata["client_id_metadata_document_supported"] = True
    await home.failure()
    found = await sign_in(home)
    assert auth.registrations == [] and found.client.kind == "document"
    assert auth.authorizations[0]["client_id"] == "https://client.example.com/mcpd.json"
    auth.expire()
    assert await home.request() != found.access_token


@pytest.mark.parametrize(
    ("methods", "chosen"),
    [
        (None, "client_secret_basic"),
        (["client_secret_post"], "client_secret_post"),
        (["client_secret_post", "client_secret_basic"], "client_secret_basic"),
    ],
)
async def test_a_configured_client_proves_itself_as_the_server_takes_it(
    home: Home, auth: FakeAuth, tmp_path: Path, methods: list[str] | None, chosen: str
) -> None:
    """
    Its secret stays in the entry; id and secret are form-encoded before base64 (RFC 6749, 2.3.1).
    """
    auth.clients = {"mine:1": "s3cret%:+ ä"}
    auth.metadata |= {
        "registration_endpoint": None,
        "token_endpoint_auth_methods_supported": methods,
    }
    home.entry(client_id="mine:1", client_secret="s3cret%:+ ä", scopes=("read", "write"))
    await home.failure()
    found = await sign_in(home)
    auth.expire()
    assert await home.request() != found.access_token
    assert [form["_method"] for form in auth.grants] == [chosen, chosen]
    assert auth.registrations == [] and auth.authorizations[0]["scope"] == "read write"
    assert "s3cret" not in (tmp_path / "state" / "credentials.json").read_text()


async def test_a_client_that_is_registered_with_a_secret(home: Home, auth: FakeAuth) -> None:
    auth.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
    await home.failure()
    found = await sign_in(home)
    assert found.client.client_secret and auth.grants[0]["_method"] == "client_secret_basic"
    auth.expire()
    assert await home.request() != found.access_token


async def test_an_authorization_server_that_registers_nobody(home: Home, auth: FakeAuth) -> None:
    """
    The error says what to write into the entry.
    """
    auth.metadata["registration_endpoint"] = f"{auth.origin}/not-here"
    await home.failure()
    why = await refusal(home)
    assert "client_id" in why and "redirect_port" in why and auth.authorizations == []
    assert "http://127.0.0.1:PORT/callback" in why
    home.entry(callback_host="localhost")
    assert "http://localhost:PORT/callback" in await refusal(home)


async def test_as_whom(home: Home, auth: FakeAuth) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"sub": "7", "email": "a@example.com"}).encode())
    auth.token_extra["id_token"] = f"x.{claims.decode().rstrip('=')}.y"
    await home.failure()
    assert (await sign_in(home)).account == "a@example.com"


async def test_one_sign_in_is_for_everybody(home: Home, auth: FakeAuth) -> None:
    await home.failure()
    first, is_first = home.signins.logins.begin(home.authorizer)
    second, is_second = home.signins.logins.begin(home.authorizer)
    assert first is second and is_first and not is_second
    address = await first.address
    assert address is not None
    await asyncio.to_thread(browse, address)
    assert isinstance(await second.outcome, Credentials) and len(auth.grants) == 1


async def test_the_address_can_be_pasted(home: Home, auth: FakeAuth) -> None:
    """
    The browser of somebody who works over ssh cannot reach this machine. What is no answer to this
    sign-in is refused, and the sign-in goes on.
    """
    await home.failure()
    logins = home.signins.logins
    login, _ = logins.begin(home.authorizer)
    address = await login.address
    assert address is not None
    end = await asyncio.to_thread(ends_at, address)
    for wrong in ("http://127.0.0.1/callback", end.replace("state=", "state=x"), "", "nonsense"):
        failure = await logins.paste("far", wrong)
        assert failure is not None and failure.kind == "login_failed", wrong
    assert await logins.paste("far", f"  {urllib.parse.urlsplit(end).query}") is None
    assert isinstance(await login.outcome, Credentials)
    failure = await logins.paste("far", end)
    assert failure is not None and "nobody is signing in" in failure.message


@pytest.mark.parametrize(
    ("back", "said"),
    [
        ({"iss": "https://evil.example.com"}, "evil.example.com"),
        ({"iss": None}, "iss"),
        (
            {"code": None, "error": "access_denied", "error_description": "no\x1b[31m!"},
            "access_denied",
        ),
        ({"code": None, "error": "x", "iss": "https://evil.example.com"}, "evil.example.com"),
    ],
)
async def test_an_answer_of_somebody_else(
    home: Home, auth: FakeAuth, back: dict[str, str | None], said: str
) -> None:
    """
    No code is exchanged. Source: RFC 9207.
    """
    auth.back = back
    await home.failure()
    why = await refusal(home)
    assert said in why and why.isprintable() and auth.grants == []


async def test_an_answer_with_another_state_is_not_waited_for(home: Home, auth: FakeAuth) -> None:
    """
    Any page may send a browser to our address: that must not end the sign-in of a person.
    """
    await home.failure()
    login, _ = home.signins.logins.begin(home.authorizer)
    address = await login.address
    assert address is not None
    end = await asyncio.to_thread(ends_at, address)
    forged = end.replace("state=", "state=x")
    status, _, body = await asyncio.to_thread(browse, forged)
    assert status == 400 and b"SENTINEL" not in body
    status, _, _ = await asyncio.to_thread(browse, end.replace("/callback", "/other"))
    assert status == 404 and not login.outcome.done()
    status, _, _ = await asyncio.to_thread(browse, end)
    assert status == 200 and isinstance(await login.outcome, Credentials)


@pytest.mark.parametrize(
    ("where", "member"),
    [
        ("metadata", {"issuer": "https://evil.example.com"}),
        ("prm", {"resource": "https://evil.example.com/mcp"}),
        ("metadata", {"code_challenge_methods_supported": None}),
        ("metadata", {"code_challenge_methods_supported": ["plain"]}),
    ],
)
async def test_metadata_that_does_not_fit(
    home: Home, auth: FakeAuth, where: str, member: dict[str, Any]
) -> None:
    getattr(auth, where).update(member)
    await home.failure()
    why = await refusal(home)
    assert "evil.example.com" in why or "PKCE" in why
    assert auth.authorizations == [] and auth.grants == []


@pytest.mark.parametrize(
    "address", ["http://as.example.com", "https://169.254.169.254", "https://[fd00::7]"]
)
@pytest.mark.parametrize(
    ("where", "member", "suffix"),
    [
        ("prm", "authorization_servers", ""),
        ("metadata", "token_endpoint", "/token"),
        ("metadata", "authorization_endpoint", "/authorize"),
        ("metadata", "registration_endpoint", "/register"),
    ],
)
async def test_discovered_addresses_are_https_and_public(
    home: Home, auth: FakeAuth, where: str, member: str, suffix: str, address: str
) -> None:
    value = [address] if member == "authorization_servers" else address + suffix
    getattr(auth, where)[member] = value
    await home.failure()
    why = await refusal(home)
    assert urllib.parse.urlsplit(address).netloc in why
    assert auth.authorizations == [] and auth.grants == []


async def test_an_error_of_the_token_endpoint_has_no_secret(home: Home, auth: FakeAuth) -> None:
    """
    Such errors repeat what was sent.
    """

    def fault() -> tuple[int, bytes]:
        form = auth.grants[-1]
        said = f"bad {form['code']} {form['code_verifier']} " + "x" * 5000
        return 400, json.dumps({"error": "invalid_grant", "error_description": said}).encode()

    auth.faults = [fault]
    await home.failure()
    why = await refusal(home)
    assert "invalid_grant" in why and len(why) < 500
    assert "SENTINELCODE" not in why and auth.grants[-1]["code_verifier"] not in why


async def test_more_scopes_are_asked_for_at_the_next_sign_in(
    home: Home, auth: FakeAuth, tmp_path: Path
) -> None:
    """
    The union with those that were granted, also by the next daemon.
    """
    await home.failure()
    await sign_in(home)
    headers = await home.authorizer.headers()
    challenge = 'Bearer error="insufficient_scope", scope="admin"'
    with pytest.raises(CannotAuthorize) as raised:
        await home.authorizer.refused(headers, Refused(403, challenge))
    failure = raised.value.failure
    assert failure.kind == "forbidden" and failure.details["scopes"] == ["admin"]
    assert await home.request(), "the rest goes on"
    again = Home(tmp_path / "state", auth)
    await again.request()
    await sign_in(again)
    assert auth.authorizations[-1]["scope"] == "read admin" and len(auth.registrations) == 1


async def test_a_port_that_is_taken(home: Home, auth: FakeAuth) -> None:
    """
    One that was configured is named; one that was registered is not insisted on.
    """
    await home.failure()
    found = await sign_in(home)
    port = urllib.parse.urlsplit(found.client.redirect_uri).port
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port)
    try:
        assert (await sign_in(home)).client.redirect_uri != found.client.redirect_uri
        assert len(auth.registrations) == 2
        home.entry(redirect_port=port)
        assert "redirect_port" in await refusal(home)
    finally:
        server.close()


@needs_ipv6
async def test_a_port_of_localhost_that_is_taken_on_one_address(home: Home, auth: FakeAuth) -> None:
    await home.failure()
    with taken("::1") as port:
        home.entry(callback_host="localhost", redirect_port=port)
        why = await refusal(home)
        assert f"port {port} (redirect_port)" in why and "::1" in why and auth.registrations == []
        home.entry(redirect_port=port)
        found = await sign_in(home)
    assert found.client.redirect_uri == f"http://127.0.0.1:{port}/callback"


async def test_a_server_that_does_not_ask(home: Home, auth: FakeAuth) -> None:
    auth.access[""] = set()
    login, _ = home.signins.logins.begin(home.authorizer)
    assert await login.address is None and isinstance(await login.outcome, NotNeeded)
    assert home.authorizer.describe() == "none"


async def test_signing_out_revokes_and_forgets(home: Home, auth: FakeAuth, tmp_path: Path) -> None:
    await home.failure()
    found = await sign_in(home)
    assert await home.authorizer.sign_out()
    assert {*auth.revoked} == {found.access_token, found.refresh_token}
    for path in (tmp_path / "state").rglob("*"):
        assert b"SENTINEL" not in path.read_bytes(), path
    assert (await home.failure()).kind == "login_required"
    assert home.authorizer.describe() == "oauth: not signed in"


async def test_a_sign_in_ends_with_the_daemon(home: Home, auth: FakeAuth) -> None:
    await home.failure()
    login, _ = home.signins.logins.begin(home.authorizer)
    await login.address
    assert login.running is not None
    pid = login.running.pid
    await home.signins.close()
    await wait_until_async(lambda: not is_alive(pid), 5, what="its end")
    assert isinstance(await login.outcome, Failure)


@pytest.mark.parametrize("path", ["/other", "/mcp/below", "/MCP"])
async def test_a_resource_beside_ours_is_refused(home: Home, auth: FakeAuth, path: str) -> None:
    """
    The document of another server of the same host; both addresses are told.
    """
    auth.prm["resource"] = auth.origin + path
    await home.failure()
    why = await refusal(home)
    assert auth.origin + path in why and auth.url in why and auth.authorizations == []


@pytest.mark.parametrize("path", ["", "/"])
async def test_the_resource_may_be_above_ours_and_is_sent_as_it_is(
    home: Home, auth: FakeAuth, path: str
) -> None:
    auth.prm["resource"] = auth.origin + path
    await home.failure()
    found = await sign_in(home)
    auth.expire()
    await home.request()
    sent = {form["resource"] for form in (*auth.authorizations, *auth.grants)}
    assert sent == {found.resource} and found.resource.rstrip("/") == auth.origin


async def test_a_resource_that_the_authorization_server_does_not_know(
    home: Home, auth: FakeAuth
) -> None:
    auth.faults = [lambda: (400, b'{"error": "invalid_target"}')]
    await home.failure()
    assert "invalid_target" in await refusal(home) and len(auth.grants) == 1


async def test_metadata_of_another_origin_must_be_about_the_server(
    home: Home, auth: FakeAuth
) -> None:
    """
    The challenge comes from the server, and may name any address.
    """
    with FakeAuth() as other:
        other.prm["resource"] = f"{other.origin}/mcp"
        auth.has_prm = False
        headers = await home.authorizer.headers()
        challenge = f'Bearer resource_metadata="{other.origin}{other.prm_path}"'
        with pytest.raises(CannotAuthorize):
            await home.authorizer.refused(headers, Refused(401, challenge))
        assert other.origin in await refusal(home)
        assert other.authorizations == [] and other.registrations == []


async def test_all_requests_go_through_the_proxy(home: Home, auth: FakeAuth) -> None:
    asked: list[str] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readline()).decode().split()[1])
        writer.write(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await home.signed_in()
    auth.expire()
    home.remote = msgspec.structs.replace(home.remote, proxy=f"http://127.0.0.1:{port}")
    await home.failure()
    await refusal(home)
    server.close()
    assert asked[0] == f"{auth.origin}/token" and len(asked) > 2 and auth.paths == []
    assert all(each.startswith(auth.origin) for each in asked)


async def test_a_refresh_token_is_asked_for_where_there_is_a_scope_for_it(
    home: Home, auth: FakeAuth
) -> None:
    auth.metadata["scopes_supported"] = ["read", "offline_access"]
    await home.failure()
    await sign_in(home)
    [asked] = auth.authorizations
    assert (asked["scope"], asked["prompt"]) == ("read offline_access", "consent")
