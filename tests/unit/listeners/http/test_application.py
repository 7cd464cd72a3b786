"""What each request passes on its way to its endpoint, and in which order."""

from __future__ import annotations

import pytest

from mcpd.listeners.http.application import MOST_IN_FLIGHT
from tests.support.asgi import META, MODERN, FakeCore, Front, Link, message, notification
from tests.support.virtualtime import settle, virtual

PING = message("ping")


def front(**settings) -> Front:
    return Front(FakeCore(), **settings)


@virtual
async def test_health_needs_no_token_and_says_nothing_else():
    made = front()
    answer = await made.ask("GET", "/healthz", token=None)
    assert answer.json() == {"status": "ok"}
    assert (await made.ask("POST", "/healthz", PING, token=None)).headers["allow"] == "GET"


@virtual
async def test_the_order_of_checks():
    """
    Host, Origin, token, path, method, headers, body: each request lacks one thing less.
    """
    made = front()
    wrong = {
        "host": "evil.example",
        "origin": "http://evil.example",
        "token": "wrong",
        "content_type": "text/plain",
    }
    path, method, found = "/nowhere", "PUT", []
    for repair in ("host", "origin", "token", "path", "method", "content_type", "body"):
        asked = await made.ask(method, path, b"{", **wrong)
        found.append(asked.status)
        assert asked.headers["content-type"] == "application/json"
        match repair:
            case "path":
                path = "/mcp"
            case "method":
                method = "POST"
            case _:
                wrong.pop(repair, None)
    assert found == [421, 403, 401, 404, 405, 415, 400]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("127.0.0.1:6273", 200),
        ("[::1]", 200),
        ("mcp.example", 200),
        ("mcp.example:443", 200),
        ("localhost.evil.example", 421),
        ("localhost@evil.example", 421),
        ("127.0.0.1.nip.io", 421),
        ("127.1", 421),
        ("", 421),
        (None, 421),
        (["localhost", "localhost"], 421),
        (["localhost", "evil.example"], 421),
    ],
)
@virtual
async def test_a_host_that_is_ours(host, status):
    made = front(allowed_hosts=("mcp.example",))
    assert (await made.ask("GET", "/healthz", host=host)).status == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:6273", 200),
        ("http://app.example", 200),
        ("http://localhost:1", 403),
        ("https://localhost:6273", 403),
        ("http://app.example.evil", 403),
        ("null", 403),
        ("", 403),
        (["http://app.example", "http://app.example"], 403),
    ],
)
@virtual
async def test_an_origin_that_may(origin, status):
    made = front(allowed_origins=("http://app.example",))
    for method in ("GET", "OPTIONS"):
        asked = await made.ask(method, "/healthz", origin=origin, token=None)
        assert asked.status == (204 if method == "OPTIONS" and status == 200 else status)
        assert ("access-control-allow-origin" in asked.headers) == (status == 200)


@virtual
async def test_a_preflight_is_answered_without_a_token_and_errors_can_be_read_by_the_page():
    made = front(allowed_origins=("http://app.example",))
    asked = await made.ask(
        "OPTIONS",
        "/mcp/one",
        token=None,
        origin="http://app.example",
        access_control_request_headers="mcp-param-where, x-evil",
    )
    assert "mcp-param-where" in asked.headers["access-control-allow-headers"]
    assert "x-evil" not in asked.headers["access-control-allow-headers"]
    asked = await made.ask("POST", "/mcp/one", PING, token=None, origin="http://app.example")
    assert asked.status == 401
    assert asked.headers["access-control-allow-origin"] == "http://app.example"
    assert (await made.ask("OPTIONS", "/mcp/one")).status == 405


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic ada",
        "ada",
        "Bearer bob2",
        "Bearer ada ada",
        "Bearer\xa0ada",
    ],
)
@virtual
async def test_who_has_no_token_gets_one_answer_whatever_is_wrong(authorization):
    made = front()
    asked = await made.ask("POST", "/mcp/one", PING, token=None, authorization=authorization)
    assert (asked.status, asked.json()) == (401, {"error": "Unauthorized"})
    assert asked.headers["www-authenticate"] == "Bearer"
    assert made.refused == 1


@virtual
async def test_no_token_is_needed_where_the_configuration_says_so():
    made = front(needs_token=False)
    await made.ask("POST", "/mcp/one", PING, token=None)
    assert made.core.opened[0][:2] == (None, "one")


@virtual
async def test_clients_that_look_for_oauth_are_told_that_there_is_none():
    made = front()
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/x", "/register"):
        asked = await made.ask("GET", path, token=None)
        assert (asked.status, asked.json()) == (404, {"error": "Not Found"})
    assert made.refused == 0


@virtual
async def test_a_server_that_is_none_is_named_with_the_id_of_the_request():
    made = front()
    asked = await made.ask("POST", "/mcp/two", message("ping", "x"))
    assert (asked.status, asked.json()["id"]) == (404, "x")
    for body in (b"{", [PING], notification("n"), b'{"id":1}'):
        assert (await made.ask("POST", "/mcp/two", body)).status == 404
    assert (await made.ask("GET", "/mcp/two", mcp_session_id="x")).status == 404
    assert (await made.ask("GET", "/sse/two")).status == 404
    assert not made.core.opened


@virtual
async def test_get_and_delete_need_a_session():
    made = front()
    assert (await made.ask("GET", "/mcp/one")).headers["allow"] == "POST"
    assert (await made.ask("DELETE", "/mcp/one")).status == 400
    for method in ("GET", "DELETE"):
        asked = await made.ask(method, "/mcp/one", mcp_session_id="x", mcp_protocol_version=MODERN)
        assert (asked.status, asked.headers["allow"]) == (405, "POST")
        assert (await made.ask(method, "/mcp/one", mcp_session_id="x")).status == 404


@virtual
async def test_a_body_over_its_limit_is_refused_before_it_was_read_whole():
    made = front(max_request_bytes=10)
    for more in ({"content_length": "11"}, {}):
        asked = await made.ask("POST", "/mcp/one", parts=[b"x" * 6] * 3, **more)
        assert asked.status == 413
        assert "max_request_bytes" in asked.json()["message"]


@virtual
async def test_a_client_that_leaves_within_its_body_is_forgotten():
    made = front()
    asked = await made.ask("POST", "/mcp/one", parts=[])
    assert asked.is_over and not asked.status


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"\xff", -32700),
        (b"{", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b"1", -32600),
        (b"null", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"x"}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"x"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
        (b'{"jsonrpc":"2.0","id":"%b","method":"x"}' % (b"9" * 5000), -32600),
    ],
    ids=lambda each: repr(each)[:30],
)
@virtual
async def test_a_body_that_is_no_message_is_refused(body, code):
    made = front()
    for version in (None, "2025-11-25", MODERN, "2099-01-01", "x"):
        asked = await made.ask("POST", "/mcp/one", body, mcp_protocol_version=version)
        assert asked.status == 400
        assert asked.json()["error"]["code"] == code
    assert not made.core.taken


@virtual
async def test_a_token_has_so_many_requests_in_flight():
    made = front()
    asked = [
        await made.ask("POST", "/mcp/one", message("ping", number))
        for number in range(MOST_IN_FLIGHT + 1)
    ]
    assert (asked[-1].status, asked[-1].headers["retry-after"]) == (429, "1")
    assert not (await made.ask("POST", "/mcp/one", PING, token="bob")).status
    listen = message("subscriptions/listen", 1, notifications={}, _meta=META)
    headers = {"mcp_protocol_version": MODERN, "mcp_method": "subscriptions/listen"}
    assert (await made.ask("POST", "/mcp/one", listen, **headers)).status == 200
    assert (await made.ask("POST", "/mcp/one", notification("n"))).status == 202
    asked[0].lose()
    await settle()
    assert not (await made.ask("POST", "/mcp/one", PING)).status
    assert (await made.ask("POST", "/mcp/one", PING)).status == 429
    for each in asked:
        each.lose()
    await settle()
    assert set(made.application._in_flight) <= {"ada", "bob"}


@virtual
async def test_a_bug_of_ours_is_a_status_and_is_raised_for_the_log(monkeypatch):
    made = front()

    def broken(*_args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(made.core, "take", broken)
    asked = await made.ask("POST", "/mcp/one", PING)
    assert (asked.status, asked.json()) == (500, {"error": "Internal Server Error"})
    with pytest.raises(ZeroDivisionError):
        await asked.wait()
    assert not made.application._in_flight


@virtual
async def test_requests_of_one_connection_come_one_after_another():
    made, link = front(), Link()
    for number in range(3):
        asked = await made.ask("POST", "/mcp/one", message("ping", number), link=link)
        made.core.answer(made.core.newest, number)
        assert (await asked.wait()).status == 200
    link.lose()
    assert "notifications/cancelled" not in [said["method"] for _, said in made.core.taken]
