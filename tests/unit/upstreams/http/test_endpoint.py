"""What requests to a remote server are sent with, and what is hidden of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mcpd.config.remote import RemoteConfig
from mcpd.upstreams.http.endpoint import Endpoint

TOKEN = "an-access-token-of-somebody"


class Signed:
    """An authorizer with a token that a person signed in for."""

    def __init__(self) -> None:
        self.challenges: list[str] = []

    async def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {TOKEN}"}

    async def refused(self, sent: dict[str, str], refused: Any) -> None:
        self.challenges.append(refused.challenge)

    def describe(self) -> str:
        return "oauth"


class Client:
    """Answers with these statuses, one after the other."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)

    async def request(self, method: str, url: str, **more: Any) -> Any:
        answer = SimpleNamespace(
            status=self.statuses.pop(0),
            headers={},
            challenge='Bearer scope="a", Basic',
            close=lambda: None,
        )
        return answer, url


def make(*statuses: int) -> tuple[Endpoint, Signed]:
    signed = Signed()
    spec = SimpleNamespace(server="far", remote=RemoteConfig(url="https://example.com/mcp"))
    return Endpoint(spec, Client(*statuses), signed), signed  # type: ignore[arg-type]


async def test_what_a_server_says_is_told_without_the_token_and_the_session_that_it_was_sent():
    endpoint, _ = make(200)
    await endpoint.post(b"{}", None)
    endpoint.session_id = "session-0123456789"
    said = endpoint.masked(f"no {TOKEN} for {endpoint.session_id}, Bearer")
    assert said == "no *** for ***, Bearer"


async def test_all_challenges_of_a_refusal_reach_who_authorises():
    endpoint, signed = make(401, 200)
    await endpoint.post(b"{}", None)
    assert signed.challenges == ['Bearer scope="a", Basic']
