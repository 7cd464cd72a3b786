"""Cases from the field: lines that are long, glued, cut, odd, or no messages at all."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.faults.ground import (
    answered,
    events,
    installed,
    memory_kib,
    odd,
    take_event,
    text_result,
)
from tests.support.daemon import Box, Peer, RpcError
from tests.support.waiting import wait_until

LIMIT = 1 << 20
"""``max_message_bytes`` of the small daemon."""

HUGE_TOOLS = 250
HUGE_TEXT = "é" * 10_000  # of each
ERROR = '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"late"}}\n'
NO_ID = '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no licence"}}\\n'
UNREADABLE = {
    "both a result and an error": '"result":{},"error":{"code":1,"message":"e"}',
    "neither a result nor an error": '"x":1',
    "invalid character at byte": '"result":{"structuredContent":{"x":NaN}}',
}


def configure(box: Box) -> None:
    odd(box, "odd")
    odd(box, "timed", call_timeout=0.4, env={"OTHER": "process"})
    odd(box, "mute", "--instead", NO_ID, startup_timeout=1.5)
    odd(box, "unended", "--instead", '{"jsonrpc":"2.0",', startup_timeout=1.5)
    odd(box, "arrays", "--version", "2025-03-26")
    box.fake("noisy", "--noise")
    box.fake("quiet")
    huge = box.root / "huge.json"
    huge.write_text(
        json.dumps([{"name": f"say{n}", "description": HUGE_TEXT} for n in range(HUGE_TOOLS)])
    )
    odd(box, "huge", "--tools", huge)


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """A daemon with the limits that it has by default."""
    with installed(configure) as made:
        yield made


@pytest.fixture(scope="module")
def small() -> Iterator[Box]:
    """A daemon that takes a megabyte a line, from servers and from clients."""

    def low(box: Box) -> None:
        odd(box, "odd")
        box.fake()
        box.fake("floods", "--stderr", 10_000_000)
        box.settings |= {"max_message_bytes": LIMIT, "max_request_bytes": LIMIT}

    with installed(low) as made:
        yield made


def say(session: Peer, *parts: tuple[str, int], ident: object = None, **more: object) -> object:
    """Have an odd server write; return the id of the call."""
    arguments = {"parts": [list(part) for part in parts], **more}
    params = {"name": "say", "arguments": arguments}
    return session.start("tools/call", params, ident=ident)


def whole(text: str) -> tuple[str, int]:
    return answered(text_result(text)), 1


def raw_answer(session: Peer, ident: object) -> str:
    """Return the text of the next line, which must answer the call and nothing else."""
    line = session.read_line()
    assert line
    head = b'{"jsonrpc":"2.0","id":' + json.dumps(ident).encode() + b',"result":'
    assert line.startswith(head), line[:200]
    return line[len(head) : -1].decode()


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 131_072 + 7, LIMIT, 16 << 20])
def test_a_result_of_any_size_comes_as_it_was(box: Box, size: int):
    """
    B058: a line over 64 KiB broke the reader. B072: an answer over 8 KB was cut short.
    """
    before, after = answered(text_result("|")).split("|")
    with box.session("odd") as session:
        padding = size - len(before.replace("$ID", "9")) - len(after)
        ident = say(session, (before, 1), ("é", padding // 2), ("x", padding % 2), (after, 1))
        got = raw_answer(session, ident)
        assert json.loads(got)["content"][0]["text"] == "é" * (padding // 2) + "x" * (padding % 2)


def test_frames_are_told_apart_by_line_ends_alone(box: Box):
    """
    B058: cut at odd places, inside of characters, and several in one write.
    """
    line = whole("ü€🎉 in several bytes")[0].encode().decode("latin-1")
    with box.session("odd") as session:
        pieces = [(piece, 1) for piece in re.findall(r"\$ID|.|\n", line)]
        ident = say(session, *pieces, encoding="latin-1")
        assert raw_answer(session, ident) == text_result("ü€🎉 in several bytes")
        notice = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
        ident = say(session, (whole("glued")[0] + notice * 3 + "\r\n\n" + notice, 1))
        assert raw_answer(session, ident) == text_result("glued")
        ident = say(session, whole("then"))
        session.finish(ident)


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_a_line_at_the_limit_leaves_the_next_one_alone(small: Box, over: int):
    """
    B060: an overrun exactly at the line's end glued two messages together.
    """
    before, after = answered(text_result("|")).replace("$ID", "$PREVIOUS").split("|")
    end = -(LIMIT + over - len(after.rstrip("\n")))
    with small.session("odd") as session:
        first = say(session)
        second = say(session, (before, 1), ("x", end), (after + whole("intact")[0], 1))
        if over > 0:
            with pytest.raises(RpcError) as caught:
                session.finish(first)
            assert caught.value.kind == "message_too_large"
        else:
            assert set(session.finish(first)["content"][0]["text"]) == {"x"}
        assert session.finish(second)["content"][0]["text"] == "intact"


def test_endless_lines_take_no_memory_and_end_nothing(small: Box):
    """
    B061: bytes without a line end grew the reader until the machine was out of memory.
    """
    assert small.daemon
    with small.session("odd") as session, small.session("fake") as fine:
        fine.text("echo", text="x")
        before = memory_kib(small.daemon.pid)
        ident = say(session, ("x", 100 << 20), ("\n", 1), whole("still here"))
        with small.peer() as flood:
            for _ in range(50):
                flood.send_raw(b"y" * (1 << 20))
            assert memory_kib(small.daemon.pid) - before < 24 * 1024
            assert fine.text("echo", text="meanwhile") == "meanwhile"
            flood.send_raw(b"\n")
            error = json.loads(flood.read_line() or b"")["error"]
            assert error["data"]["kind"] == "message_too_large"
            assert flood.request("mcpd/hello")["api"] == 1
        assert session.finish(ident, 20)["content"][0]["text"] == "still here"
        assert memory_kib(small.daemon.pid) - before < 24 * 1024


def echoes_until(box: Box, busy: Peer, ident: object) -> dict[str, Any]:
    """Return the answer to a call; until it comes, others call a server of theirs."""
    with box.session("quiet") as other:
        while True:
            assert other.text("echo", text="meanwhile") == "meanwhile"
            with contextlib.suppress(TimeoutError):
                found: dict[str, Any] = busy.finish(ident, 0.05)
                return found


@pytest.mark.parametrize("server", ["odd", "arrays"])
@pytest.mark.parametrize("element", ["1", "{}", "[]", "[[[[]]]]", '"\\ud800"'])
def test_an_array_of_megabytes_is_one_line_of_noise(box: Box, server: str, element: str):
    """
    Every element was taken for a message, all of them in one go: 43 s for 4 MiB, and after 16 MiB
    the watchdog ended the daemon.
    """
    before = memory_kib(box.daemon.pid)
    noise = box.status(server)["noise"]
    with box.session(server) as session:
        array = ("[", 1), (f"{element},", (16 << 20) // (len(element) + 1)), (f"{element}]\n", 1)
        ident = say(session, *array, whole("said"))
        assert echoes_until(box, session, ident)["content"][0]["text"] == "said"
        assert not session.inbox
    assert box.status(server)["noise"] == noise + 1
    assert memory_kib(box.daemon.pid) - before < 160 * 1024


def test_an_array_of_a_server_that_may_send_it_is_heard(box: Box):
    said = [answered(text_result("in an array")).rstrip(), '{"jsonrpc":"2.0","method":"x"}']
    with box.session("arrays") as session:
        ident = say(session, (f"[{','.join(said)}]\n", 1))
        assert session.finish(ident)["content"][0]["text"] == "in an array"
        noise = box.status("arrays")["noise"]
        ident = say(session, ("[" + "{}," * 999 + "{}]\n", 1), whole("after it"))
        assert session.finish(ident)["content"][0]["text"] == "after it"
        assert box.status("arrays")["noise"] == noise + 1000
    with box.peer() as peer:
        wait_until(lambda: any("more lines" in text for text in notes(peer, "arrays")))
        assert len([text for text in notes(peer, "arrays", "stdout") if text == "{}"]) <= 40


def notes(peer: Peer, server: str, source: str = "mcpd") -> list[str]:
    lines = peer.request("mcpd/logs", {"server": server, "lines": 5000})["lines"]
    return [line["text"] for line in lines if line["source"] == source]


@pytest.mark.parametrize("element", ["1", "{}", "[]", '"\\ud800"'])
def test_an_array_of_megabytes_of_a_client_is_one_error(box: Box, element: str):
    """
    A megabyte made every other client wait for 14 s.
    """
    with box.session("quiet", version="2025-03-26") as session:
        line = "[" + f"{element}," * ((8 << 20) // (len(element) + 1)) + element + "]\n"
        session.send_raw(line.encode())
        ident = session.start("ping")
        assert echoes_until(box, session, ident) == {}
        (refused,) = session.inbox
        assert refused["error"]["message"] == "an array has at most 1000 messages"


def test_as_many_requests_as_an_array_may_hold_are_answered_in_one(box: Box):
    ping = {"jsonrpc": "2.0", "method": "ping"}
    with box.session("quiet", version="2025-03-26") as session:
        requests = [{**ping, "id": number} for number in range(1000)]
        session.send_raw(json.dumps(requests).encode() + b"\n" + json.dumps(ping).encode() + b"\n")
        answers = json.loads(session.read_line() or b"")
        assert [answer["id"] for answer in answers] == list(range(1000))
        assert session.text("echo", text="after it") == "after it"


def test_blanks_beside_a_lone_surrogate_delay_nobody(box: Box):
    """
    They were walked over one by one, in Python: 32 MiB took 2.8 s.
    """
    result = '{"content":[],"text":"\\ud800 \\uD83D\\uDE00"}'
    head, tail = '{"jsonrpc":"2.0","id":$ID,"result":', "}\n"
    with box.session("odd") as session:
        ident = say(session, (head + result, 1), (" ", 32 << 20), (tail, 1))
        assert raw_answer(session, ident) == result
        ident = say(session, (head, 1), (" ", 32 << 20), (result + tail, 1))
        assert raw_answer(session, ident) == result


def test_what_is_no_message_is_ignored_and_told_once(box: Box):
    """
    B062: banners broke clients, or were swallowed, so that nobody knew which server it was.
    """
    junk = ["Welcome!", "\x1b[32mready\x1b[0m", "┏━ 🎉 ━┓", "", "[INFO] {", "npm notice", "x\r"]
    junk += ["{}", "1", '"x"', "[]", "[1,2]", "{", "}", "null", '{"jsonrpc":"2.0"}']
    junk += ["Content-Length: 12\r", '{"jsonrpc":"2.0","id":[1],"result":{}}', "\0"]
    with box.session("odd") as session, box.peer() as watcher:
        for line in junk:
            ident = say(session, (line + "\n", 1), whole("fine"))
            assert session.finish(ident)["content"][0]["text"] == "fine"
        assert not session.inbox
        events(watcher, "odd")
        assert take_event(watcher, "server.noise")["text"]
        watcher.request("mcpd/hello")
        told = [m["params"]["event"] for m in watcher.inbox if m.get("method") == "mcpd/event"]
        assert "server.noise" not in told
        logged = watcher.request("mcpd/logs", {"server": "odd"})["lines"]
        lines = [line["text"] for line in logged if line["source"] == "stdout"]
        assert {"Welcome!", "[INFO] {", "[]", "npm notice"} <= set(lines)
    with box.session("noisy") as session:
        assert session.text("echo", text="after the banner") == "after the banner"


def test_a_server_may_write_as_much_on_stderr_as_it_likes(small: Box):
    """
    B064: after 64 KiB of stderr in its life a server froze in a write.
    """
    assert small.daemon
    before = memory_kib(small.daemon.pid)
    with small.session("floods") as session:
        assert session.text("echo", text="after 10 MB") == "after 10 MB"
    assert memory_kib(small.daemon.pid) - before < 8 * 1024


def test_a_list_of_five_megabytes_reaches_a_slow_reader_whole(box: Box):
    """
    B072: a partial write was taken for a whole one.
    """
    with socket.socket(socket.AF_UNIX) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(str(box.socket))
        peer = Peer(sock.fileno(), sock.fileno(), sock.close)
        peer.request("mcpd/attach", {"server": "huge"})
        peer.initialize()
        peer.start("tools/list", {}, ident="slow")
        got = bytearray()
        while not got.endswith(b"\n"):
            got += sock.recv(40_000)
    tools = json.loads(got)["result"]["tools"]
    assert [tool["name"] for tool in tools] == [f"say{n}" for n in range(HUGE_TOOLS)]
    assert all(tool["description"] == HUGE_TEXT for tool in tools)


def test_answers_to_nobody_and_unknown_notices_end_no_session(box: Box):
    """
    B074: one log message in another program's manner ended the session, and the service with it.
    """
    with box.session("timed") as session:
        with pytest.raises(RpcError) as caught:
            session.finish(say(session, ('{"jsonrpc":"2.0","method":"window/logMessage"}\n', 1)))
        assert caught.value.kind == "call_timeout"
        for odd_one in (
            ERROR % "$PREVIOUS",  # it was given up
            ERROR % 987654,
            '{"jsonrpc":"2.0","method":"notifications/nobody","params":{"x":1}}\n',
            '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":77}}\n',
            '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}\n',
        ):
            result = session.finish(say(session, (odd_one, 1), whole("one"), whole("two")))
            assert result["content"][0]["text"] == "one"
        both = '{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":1,"message":"x"}}\n'
        with pytest.raises(RpcError, match="both a result and an error"):
            session.finish(say(session, (both, 1)))
        session.finish(say(session, whole("fine")))
        assert not session.inbox
    assert box.status("timed")["generation"] == 1


def test_ids_come_back_as_they_were_and_wrong_ones_answer_nobody(box: Box):
    """
    B075: ids became strings, zero or null on their way.
    """
    with box.session("timed") as session, box.session("timed") as other:
        for ident in (0, -1, 1, "1", "", "b0b5e1f4-uuid", 2**53 + 1, 10**30, "ü\ud83d"):
            say(session, whole("fine"), ident=ident)
            assert raw_answer(session, ident) == text_result("fine")
        session.send_raw(b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n')
        line = json.loads(session.read_line() or b"")
        assert line["error"]["code"] == -32600
        wrong = ("$ID0", "null", "0", "-$ID", '"x$ID"', "[$ID]")
        for call in [say(session, (ERROR % ident, 1)) for ident in wrong]:
            with pytest.raises(RpcError) as caught:
                session.finish(call)
            assert caught.value.kind == "call_timeout"
        assert other.finish(say(other, whole("fine")))
        assert not other.inbox


@pytest.mark.parametrize("depth", [100, 500, 5_000, 200_000])
def test_nesting_is_between_a_caller_and_its_server(box: Box, depth: int):
    """
    B071: one deeply nested argument ended the session, or hung the call.
    """
    nested = "[" * depth + "]" * depth
    call = (
        '{"jsonrpc":"2.0","id":"%s","method":"tools/call","params":{"name":"say","arguments":%s}}\n'
    )
    with box.session("odd") as session, box.session("odd") as other:
        deep = json.dumps({"parts": [[answered(text_result("heard")), 1]], "deep": 0})
        session.send_raw((call % ("in", deep.replace(": 0}", f": {nested}}}"))).encode())
        line = json.loads(session.read_line() or b"")
        assert line["id"] == "in" and ("result" in line) != ("error" in line)
        ident = say(session, (answered('{"content":[],"structuredContent":$DEEP}'), 1), deep=depth)
        line = session.read_line() or b""
        assert line.startswith(b'{"jsonrpc":"2.0","id":%d,"' % ident)
        assert other.finish(say(other, whole("fine")))["content"][0]["text"] == "fine"
        assert session.finish(say(session, whole("fine")))["content"][0]["text"] == "fine"
    assert "Traceback" not in box.log.read_text()
    assert box.status("odd")["generation"] == 1


@pytest.mark.parametrize(
    "result",
    [
        '{"content":[],"structuredContent":{"n":1}}',
        '{"content":[],"structuredContent":{"big":12345678901234567890123,"f":1.0,"e":1e400}}',
        '{"content":[{"type":"text","text":"no"}],"isError":true,"_meta":{"a/b":[null]}}',
        '{ "zeta":1, "alpha" : {"x":1,"x":2}, "content":[ ] , "lone":"\\ud83d" }',
    ],
    ids=["empty content", "numbers", "an error", "spelling"],
)
def test_results_are_passed_on_byte_for_byte(box: Box, result: str):
    """
    B087: structured content was dropped, so every tool with an output schema failed.
    B069: lone surrogates are escapes, and stay that.
    """
    with box.session("odd") as session:
        ident = say(session, (answered(result), 1))
        assert raw_answer(session, ident) == result
    with box.peer() as peer:
        asked = {"parts": [[answered(result), 1]]}
        ident = peer.start("mcpd/call", {"server": "odd", "tool": "say", "arguments": asked})
        assert raw_answer(peer, ident) == result


@pytest.mark.parametrize(
    "answer",
    [
        answered(text_result("fine")).replace("$ID", "$ID.0"),
        "\ufeff" + answered(text_result("fine")),
        "progress 50%" + answered(text_result("fine")),
    ],
)
def test_answers_are_recognised_in_the_spellings_of_other_runtimes(box: Box, answer: str):
    """
    Doubles for ids, a byte order mark before each message, text without a newline: all waited
    until their time was over.
    """
    with box.session("timed") as session:
        for _ in range(2):
            assert session.finish(say(session, (answer, 1))) == json.loads(text_result("fine"))


@pytest.mark.parametrize(
    ("written", "named"),
    [
        (NO_ID.replace("\\n", "\n"), "an error without an id of ours: no licence"),
        ('{\n  "jsonrpc": "2.0",\n  "id": $ID\n}\n', 'several lines.*: { "jsonrpc": "2.0", "id": '),
        ("Content-Length: 40\r\n\r\n{", "Content-Length framing"),
        ('{"jsonrpc":"2.0","id":$ID', "bytes that no newline ends: {"),
    ],
)
def test_a_call_that_times_out_says_what_came_instead_of_its_answer(
    box: Box, written: str, named: str
):
    with box.session("timed") as session:
        with pytest.raises(RpcError, match=f"meanwhile it wrote .*{named}") as caught:
            session.finish(say(session, (written, 1)))
        assert caught.value.kind == "call_timeout"
        say(session, ("\n", 1))


@pytest.mark.parametrize(
    ("server", "named"), [("mute", "no licence"), ("unended", 'no newline ends: {"jsonrpc"')]
)
def test_a_start_that_fails_says_what_came_instead_of_a_handshake(
    box: Box, server: str, named: str
):
    with box.peer() as peer, pytest.raises(RpcError, match=f"meanwhile it wrote .*{named}"):
        peer.request("mcpd/start", {"servers": [server]}, 20)
    with (
        pytest.raises(RpcError, match=f"meanwhile it wrote .*{named}"),
        box.session(server) as session,
    ):
        session.text("say")


@pytest.mark.parametrize("why", UNREADABLE)
def test_a_server_whose_answer_is_wrong_is_no_bug_of_ours(box: Box, why: str):
    line = '{"jsonrpc":"2.0","id":$ID,' + UNREADABLE[why] + "}\n"
    arguments = json.dumps({"parts": [[line, 1]]})
    done = box.ctl("call", "odd.say", "--args", arguments)
    assert done.returncode == 4
    assert "odd: " in done.stderr
    assert why in done.stderr
