"""A server that somebody has signed in to: its token ends while it is used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from mcpd.signin.credentials import Client, Credentials, now
from mcpd.signin.signins import SignIns
from tests.support.fakeauth import FakeAuth
from tests.support.remoteserver import text_of
from tests.support.signins import MemoryKeyring, spawn


@pytest.fixture
def auth() -> Iterator[FakeAuth]:
    with FakeAuth() as fake:
        yield fake


@pytest.fixture
async def far(make, server, auth, monkeypatch):
    """A daemon that is signed in to the server, which takes the tokens of ``auth``."""
    serve = server.serve

    async def guarded(asked):
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if token in auth.access:
            await serve(asked)
        else:
            asked.reply(401, WWW_Authenticate=auth.challenge)

    monkeypatch.setattr(server, "serve", guarded)
    made = make()
    daemon = made.daemon
    daemon.servers.credentials.signins = SignIns(
        daemon.servers.state_dir,
        spawn=spawn,
        connect=daemon.servers._connect,
        tell=daemon.servers.facts.publish,
        trouble=daemon.servers.notices.sign_in_trouble,
        keyring=MemoryKeyring(),
    )
    given = auth.give("read")
    await daemon.servers.credentials.signins.store.save(
        Credentials(
            server="far",
            url=server.url,
            issuer=auth.issuer,
            token_endpoint=f"{auth.origin}/token",
            resource=server.url,
            client=Client(client_id="registered-0", kind="registered"),
            scopes=("read",),
            challenge=auth.challenge,
            access_token=given["access_token"],
            obtained=now(),
            expires=now() + 3600,
            refresh_token=given["refresh_token"],
        )
    )
    return made


def cut_after(server, auth, end):
    """Begin an answer, ``end`` the token, and cut; what resumes the answer needs a good token."""

    def begin(asked):
        asked.begin_stream()
        asked.chunk(b"id: a:0\nretry: 50\ndata:\n\n")
        end()
        asked.cut()
        server.question = asked.message["id"]

    def resume(asked):
        token = asked.headers["authorization"].removeprefix("Bearer ")
        if token not in auth.access:
            asked.reply(401, WWW_Authenticate=auth.challenge)
        elif "last-event-id" not in asked.headers:
            asked.reply(405)
        else:
            answer = {"jsonrpc": "2.0", "id": server.question, "result": text_of("resumed")}
            asked.begin_stream()
            asked.event(answer, "a:1")
            asked.end_stream()

    server.on |= {"tools/call:count": begin, "GET": resume}


async def test_a_token_that_is_revoked_in_the_middle_of_a_call(far, server, auth):
    client = await far.client()
    cut_after(server, auth, auth.expire)
    assert await client.text("count") == "resumed"
    assert len(server.seen("tools/call:count")) == 1, "it was served once"
    assert len(auth.used("refresh_token")) == 1 and auth.reused == 0 and server.made == 1


async def test_a_token_that_is_revoked_between_calls_is_renewed_once_for_all(far, server, auth):
    clients = [await far.client() for _ in range(20)]
    for turn in range(2):
        auth.expire()
        calls = [(each, each.call("count")) for each in clients]
        for each, ident in calls:
            assert "result" in await each.finish(ident)
        assert len(auth.used("refresh_token")) == turn + 1
    assert server.count == 40 and auth.reused == 0 and server.made == 1


async def test_a_sign_in_that_ends_in_the_middle_of_a_call(far, server, auth):
    """
    The server has read the call, so it must not go out again after the next sign-in.
    """
    client = await far.client()
    cut_after(server, auth, auth.forget)
    error = await client.error("count")
    assert (error["kind"], error["outcome_unknown"]) == ("connect_failed", True)
    assert (await client.error("count"))["kind"] == "login_required"
    assert (await far.status())["state"] == "login"
    assert len(server.seen("tools/call:count")) <= 2


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "a message"])
@pytest.mark.parametrize("is_late", [False, True], ids=["now", "renewed meanwhile"])
async def test_a_token_that_is_echoed_in_an_error_is_masked(
    far, server, auth, capfd, kind, is_late
):
    """
    Also one that was renewed between the request and its answer: it may still be good.
    """
    client = await far.client()
    before = next(iter(auth.access))
    waits = asyncio.Event()

    async def echo(asked):
        await waits.wait()
        said = f"no access with {asked.headers['authorization']}"
        if kind == "a message":
            error = {"code": -32000, "message": said}
            asked.json({"jsonrpc": "2.0", "id": asked.message["id"], "error": error}, 400)
        else:
            asked.reply(400, json.dumps({"error": said}).encode(), kind)

    server.on["tools/call:count"] = echo
    ident = client.call("count")
    if is_late:
        while not server.seen("tools/call:count"):
            await asyncio.sleep(0)
        auth.expire()
        assert await client.text("echo", text="x") == "x"
        assert len(auth.used("refresh_token")) == 1
    waits.set()
    answer = await client.finish(ident)
    assert "no access with Bearer ***" in answer["error"]["message"]
    told = f"{answer} {await far.status()} {capfd.readouterr()}"
    assert before not in told and "SENTINELACCESS" not in told
