"""Servers that answer in ways that nobody expects, each of them seen somewhere."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import ssl

import pytest

from tests.support.far import Client
from tests.support.remoteserver import RemoteServer, text_of
from tests.support.waiting import wait_until_async

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}


async def start_error(far):
    """Return the error of a client whose server cannot be used."""
    client = Client(far)
    await client.request("mcpd/attach", server="far")
    return (await client.request("initialize", **HELLO))["error"]


NOTHING = {
    "200 empty": lambda asked: asked.reply(200),
    "200 {}": lambda asked: asked.reply(200, b"{}", "application/json"),
    "200 null": lambda asked: asked.reply(200, b"null", "application/json"),
    "204": lambda asked: asked.reply(204),
    "202 JSON": lambda asked: asked.reply(202, b"", "application/json"),
    "202 chunked": lambda asked: asked.raw(
        b"HTTP/1.1 202 X\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "a stream": lambda asked: (asked.begin_stream(), asked.end_stream())[0],
}


@pytest.mark.parametrize("nothing", NOTHING.values(), ids=NOTHING)
async def test_what_a_notification_is_answered_does_not_matter(far, server, nothing):
    server.on["notifications/initialized"] = nothing
    client = await far.client()
    assert await client.text("echo", text="x") == "x"
    status = await far.status()
    assert (status["state"], status["last_error"]) == ("ready", None)


@pytest.mark.parametrize("name", ["200 empty", "204", "202 JSON", "a stream"])
async def test_a_request_that_is_answered_with_nothing_fails_alone(far, server, name):
    server.on["tools/call:count"] = NOTHING[name]
    client = await far.client()
    error = await client.error("count")
    assert error["kind"] in ("invalid_message", "connect_failed") and error["outcome_unknown"]
    assert await client.text("echo", text="x") == "x"


async def test_a_page_instead_of_an_answer_is_a_wrong_address(far, server):
    server.on["POST"] = lambda asked: asked.reply(200, b"<html>SENTINEL", "text/html")
    error = await start_error(far)
    assert "answered with text/html" in error["message"] and "is url in its entry right" in str(
        error
    )
    assert "SENTINEL" not in str(error)


async def test_the_page_of_a_gateway_is_not_told(far, server):
    server.on["tools/call:count"] = lambda asked: asked.reply(502, b"<html>SENTINEL", "text/html")
    client = await far.client()
    answer = await client.request("tools/call", name="count", arguments={})
    assert "HTTP 502" in answer["error"]["message"] and "SENTINEL" not in str(answer)


@pytest.mark.parametrize("form", ["json", "sse"])
@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, (1 << 20) - 1, (1 << 20) + 1, 5_000_000])
async def test_answers_of_any_size_arrive(far, server, form, size):
    def answer(asked):
        if form == "json":
            asked.text("x" * size)
            return
        asked.begin_stream()
        message = {"jsonrpc": "2.0", "id": asked.message["id"], "result": text_of("x" * size)}
        asked.event(message)
        asked.end_stream()

    server.on["tools/call:count"] = answer
    assert await (await far.client()).text("count") == "x" * size


async def test_the_last_event_may_lack_its_empty_line(far, server):
    def answer(asked):
        message = {"jsonrpc": "2.0", "id": asked.message["id"], "result": text_of("whole")}
        asked.begin_stream()
        asked.chunk(f"data: {json.dumps(message)}\n".encode())
        asked.end_stream()

    server.on["tools/call:count"] = answer
    assert await (await far.client()).text("count") == "whole"


async def test_all_that_comes_before_an_answer_arrives_in_order(far, server):
    """
    The server's question is answered by a POST of its own, and the answer follows.
    """
    client = await far.client()

    async def answer(asked):
        token = asked.params["_meta"]["progressToken"]
        asked.begin_stream()
        for number in range(5):
            params = {"progressToken": token, "progress": number}
            asked.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        asked.event({"jsonrpc": "2.0", "id": "q1", "method": "ping"})
        await wait_until_async(
            lambda: [each for each in server.asked if each.message.get("id") == "q1"]
        )
        asked.event({"jsonrpc": "2.0", "id": asked.message["id"], "result": text_of("done")})
        asked.end_stream()

    server.on["tools/call:count"] = answer
    found = await client.request(
        "tools/call", name="count", arguments={}, _meta={"progressToken": "p"}
    )
    assert found["result"]["content"][0]["text"] == "done"
    told = [
        each for each in client.outbox.messages if each.get("method") == "notifications/progress"
    ]
    assert [each["params"]["progress"] for each in told] == [0, 1, 2, 3, 4]


async def test_connections_that_the_server_closes_are_not_used_again(far, server):
    """
    Ingresses close quiet connections; here each one after its first answer.
    """
    client = await far.client()

    def answer(asked):
        server.count += 1
        asked.text(str(server.count))
        asked.cut()

    server.on["tools/call:count"] = answer
    for number in range(50):
        assert await client.text("count") == str(number + 1)


@pytest.mark.parametrize("place", ["answer", "stream", "HTTP+SSE"])
async def test_an_event_without_an_end_is_cut(make, server, place):
    """
    Also of a stream that nobody asked for, and of the one that carries all answers.
    """
    ended = asyncio.Event()

    async def flood(asked):
        asked.begin_stream()
        asked.chunk(b"data: ")
        try:
            while True:
                asked.chunk(b"x" * 65536)
                await asked.writer.drain()
                await asyncio.sleep(0)
        finally:
            ended.set()

    server.on["tools/call:count" if place == "answer" else "GET"] = flood
    far = make({"max_message_bytes": 65536}, transport="sse" if place == "HTTP+SSE" else "auto")
    if place == "HTTP+SSE":
        assert "an event without an end" in (await start_error(far))["message"]
        return
    client = await far.client()
    if place == "answer":
        assert (await client.error("count"))["kind"] == "message_too_large"
    else:
        async with asyncio.timeout(10):
            await ended.wait()
    assert await client.text("echo", text="x") == "x"


async def test_a_proxy_that_is_down_is_named(make):
    far = make(proxy="http://127.0.0.1:9", restart={"max_failures": 1})
    error = await start_error(far)
    assert error["data"]["reason"] == "proxy" and "http://127.0.0.1:9" in error["message"]


def certificates(folder):
    """Return the files of a private authority, and of a certificate of 127.0.0.1 with its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def name(text):
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = datetime.datetime.now(datetime.UTC)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    def made(subject, public, extension):
        builder = x509.CertificateBuilder(name("authority"), name(subject), public)
        builder = builder.not_valid_before(now - datetime.timedelta(days=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=1))
        builder = builder.serial_number(x509.random_serial_number())
        signed = builder.add_extension(extension, critical=True).sign(
            authority_key, hashes.SHA256()
        )
        return signed.public_bytes(serialization.Encoding.PEM)

    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    authority, server = folder / "ca.pem", folder / "server.pem"
    authority.write_bytes(
        made("authority", authority_key.public_key(), x509.BasicConstraints(True, None))
    )
    server.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made("server", key.public_key(), x509.SubjectAlternativeName([address]))
    )
    return authority, server


@pytest.fixture
async def secure(tmp_path):
    """A server with a certificate of the private authority in ``ca.pem``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates(tmp_path)[1])
    made = await RemoteServer(tls=context).start()
    yield made
    await made.stop()


async def test_a_private_authority_has_to_be_named(make, secure):
    error = await start_error(make(url=secure.url))
    assert error["data"]["reason"] == "tls" and "the system's" in error["message"]
    assert "ca_file" in str(error) and not secure.asked


async def test_a_private_authority_that_is_named(make, secure, tmp_path):
    client = await make(url=secure.url, ca_file=str(tmp_path / "ca.pem")).client()
    assert await client.text("echo", text="x") == "x"
