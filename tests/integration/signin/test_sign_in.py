"""A person signs in: the process for it against a fake authorization server."""

from __future__ import annotations

import asyncio

from mcpd.signin.credentials import Credentials
from tests.integration.signin.conftest import Home
from tests.support.fakeauth import FakeAuth, browse


async def sign_in(home: Home) -> Credentials:
    """Sign in, with a browser that follows redirects."""
    login, is_mine = home.signins.logins.begin(home.authorizer)
    address = await login.address
    assert is_mine and address is not None, await login.outcome
    status, _, _ = await asyncio.to_thread(browse, address)
    assert status == 200
    found = await login.outcome
    assert isinstance(found, Credentials), found
    return found


async def test_a_person_signs_in(home: Home, auth: FakeAuth) -> None:
    failure = await home.failure()
    assert failure.kind == "login_required" and "mcpctl login far" in failure.message
    found = await sign_in(home)
    assert await home.request() == found.access_token
    print(found, auth.authorizations, auth.grants, auth.registrations)
