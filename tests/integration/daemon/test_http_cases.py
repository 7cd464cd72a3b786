"""What others' HTTP servers were reported for, each by its number in ``tests/faults/README.md``."""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from typing import Any

from tests.integration.daemon.test_http_hostile import JSON, resident, sent, sessions, statuses
from tests.property.hostile.http import ENVELOPE, raw, request
from tests.support.daemon import Box, Json
from tests.support.httpclient import BOTH, Answer, HttpClient, token, turned_on
from tests.support.waiting import scaled, wait_until

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a"}}
PAGE = "http://localhost:6274"


def post(client: HttpClient, message: Any, headers: dict[str, str] | None = None) -> Answer:
    return client.request("POST", "/mcp/fake", message, headers)


def modern(client: HttpClient, method: str, **params: Any) -> bytes:
    headers = ("MCP-Protocol-Version: 2026-07-28", f"Mcp-Method: {method}")
    name = f"Mcp-Name: {params.get('name', '')}"
    return raw("POST", "/mcp/fake", client, *headers, name,
               body=request(method, **params, _meta=ENVELOPE))  # fmt: skip


def journal(box: Box, method: str) -> list[Json]:
    """Return the messages of a method that the server was sent."""
    messages = [entry.get("message", {}) for entry in box.journal()]
    return [each for each in messages if each.get("method") == method]


def calls(box: Box, tool: str) -> list[Json]:
    return [each for each in journal(box, "tools/call") if each["params"]["name"] == tool]


def is_closed(message: Json) -> bool:
    return bool(message.get("params", {}).get("event") == "session.closed")


def test_an_unknown_session_is_404_and_initialize_opens_another(box: Box) -> None:
    """
    H002, H003, H004: no login and no bad parameters, and the text says what to do.
    """
    client = turned_on(box.fake())
    headers = {"Mcp-Session-Id": "of-an-earlier-one"}
    for method in ("POST", "GET", "DELETE"):
        body = request("tools/list") if method == "POST" else None
        with client.request(method, "/mcp/fake", body, headers) as answer:
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (404, None)
            error = answer.json()["error"]
            assert error["code"] != -32602
            assert "initialize" in error["message"]
    with post(client, request("initialize", **HELLO), headers) as answer:
        assert answer.status == 200
        assert answer.headers["Mcp-Session-Id"] not in (None, headers["Mcp-Session-Id"])
    client.token = "wrong"
    with post(client, request("ping"), headers) as answer:
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_sessions_that_are_left_behind_are_bounded_and_end(box: Box) -> None:
    """
    H005: most clients never send DELETE.
    """
    client = turned_on(box.fake(), max_sessions=20, session_idle=1)
    before = 0
    for number in range(300):
        assert post(client, request("initialize", **HELLO)).code() == 200
        if number == 50:
            before = resident(box)
    assert sessions(box) <= 20
    assert len([*(box.state / "http-sessions").iterdir()]) <= 20
    assert resident(box) - before < 10 * 2**20
    wait_until(lambda: sessions(box) == 0, 10)
    assert not [*(box.state / "http-sessions").iterdir()]


def test_a_session_that_is_ended_is_gone(box: Box) -> None:
    """
    H006: and told once.
    """
    client = turned_on(box.fake())
    session = client.session()
    with box.peer() as watcher:
        watcher.request("mcpd/events", {"since": 0})
        assert client.request("DELETE", "/mcp/fake", None, session.headers).code() == 204
        assert session.post("ping").code() == 404
        assert client.request("DELETE", "/mcp/fake", None, session.headers).code() == 404
        watcher.take(is_closed)
        assert sessions(box) == 0
        assert not list(filter(is_closed, watcher.inbox))


def test_sessions_in_use_are_never_closed_for_others(box: Box) -> None:
    """
    H007
    """
    client = turned_on(box.fake(), max_sessions=3)
    used = [client.session() for _ in range(3)]
    streams = [session.listen() for session in used[:2]]
    assert client.session().text("echo", text="x") == "x"
    assert used[2].post("ping").code() == 404
    more = client.session()
    streams.append(more.listen())
    with post(client, request("initialize", **HELLO)) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert used[0].text("echo", text="x") == "x"
    for stream in streams:
        stream.close()


def test_a_get_is_a_stream_or_fails_at_once(box: Box) -> None:
    """
    H008, H009, H010, H011, H019: never JSON with 200, never 401 with a good token.
    """
    client = turned_on(box.fake())
    for headers in ({}, {"MCP-Protocol-Version": "2026-07-28"}):
        with client.request("GET", "/mcp/fake", None, headers) as answer:
            assert (answer.status, "POST" in answer.headers["Allow"]) == (405, True)
    assert client.request("GET", "/mcp/other").code() == 404
    with client.session().listen() as answer:
        assert answer.headers.get_content_type() == "text/event-stream"


def test_no_spelling_of_an_address_is_redirected(box: Box) -> None:
    """
    H017, H018
    """
    client = turned_on(box.fake())
    good = client.token
    for target in ("/mcp", "/mcp/", "/mcp/fake", "/mcp/fake/"):
        client.token = good
        with client.rpc("ping", target=target) as answer:
            assert (answer.status, answer.headers["Location"]) == (200, None)
        client.token = None
        with client.rpc("ping", target=target) as answer:
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_what_has_no_answer_is_202_without_a_type(box: Box) -> None:
    """
    H012, H013, H016: neither ``Accept`` nor the session matters.
    """
    client = turned_on(box.fake())
    session = client.session()
    told = {"jsonrpc": "2.0", "method": "notifications/progress"}
    answered = {"jsonrpc": "2.0", "id": 99, "result": {}}
    for message in (told, answered):
        for headers in ({}, session.headers):
            with post(client, message, {**headers, "Accept": "text/html"}) as answer:
                assert (answer.status, answer.headers["Content-Type"]) == (202, None)
                assert answer.headers["Content-Length"] == "0"


ACCEPTED = {
    "*/*": "application/json",
    "application/*": "application/json",
    "application/json": "application/json",
    "text/event-stream": "text/event-stream",
    BOTH: "application/json",
    "application/json;q=0, text/event-stream": "text/event-stream",
    "application/json; charset=utf-8": "application/json",
}


def test_an_answer_has_a_type_that_its_client_takes(box: Box) -> None:
    """
    H014, H015: on a session one of the two types is enough.
    """
    client = turned_on(box.fake())
    session = client.session()
    for accept, kind in ACCEPTED.items():
        with post(client, request("ping"), {**session.headers, "Accept": accept}) as answer:
            assert (answer.status, answer.headers.get_content_type()) == (200, kind)
            assert answer.message()["result"] == {}
    assert post(client, request("ping"), {**session.headers, "Accept": "text/html"}).code() == 406


def test_an_array_is_for_sessions_of_one_revision_and_bounded(box: Box) -> None:
    """
    H020, H021: nothing of one that is refused is carried out.
    """
    client = turned_on(box.fake())
    call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "count", "arguments": {}}}
    batch = [{**call, "id": number} for number in range(101)]
    for headers in ({}, client.session().headers, {"MCP-Protocol-Version": "2026-07-28"}):
        assert post(client, batch[:2], headers).code() == 400
    with post(client, request("initialize", **HELLO | {"protocolVersion": "2025-03-26"})) as answer:
        headers = {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}
    assert post(client, batch, headers).code() == 400
    assert not calls(box, "count")
    with post(client, batch[:100], headers) as answer:
        assert sorted(each["id"] for each in answer.json()) == [*range(100)]


def test_a_call_that_is_quiet_for_long_has_comments(box: Box) -> None:
    """
    H022, H023, H029: the head of the stream is there before, for proxies, with buffering off.
    """
    client = turned_on(box.fake(), keepalive=0.2, json_wait=0.1)
    session = client.session()
    with session.post("tools/call", {"name": "sleep", "arguments": {"ms": 1500}}) as answer:
        assert answer.headers["X-Accel-Buffering"] == "no"
        lines = answer.lines()
    assert lines.count(b": keep-alive") >= 2
    assert [line for line in lines if line.startswith(b"data: {")]


def test_a_large_result_is_json(box: Box) -> None:
    """
    H024: clients have limits for one event.
    """
    client = turned_on(box.fake())
    with client.session().post("tools/call", {"name": "blob", "arguments": {"bytes": 3 << 20}}) as (
        answer
    ):
        assert answer.headers.get_content_type() == "application/json"
        assert len(str(answer.json())) > 3 << 20


def test_an_event_id_that_is_not_of_this_session_brings_nothing(box: Box) -> None:
    """
    H025, H026, H027
    """
    client = turned_on(box.fake(), json_wait=0)
    first, second = client.session(), client.session()
    with first.post("tools/call", {"name": "progress", "arguments": {"steps": 1}}) as answer:
        lines = answer.lines()
    assert b"data:" not in lines, "an event without data is for 2025-11-25"
    ident = next(line for line in lines if line.startswith(b"id: "))[4:].decode()
    for event in (ident, "garbage", ident.replace(".", ".9", 1), f"00000000{ident[8:]}"):
        headers = {**second.headers, "Last-Event-ID": event}
        assert client.request("GET", "/mcp/fake", None, headers).code() == 404
    assert second.text("echo", text="x") == "x"
    headers = {**first.headers, "Last-Event-ID": ident}
    with client.request("GET", "/mcp/fake", None, headers) as answer:
        assert not [line for line in answer.lines() if line.startswith(b"data: {")]


def test_a_client_that_sends_nothing_more_gets_its_answer(box: Box) -> None:
    """
    H028: on a session.
    """
    client = turned_on(box.fake())
    session = client.session()
    headers = [f"{name}: {value}" for name, value in session.headers.items()]
    call = request("tools/call", name="sleep", arguments={"ms": 200})
    with sent(client, raw("POST", "/mcp/fake", client, "Connection: close", *headers,
                          body=call)) as sock:  # fmt: skip
        sock.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert b"slept 200" in answer


def test_what_belongs_to_a_call_is_on_its_stream(box: Box) -> None:
    """
    H030, H031, H032
    """
    client = turned_on(box.fake(), keepalive=0)
    session = client.session()
    call = {"name": "progress", "arguments": {"steps": 3}, "_meta": {"progressToken": 7}}
    with session.listen() as stream:
        with session.post("tools/call", call) as answer:
            events = list(iter(answer.event, None))
        assert session.text("grow", name="more")
        unasked = stream.event()
    assert [each.get("method") for each in events] == ["notifications/progress"] * 3 + [None]
    assert unasked is not None
    assert unasked["method"] == "notifications/tools/list_changed"


def test_a_client_that_leaves_takes_its_call_with_it_where_it_cannot_return(box: Box) -> None:
    """
    H033, H034: a modern request is cancelled, one on a session is not.
    """
    client = turned_on(box.fake())
    sock = sent(client, modern(client, "tools/call", name="hang", arguments={}))
    wait_until(lambda: calls(box, "hang"), 10)
    sock.close()
    wait_until(lambda: journal(box, "notifications/cancelled"), 10)
    session = client.session()
    headers = [f"{name}: {value}" for name, value in session.headers.items()]
    call = request("tools/call", name="sleep", arguments={"ms": 300})
    sent(client, raw("POST", "/mcp/fake", client, *headers, body=call)).close()
    wait_until(lambda: calls(box, "sleep"), 10)
    assert session.post("ping").code() == 400, "its id is taken as long as it is under way"
    wait_until(lambda: session.post("ping").code() == 200, 10)
    assert len(journal(box, "notifications/cancelled")) == 1


def test_a_call_that_is_cancelled_ends_its_stream(box: Box) -> None:
    """
    H035, H036: and so does the end of its session.
    """
    client = turned_on(box.fake(), json_wait=0)
    session, other = client.session(), client.session()
    hang = {"name": "hang", "arguments": {}}
    with session.post("tools/call", hang) as answer:
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled",
                  "params": {"requestId": 1}}  # fmt: skip
        assert post(client, cancel, session.headers).code() == 202
        assert answer.event() is None
    with other.post("tools/call", hang), session.post("tools/call", hang) as answer:
        wait_until(lambda: len(calls(box, "hang")) == 3, 10)
        assert client.request("DELETE", "/mcp/fake", None, session.headers).code() == 204
        assert answer.event() is None
        wait_until(lambda: len(journal(box, "notifications/cancelled")) == 2, 10)
        assert client.session().text("echo", text="x") == "x"
        assert len(journal(box, "notifications/cancelled")) == 2


OTHERS = (
    ("Host", "evil.test", 421, "allowed_hosts"),
    ("Host", "localhost.evil.test", 421, "allowed_hosts"),
    ("Origin", "http://evil.test", 403, "allowed_origins"),
    ("Origin", "null", 403, "allowed_origins"),
    ("Origin", "http://localhost.evil.test", 403, "allowed_origins"),
    ("Origin", "http://localhost:6274.evil.test", 403, "allowed_origins"),
)
TARGETS = ("/mcp/fake", "/.well-known/oauth-protected-resource", "/healthz", "/x")


def test_another_name_or_page_gets_nothing(box: Box) -> None:
    """
    H038, H039, H040, H041, H044: whatever a proxy says of them, and no answer repeats them.
    """
    client = turned_on(box.fake(), allowed_origins=[PAGE])
    body = request("initialize", **HELLO)
    for method, target in itertools.product(("POST", "GET", "DELETE", "OPTIONS"), TARGETS):
        for name, value, status, key in OTHERS:
            headers = {name: value, "X-Forwarded-Host": "localhost", "Forwarded": "host=localhost"}
            with client.request(method, target, body, headers) as answer:
                assert answer.status == status
                assert answer.headers["Access-Control-Allow-Origin"] is None
                said = str(answer.headers) + str(answer.json())
            assert key in said
            assert "evil" not in said
    assert sessions(box) == 0


def test_an_allowed_page_gets_what_its_browser_asks_for(box: Box) -> None:
    """
    H042, H043: before each kind of request, and without a token.
    """
    client = turned_on(box.fake(), allowed_origins=[PAGE])
    client.token = None
    wanted = ("authorization, content-type, accept, mcp-session-id, mcp-protocol-version, "
              "last-event-id, mcp-method, mcp-name, mcp-param-region")  # fmt: skip
    for method in ("POST", "GET", "DELETE"):
        headers = {"Origin": PAGE, "Access-Control-Request-Method": method,
                   "Access-Control-Request-Headers": wanted}  # fmt: skip
        with client.request("OPTIONS", "/mcp/fake", None, headers) as answer:
            assert answer.status == 204
            assert answer.headers["Access-Control-Allow-Origin"] == PAGE
            assert method in answer.headers["Access-Control-Allow-Methods"]
            allowed = answer.headers["Access-Control-Allow-Headers"].lower().split(", ")
            assert set(wanted.split(", ")) <= set(allowed)
    with client.rpc("ping") as answer:
        assert answer.status == 401


def test_who_looks_for_a_login_finds_none(box: Box) -> None:
    """
    H045, H046: in JSON, at once.
    """
    client = turned_on(box.fake())
    client.token = None
    for target in ("/.well-known/oauth-authorization-server", "/register",
                   "/.well-known/oauth-protected-resource/mcp/fake"):  # fmt: skip
        with client.request("GET", target) as answer:
            assert (answer.status, answer.headers.get_content_type()) == (404, "application/json")
    with client.rpc("ping") as answer:
        assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_no_part_of_a_token_is_shown_anywhere(box: Box) -> None:
    """
    H047, H048, H049, H141: nor of one that is nearly right, and no server is given it.
    """
    box.settings = {"log_level": "debug"}
    client = turned_on(box.fake())
    good = client.token or ""
    other = token(box, "other", "--read-only")
    session = client.session()
    session.text("echo", text="x")
    client.token = good[:-1] + ("A" if good[-1] != "A" else "B")
    assert client.rpc("ping").code() == 401
    wait_until(lambda: "http.refused" in box.tail(100_000), 10)
    shown = box.tail(1_000_000) + str(box.journal())
    for args in (("status", "--json"), ("doctor", "--json"), ("list", "--json"),
                 ("token", "list", "--json"), ("status",), ("doctor",)):  # fmt: skip
        done = box.ctl(*args)
        shown += done.stdout + done.stderr
    with box.peer() as watcher:
        watcher.request("mcpd/events", {"since": 0})
        with contextlib.suppress(TimeoutError):
            watcher.take(lambda _: False, 0.3)
        shown += str(watcher.inbox)
    for path in [*box.state.rglob("*.json"), *(box.state / "http-sessions").iterdir()]:
        shown += path.read_text()
    for text in (good, other, session.headers["Mcp-Session-Id"]):
        parts = {text[at : at + 12] for at in range(len(text) - 12)}
        assert not [part for part in parts if part in shown]


def test_slow_bodies_are_cut(box: Box) -> None:
    """
    H020
    """
    client = turned_on(box.fake(), request_timeout=0.5)
    with sent(client, raw("POST", "/mcp/fake", client, JSON, "Content-Length: 1000")) as sock:
        until = time.monotonic() + scaled(10)
        sock.settimeout(0.1)
        said = b""
        while not said and time.monotonic() < until:
            sock.sendall(b" ")
            with contextlib.suppress(TimeoutError):
                said = sock.recv(1000)
    assert said.startswith(b"HTTP/1.1 408 ")
    assert statuses(client, raw("GET", "/healthz", client, "Connection: close")) == [200]


def test_a_session_is_of_its_token_and_its_address(box: Box) -> None:
    client = turned_on(box.fake().fake("more"))
    session = client.session()
    assert client.session("/mcp/more").text("echo", text="x") == "x"
    assert client.request("POST", "/mcp/more", request("ping"), session.headers).code() == 404
    assert client.request("POST", "/mcp", request("ping"), session.headers).code() == 404
    client.token = token(box, "another")
    for method in ("POST", "GET", "DELETE"):
        body = request("ping") if method == "POST" else None
        assert client.request(method, "/mcp/fake", body, session.headers).code() == 404
