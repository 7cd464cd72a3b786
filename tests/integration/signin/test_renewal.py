"""Tokens are renewed once for everybody, in time, and no refresh token is used twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec
import pytest

from mcpd.signin import authorizer
from mcpd.signin.credentials import Credentials, now
from mcpd.upstreams.http.authorizer import CannotAuthorize, Refused
from tests.support.fakeauth import FakeAuth
from tests.support.signins import Home
from tests.support.waiting import wait_until_async

Fault = Callable[[], tuple[int, bytes] | None]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again at once what is not answered."""
    monkeypatch.setattr(authorizer, "FIRST_DELAY_S", 0.0)


async def test_twenty_requests_at_the_moment_of_expiry_renew_once(
    home: Home, auth: FakeAuth
) -> None:
    """
    A refresh token that comes twice ends the whole sign-in.
    """
    await home.signed_in()
    auth.token_delay = 0.05
    for turn in range(3):
        auth.expire()
        found = await asyncio.gather(*(home.request() for _ in range(20)))
        assert len({*found}) == 1 and len(auth.used("refresh_token")) == turn + 1
    assert auth.reused == 0 and {form["resource"] for form in auth.grants} == {auth.url}


async def test_those_who_wait_ask_for_the_lock_once(
    home: Home, auth: FakeAuth, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    One by one they would find the new token on disk, each after a turn at the lock.
    """
    store, asked = home.signins.store, 0
    locked = store.locked

    def count(server: str) -> AbstractAsyncContextManager[None]:
        nonlocal asked
        asked += 1
        return locked(server)

    monkeypatch.setattr(store, "locked", count)
    await home.signed_in()
    auth.expire()
    await asyncio.gather(*(home.request() for _ in range(20)))
    assert asked == 1


async def test_a_renewed_token_is_on_disk_before_it_is_used(
    home: Home, auth: FakeAuth, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A daemon that is killed in between would leave a spent refresh token, and no other.
    """
    store, used_before = home.signins.store, []
    save = store.save

    async def look(made: Credentials) -> None:
        found = home.authorizer.credentials
        used_before.append(found is not None and found.access_token == made.access_token)
        await save(made)

    await home.signed_in()
    monkeypatch.setattr(store, "save", look)
    auth.expire()
    await home.request()
    assert used_before == [False]


async def test_a_token_is_renewed_before_it_ends(home: Home, auth: FakeAuth) -> None:
    before = await home.signed_in(age=3600 - 59)
    found = await asyncio.gather(*(home.request() for _ in range(20)))
    assert {*found} != {before.access_token} and len(auth.used("refresh_token")) == 1


async def test_one_that_lives_briefly_is_not_renewed_all_the_time(
    home: Home, auth: FakeAuth
) -> None:
    auth.lifetime = 30
    before = await home.signed_in(age=20)
    assert await home.request() == before.access_token and auth.grants == []


async def test_one_without_an_end_is_renewed_when_it_is_refused(home: Home, auth: FakeAuth) -> None:
    auth.lifetime = None
    before = await home.signed_in(age=10**6)
    assert await home.request() == before.access_token
    auth.expire()
    assert await home.request() != before.access_token
    assert home.authorizer.describe() == "oauth: signed in"


async def test_the_next_daemon_renews_without_asking_anybody(home: Home, auth: FakeAuth) -> None:
    """
    The end of the token and the token endpoint are kept, so nothing is discovered again.
    """
    await home.signed_in(age=7200)
    auth.expire()
    assert await home.again().request() and {*auth.paths} == {"/token"}
    assert await home.again().request() and len(auth.grants) == 1


async def test_what_another_daemon_has_renewed_is_taken(home: Home, auth: FakeAuth) -> None:
    await home.signed_in()
    await home.request()
    other = home.again()
    auth.expire()
    renewed = await other.request()
    assert await home.request() == renewed and len(auth.grants) == 1
    auth.expire()
    auth.token_delay = 0.1
    assert len({*await asyncio.gather(home.request(), other.request())}) == 1
    assert len(auth.grants) == 2 and auth.reused == 0


def answer(status: int, body: bytes) -> Fault:
    return lambda: (status, body)


FAULTS = {
    "500": answer(500, b"oops SENTINELDETAIL"),
    "503": answer(503, b"{}"),
    "429": answer(429, b""),
    "html": answer(200, b"<html>a captive portal</html>"),
    "busy": answer(400, b'{"error": "temporarily_unavailable"}'),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_token_endpoint_that_does_not_decide_ends_nothing(
    home: Home, auth: FakeAuth, fault: Fault
) -> None:
    """
    Nobody is asked to sign in, and the next daemon may use the same refresh token.
    """
    await home.signed_in()
    auth.expire()
    auth.faults = [fault]
    failure = await home.failure()
    assert failure.kind == "connect_failed" and failure.is_retryable
    assert "SENTINEL" not in failure.message
    assert await home.again().request() and auth.reused == 0


async def test_a_token_that_is_valid_is_used_when_it_cannot_be_renewed(
    home: Home, auth: FakeAuth
) -> None:
    before = await home.signed_in(age=3600 - 59)
    auth.faults = [answer(503, b"")] * 3
    assert await home.request() == before.access_token


async def test_a_token_endpoint_that_is_down_is_left_alone_for_a_while(
    home: Home, auth: FakeAuth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authorizer, "FIRST_DELAY_S", 30.0)
    await home.signed_in(age=7200)
    auth.expire()
    auth.faults = [answer(500, b"")]
    for _ in range(5):
        assert (await home.failure()).kind == "connect_failed"
    assert len(auth.grants) == 1


async def test_an_answer_that_is_lost_may_be_asked_for_again_by_the_same_daemon(
    home: Home, auth: FakeAuth
) -> None:
    def hang_up() -> tuple[int, bytes] | None:
        raise ConnectionAbortedError

    await home.signed_in()
    auth.expire()
    auth.faults = [hang_up]
    assert (await home.failure()).is_retryable
    assert (await home.again().failure()).kind == "login_required", "it cannot know"
    assert await home.request() and auth.reused == 0


async def test_a_refresh_token_that_is_refused_is_tried_once(home: Home, auth: FakeAuth) -> None:
    await home.signed_in()
    await home.request()
    auth.forget()
    for _ in range(3):
        assert (await home.failure()).kind == "login_required"
    assert (await home.again().failure()).kind == "login_required"
    assert len(auth.grants) == 1 and home.authorizer.describe() == "oauth: not signed in"


async def test_a_registration_that_is_gone_is_made_again(home: Home, auth: FakeAuth) -> None:
    await home.signed_in()
    auth.expire()
    auth.clients.clear()
    assert (await home.failure()).kind == "login_required"
    order = await home.authorizer.order()
    assert order.client is None and order.challenge == auth.challenge


async def test_a_configured_client_that_is_unknown_is_not_forgotten(
    home: Home, auth: FakeAuth
) -> None:
    made = await home.signed_in()
    client = msgspec.structs.replace(made.client, client_id="mine", kind="configured")
    await home.signins.store.save(msgspec.structs.replace(made, client=client))
    home.entry(client_id="mine")
    auth.expire()
    for _ in range(3):
        assert (await home.failure()).kind == "unauthorized"
    assert len(auth.grants) == 1


async def test_without_a_refresh_token_a_person_is_asked(home: Home, auth: FakeAuth) -> None:
    auth.gives_refresh = False
    await home.signed_in()
    auth.expire()
    assert (await home.failure()).kind == "login_required" and auth.grants == []


async def test_what_was_given_for_another_address_is_not_sent(home: Home, auth: FakeAuth) -> None:
    await home.signed_in()
    home.remote = msgspec.structs.replace(home.remote, url=f"{auth.origin}/other")
    assert await home.authorizer.headers() == {}
    home.remote = msgspec.structs.replace(home.remote, url=auth.url)
    home.entry(client_id="another")
    assert await home.authorizer.headers() == {}


async def test_nothing_is_sent_that_could_not_be_noted(home: Home, auth: FakeAuth) -> None:
    """
    Without the note the next daemon would use the refresh token a second time.
    """
    await home.signed_in()
    await home.request()
    auth.expire()
    path = home.state_dir / "credentials.json"
    path.chmod(0o644)
    failure = await home.failure()
    assert failure.kind == "connect_failed" and "read or written by others" in failure.message
    assert auth.grants == [] and home.troubles
    path.chmod(0o600)
    assert await home.request()


async def test_a_renewal_that_could_not_be_kept_is_the_one_that_goes_on(
    home: Home, auth: FakeAuth
) -> None:
    """
    What is on disk then is older: its refresh token is spent.
    """
    await home.signed_in()
    auth.expire()
    path = home.state_dir / "credentials.json"

    def full() -> tuple[int, bytes] | None:
        path.chmod(0o644)
        return None

    auth.faults = [full]
    assert await home.request() and home.troubles
    path.chmod(0o600)
    for _ in range(2):
        auth.expire()
        assert await home.request()
    assert auth.reused == 0
    assert await home.again().request() and len(auth.grants) == 3


async def test_a_token_endpoint_that_leads_elsewhere_is_not_followed(
    home: Home, auth: FakeAuth
) -> None:
    """
    What is posted has the refresh token in it, whoever is at the other address.
    """
    await home.signed_in()
    auth.expire()
    auth.faults = [lambda: (307, b"")]
    auth.moved_to = f"{auth.origin}/elsewhere"
    assert (await home.failure()).kind == "connect_failed"
    assert "/elsewhere" not in auth.paths
    assert await home.request()


async def test_an_answer_of_a_token_endpoint_is_bounded(home: Home, auth: FakeAuth) -> None:
    await home.signed_in()
    auth.expire()
    auth.faults = [lambda: (200, b" " * (1024 * 1024 + 1) + b'{"access_token": "x"}')]
    assert "too long" in (await home.failure()).message


async def test_who_signs_out_while_the_token_is_renewed_is_signed_out(
    home: Home, auth: FakeAuth
) -> None:
    await home.signed_in()
    auth.expire()
    auth.token_delay = 0.2
    renewing = asyncio.create_task(home.request())
    await wait_until_async(lambda: "/token" in auth.paths)
    await home.authorizer.sign_out()
    await asyncio.wait((renewing,))
    renewing.exception()
    assert "refresh_token" not in (home.state_dir / "credentials.json").read_text()
    assert (await home.failure()).kind == "login_required"
    assert (await home.again().failure()).kind == "login_required"


SCRIPT = """
import asyncio, sys
from pathlib import Path
from tests.support.signins import Home
class Auth: pass
auth = Auth()
auth.url, auth.challenge, auth.access, auth.origin = sys.argv[2], "Bearer", {}, ""
async def main():
    home = Home(Path(sys.argv[1]), auth)
    await home.authorizer.headers()
asyncio.run(main())
"""


@pytest.mark.parametrize("rotates", [True, False])
async def test_a_daemon_that_is_killed_between_refresh_and_write(
    home: Home, auth: FakeAuth, rotates: bool
) -> None:
    """
    Its refresh token may be spent: the next daemon asks a person rather than use it again. Where
    the server is known to keep refresh tokens, it goes on.
    """
    auth.rotates = rotates
    await home.signed_in()
    if not rotates:
        auth.expire()
        assert await home.request()
    made = (await home.signins.store.load("far", auth.url)) or pytest.fail("nothing is kept")
    await home.signins.store.save(msgspec.structs.replace(made, expires=now() - 1))
    auth.expire()
    argv = [sys.executable, "-c", SCRIPT, str(home.state_dir), auth.url]
    root = Path(__file__).parents[3]
    child = subprocess.Popen(argv, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    auth.after = lambda _: os.kill(child.pid, signal.SIGKILL)
    before = len(auth.used("refresh_token"))
    assert await asyncio.to_thread(child.wait, 30) == -signal.SIGKILL
    auth.after = None
    assert len(auth.used("refresh_token")) == before + 1
    auth.expire()
    again = home.again()
    if rotates:
        assert (await again.failure()).kind == "login_required"
        assert len(auth.used("refresh_token")) == before + 1
    else:
        assert await again.request()
    assert auth.reused == 0


async def test_a_slow_token_endpoint_does_not_delay_who_needs_no_new_token(
    home: Home, auth: FakeAuth
) -> None:
    await home.signed_in()
    await home.request()
    started = time.monotonic()
    for _ in range(100):
        await home.authorizer.headers()
    assert auth.grants == [] and time.monotonic() - started < 1


async def test_no_secret_is_in_what_is_told(home: Home, auth: FakeAuth) -> None:
    made = await home.signed_in()
    auth.expire()
    auth.faults = [answer(400, json.dumps({"error": f"bad {made.refresh_token}"}).encode())]
    failure = await home.failure()
    told = f"{failure} {home.authorizer.describe()} {home.troubles}"
    assert failure.kind == "login_required" and "SENTINEL" not in told


# -- machines --------------------------------------------------------------------------------------


async def test_a_machine_gets_its_own_tokens(home: Home, auth: FakeAuth, tmp_path: Path) -> None:
    auth.clients = {"bot": "SENTINELSECRET"}
    home.entry(
        kind="oauth", grant="client_credentials", client_id="bot", client_secret="SENTINELSECRET"
    )
    found = await asyncio.gather(*(home.request() for _ in range(20)))
    [grant] = auth.grants
    assert len({*found}) == 1 and grant["_method"] == "client_secret_basic"
    assert grant["scope"] == "read" and grant["resource"] == auth.url
    auth.expire()
    assert await home.request() and len(auth.grants) == 2 and auth.authorizations == []
    assert "SENTINELSECRET" not in (home.state_dir / "credentials.json").read_text()
    assert await home.again().request() and len(auth.grants) == 2
    assert home.authorizer.describe().startswith("oauth: signed in until")


async def test_a_machine_asks_for_more_scopes_once(home: Home, auth: FakeAuth) -> None:
    auth.clients = {"bot": "secret"}
    home.entry(kind="oauth", grant="client_credentials", client_id="bot", client_secret="secret")
    await home.request()
    challenge = 'Bearer error="insufficient_scope", scope="write"'
    sent = await home.authorizer.headers()
    refused = Refused(403, challenge)
    await asyncio.gather(*(home.authorizer.refused(sent, refused) for _ in range(10)))
    assert [form["scope"] for form in auth.grants] == ["read", "read write"]
    with pytest.raises(CannotAuthorize) as raised:
        await home.authorizer.refused(await home.authorizer.headers(), refused)
    assert raised.value.failure.details["scopes"] == ["write"] and len(auth.grants) == 2


async def test_a_machine_that_is_refused_tries_no_more(home: Home, auth: FakeAuth) -> None:
    auth.clients = {"bot": "right"}
    home.entry(kind="oauth", grant="client_credentials", client_id="bot", client_secret="wrong")
    for _ in range(3):
        failure = await home.failure()
        assert failure.kind == "unauthorized" and "SENTINELDETAIL" not in failure.message
    assert len(auth.grants) == 1


async def test_a_machine_with_a_key(home: Home, auth: FakeAuth, tmp_path: Path) -> None:
    """
    Source: RFC 7523, section 3.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = tmp_path / "key.pem"
    path.write_bytes(key)
    auth.clients = {"bot": None}
    more = {"kind": "oauth", "grant": "client_credentials", "client_id": "bot"}
    home.entry(**more, key_file=str(path))
    assert await home.request()
    [grant] = auth.grants
    claims = grant["_claims"]
    assert claims["iss"] == claims["sub"] == "bot" and claims["aud"] == auth.issuer
    assert claims["exp"] > now() and claims["jti"] and grant["_method"] == "private_key_jwt"
    path.write_text("nonsense")
    home.entry(**more, key_file=str(path), key_algorithm="ES384")
    auth.expire()
    assert str(path) in (await home.failure()).message


async def test_no_machine_goes_to_an_address_that_is_not_public(home: Home, auth: FakeAuth) -> None:
    auth.clients = {"bot": "secret"}
    auth.metadata["token_endpoint"] = "https://192.168.7.7/token"
    home.entry(kind="oauth", grant="client_credentials", client_id="bot", client_secret="secret")
    failure = await home.failure()
    assert "192.168.7.7" in failure.message and auth.grants == []
