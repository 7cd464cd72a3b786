"""What a running daemon records, and what ``mcpctl audit`` shows of it."""

from __future__ import annotations

import base64
import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Box, Json, Peer, RpcError, binary
from tests.support.httpclient import token, turned_on
from tests.support.waiting import wait_until

SECRET = "sentinel-4f1c9a7e22b8"


def calls(box: Box, *options: object) -> list[Json]:
    done = box.ctl("audit", *options, "--json")
    assert done.returncode == 0, done.stderr
    found: list[Json] = json.loads(done.stdout)["calls"]
    return found


def events(box: Box, what: str = "*") -> list[Json]:
    done = box.ctl("audit", "events", "--what", what, "--json")
    assert done.returncode == 0, done.stderr
    found: list[Json] = json.loads(done.stdout)["events"]
    return found


def wait_calls(box: Box, count: int, *options: object) -> list[Json]:
    return wait_until(lambda: len(found := calls(box, *options)) >= count and found)


def lock(box: Box) -> sqlite3.Connection:
    """Keep the daemon from writing rows."""
    connection = sqlite3.connect(box.state / "audit.db", isolation_level=None, timeout=5)
    connection.execute("BEGIN EXCLUSIVE")
    return connection


def test_every_end_of_a_call_is_recorded(box: Box):
    """
    T34: and what was not sent to a server, too.
    """
    box.fake(restart={"backoff": 0.01}, tools={"deny": ["count"]}).up()
    session = box.session()
    session.call("echo", text="x")
    session.call("fail")
    held = session.start("tools/call", {"name": "hang", "arguments": {}})
    wait_until(lambda: box.messages(method="tools/call")[2:])
    session.notify("notifications/cancelled", {"requestId": held})
    with pytest.raises(RpcError):
        session.call("count")
    with pytest.raises(RpcError):
        session.call("crash")
    with box.peer() as person, pytest.raises(RpcError):
        person.request(
            "mcpd/call",
            {"server": "fake", "tool": "sleep", "arguments": {"ms": 5000}, "timeout": 0.1},
        )
    with box.peer() as person, pytest.raises(RpcError):
        person.request("mcpd/call", {"server": "nobody", "tool": "echo", "arguments": {}})
    session.request("resources/read", {"uri": "fake://a"})
    session.request("prompts/get", {"name": "greet", "arguments": {"who": "x"}})
    rows = wait_calls(box, 9)
    assert {(row["method"], row["tool"], row["outcome"], row["kind"]) for row in rows} == {
        ("tools/call", "echo", "ok", None),
        ("tools/call", "fail", "error", None),
        ("tools/call", "hang", "cancelled", None),
        ("tools/call", "count", "error", "tool_not_found"),
        ("tools/call", "crash", "crashed", "server_crashed"),
        ("tools/call", "sleep", "timeout", "call_timeout"),
        ("tools/call", "echo", "error", "server_not_found"),
        ("resources/read", None, "ok", None),
        ("prompts/get", "greet", "ok", None),
    }
    (row,) = (row for row in rows if row["tool"] == "echo" and row["outcome"] == "ok")
    assert (row["server"], row["principal"], row["client"]) == ("fake", "local", "tests 1")
    assert row["in_bytes"] > 0 and row["out_bytes"] > 0 and row["session"] > 0


def test_calls_are_read_without_a_daemon(box: Box):
    box.fake().up().session().call("echo", text="x")
    box.down()
    names = sorted(os.listdir(box.state))
    (row,) = calls(box)
    shown = json.loads(box.ctl("audit", "show", row["id"], "--json").stdout)
    assert shown == row
    assert "echo" in box.ctl("audit").stdout
    (stat,) = json.loads(box.ctl("audit", "stats", "--by", "tool", "--json").stdout)["stats"]
    assert (stat["tool"], stat["calls"], stat["ok"]) == ("echo", 1, 1)
    exported = [json.loads(line) for line in box.ctl("audit", "export").stdout.splitlines()]
    assert exported[0] == {"type": "call", **row}
    assert {each["type"] for each in exported} == {"call", "event"}
    assert sorted(os.listdir(box.state)) == names
    assert not box.socket.exists()


def test_where_nothing_is_recorded_that_is_said(box: Box):
    done = box.ctl("audit", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"calls": []})
    assert "nothing is recorded yet" in done.stderr
    done = box.ctl("audit", "show", 1)
    assert done.returncode == 2 and "there is no call 1" in done.stderr
    assert box.ctl("audit", "--since", "yesterday").returncode == 2


def test_new_calls_are_followed(box: Box):
    box.fake().up()
    session = box.session()
    session.call("echo", text="first")
    wait_calls(box, 1)
    argv = [binary("mcpctl"), "audit", "-f", "-n", "1", "--json"]
    with subprocess.Popen(argv, env=box.env, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout
        try:
            assert json.loads(follower.stdout.readline())["tool"] == "echo"
            session.call("count")
            assert json.loads(follower.stdout.readline())["tool"] == "count"
        finally:
            follower.kill()


def test_a_file_finds_the_calls_that_had_its_content(box: Box, tmp_path: Path):
    """
    Bytes count as they came, blanks around them do not.
    """
    box.fake().up()
    session = box.session()
    session.send_raw(
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call",'
        b'"params":{"name":"echo","arguments": {"text" : "x"} }}\n'
    )
    session.finish(7)
    (row,) = wait_calls(box, 1)
    (tmp_path / "same").write_text('{"text" : "x"}\n')
    (tmp_path / "other").write_text('{"text": "x"}')
    found = json.loads(box.ctl("audit", "hash", tmp_path / "same", "--json").stdout)
    assert (found["hash"], [call["id"] for call in found["calls"]]) == (row["in_hash"], [row["id"]])
    other = box.ctl("audit", "hash", tmp_path / "other")
    assert row["in_hash"] not in other.stdout and "no call" in other.stderr


def test_a_token_is_a_principal_and_what_is_done_to_it_an_event(box: Box):
    """
    Its text is nowhere, nor that of a wrong one.
    """
    client = turned_on(box.fake())
    assert client.session().text("echo", text="x") == "x"
    client.token, text = "wrong-sentinel", client.token
    assert client.rpc("ping").code() == 401
    client.token = token(box, "ci")
    assert client.session("/mcp").call("nobody__echo")["error"]
    box.ctl("token", "revoke", "ci")
    expected = {("token.made", "ci"), ("token.refused", None), ("token.revoked", "ci")}
    wait_until(lambda: {(e["what"], e["subject"]) for e in events(box, "token.*")} >= expected)
    (row,) = wait_calls(box, 1, "--token", "tests")
    assert (row["principal"], row["outcome"]) == ("token:tests", "ok")
    (row,) = wait_calls(box, 1, "--token", "ci")
    assert (row["server"], row["tool"], row["kind"]) == (None, "nobody__echo", "tool_not_found")
    for path in box.state.glob("audit.db*"):
        data = path.read_bytes()
        assert (text or "").encode() not in data and b"wrong-sentinel" not in data


def test_sessions_reloads_and_questions_are_events(box: Box):
    box.settings["watch"] = False
    box.fake().up()
    session = box.session(capabilities={"elicitation": {}})
    call = session.start("tools/call", {"name": "ask", "arguments": {"question": "x"}})
    asked = session.take(lambda m: m.get("method") == "elicitation/create")
    session.send(id=asked["id"], result={"action": "decline"})
    session.finish(call)
    box.fake("second").write()
    box.ctl("reload")
    session.close()
    wait_until(lambda: events(box, "session.closed"))
    (opened,) = events(box, "session.opened")
    assert (opened["principal"], opened["server"]) == ("local", "fake")
    (reloaded,) = events(box, "config.reloaded")
    assert reloaded["detail"]["added"] == ["second"]
    ((path, digest),) = reloaded["detail"]["files"].items()
    assert path == str(box.config) and len(digest) == 32
    (question,) = events(box, "question.asked")
    assert (question["server"], question["subject"]) == ("fake", "elicitation/create")
    (answered,) = events(box, "question.answered")
    assert answered["detail"]["outcome"] == "answered"


@pytest.mark.parametrize("record", ["none", "full"])
def test_content_is_kept_only_where_it_is_asked_for(box: Box, record: str):
    """
    T37: raw, escaped or in base64; what looks secret is never kept.
    """
    box.fake(env={"API_KEY": f"{SECRET}-of-the-server"}, record=record).up()
    session = box.session()
    session.call("echo", text=f"{SECRET}-text", password=f"{SECRET}-password")
    session.call("echo", text=f"{SECRET}-of-the-server")
    wait_calls(box, 2)
    shown = "".join(box.ctl("audit", "show", ident).stdout for ident in (1, 2))
    box.down()
    assert (f"{SECRET}-text" in shown) == (record == "full")
    assert f"{SECRET}-password" not in shown and f"{SECRET}-of-the-server" not in shown
    encoded = base64.b64encode(SECRET.encode())[:16]
    for path in box.state.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes()
            assert encoded not in path.read_bytes()


def test_where_calls_are_not_recorded_there_is_no_file(box: Box):
    """
    It may be turned off and on again under a running daemon.
    """
    box.trust = {"audit": False}
    box.settings["watch"] = False
    box.fake().up()
    session = box.session()
    session.call("echo", text="x")
    with (Path("/proc") / str(box.daemon and box.daemon.pid) / "maps").open() as file:
        assert "sqlite3" not in file.read()
    assert list(box.state.glob("audit*")) == []
    for is_on, count in ((True, 1), (False, 1), (True, 2)):
        box.trust = {"audit": is_on}
        box.write()
        assert json.loads(box.ctl("reload", "--json").stdout)["applied"]
        session.call("echo", text="x")
        assert len(wait_calls(box, count)) == count


@pytest.mark.parametrize("is_on", [True, False])
def test_a_daemon_imports_nothing_for_what_is_off(box: Box, is_on: bool):
    """
    T46: SQLite comes with the first row, and the keyring never.
    """
    box.trust = {} if is_on else {"audit": False, "pin": "off", "sanitise": "off"}
    box.env["PYTHONPROFILEIMPORTTIME"] = "1"
    box.fake().up()
    session = box.session()
    session.call("echo", text="x")
    if is_on:
        wait_calls(box, 1)
    box.down()
    lines = box.tail(1 << 24).splitlines()
    imported = {line.rpartition("|")[2].strip() for line in lines if "import time:" in line}
    assert "mcpd.core.mux.mux" in imported, "this is how it is seen"
    assert ("sqlite3" in imported) == is_on
    assert not {"keyring", "secretstorage", "jeepney"} & imported


# -- when it cannot be written ---------------------------------------------------------------------


def test_a_killed_daemon_loses_a_quarter_of_a_second(box: Box):
    """
    What was written is there, also before anybody opens the file to write.
    """
    box.fake().up()
    session = box.session()
    for _ in range(5):
        session.call("count")
    time.sleep(0.6)  # twice the time in which a row is written
    assert box.daemon
    box.down(signal.SIGKILL)
    assert len(calls(box)) == 5
    box.up().session().call("count")
    assert len(wait_calls(box, 6)) == 6
    assert list(box.state.glob("audit.db.bad-*")) == []


def test_a_locked_audit_stops_no_call_and_is_said(box: Box):
    """
    T38: a short lock is no trouble; the rows come later.
    """
    box.fake().up()
    session = box.session()
    session.call("count")
    wait_calls(box, 1)
    held = lock(box)
    for _ in range(5):
        session.call("count", 3)
    wait_until(lambda: "the audit is not written" in box.ctl("doctor").stdout)
    held.execute("ROLLBACK")
    held.close()
    assert len(wait_calls(box, 6)) == 6
    wait_until(lambda: "audit" not in box.ctl("doctor").stdout)
    assert "audit.trouble" in box.tail() and "audit.resumed" in box.tail()


def test_a_required_audit_refuses_calls_that_it_cannot_record(box: Box):
    """
    T39: they pass again within a second of its recovery.
    """
    box.trust = {"audit_required": True}
    box.fake().up()
    session = box.session()
    session.call("count")
    wait_calls(box, 1)
    held = lock(box)

    def refusal() -> RpcError | None:
        try:
            session.call("count")
        except RpcError as error:
            return error
        return None

    error = wait_until(refusal, 15)
    assert (error.kind, error.data["reason"]) == ("denied", "audit")
    held.execute("ROLLBACK")
    held.close()
    wait_until(lambda: refusal() is None, 3)
    assert any(row["kind"] == "denied" for row in wait_calls(box, 2, "--outcome", "denied"))


def damaged(box: Box) -> None:
    (box.state / "audit.db").write_bytes(b"this is no database" * 500)


def newer(box: Box) -> None:
    database = sqlite3.connect(box.state / "audit.db")
    database.execute("PRAGMA user_version = 1000")
    database.close()


@pytest.mark.parametrize(("how", "finding"), [(damaged, "audit_set_aside"), (newer, "audit_newer")])
def test_a_file_that_cannot_be_used_stops_no_call(
    box: Box, how: Callable[[Box], None], finding: str
):
    """
    T38: garbage is moved aside; what a later release wrote is left alone.
    """
    box.fake().up().session().call("count")
    wait_calls(box, 1)
    box.down()
    how(box)
    before = (box.state / "audit.db").read_bytes()
    box.up().session().call("count")

    def found() -> list[str]:
        findings: list[dict[str, Any]] = json.loads(box.ctl("doctor", "--json").stdout)["findings"]
        return [each["id"] for each in findings]

    wait_until(lambda: finding in found())
    if how is newer:
        assert box.ctl("audit").returncode != 0
        assert (box.state / "audit.db").read_bytes() == before
    else:
        assert len(wait_calls(box, 1)) == 1
        (aside,) = box.state.glob("audit.db.bad-*")
        assert aside.read_bytes() == before


def test_a_person_removes_old_rows_while_the_daemon_writes(box: Box):
    box.fake().up()
    session = box.session()
    session.call("count")
    wait_calls(box, 1)
    removed = json.loads(box.ctl("audit", "prune", "--before", "0s", "--json").stdout)["removed"]
    assert removed >= 1
    session.call("count")
    (row,) = wait_calls(box, 1)
    assert row["tool"] == "count"
    assert events(box, "audit.pruned")[0]["detail"]["rows"] == removed


def test_names_do_not_steer_a_terminal(box: Box):
    """
    Clients choose the names that they call; T25.
    """
    box.fake().up()
    session = box.session()
    with pytest.raises(RpcError):
        session.call("\x1b]0;owned\x07")
    wait_calls(box, 1)
    import pty

    ours, theirs = pty.openpty()
    argv = [binary("mcpctl"), "audit"]
    done = subprocess.run(argv, env={**box.env, "TERM": "xterm"}, stdout=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 65536)
    os.close(ours)
    assert done.returncode == 0 and b"owned" in shown and b"\x1b]" not in shown


def test_a_batch_of_calls_is_recorded_call_by_call(box: Box):
    box.fake().up()
    session: Peer = box.session(version="2025-03-26")
    asked = [
        {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": "count"}}
        for n in (101, 102)
    ]
    session.send_raw(json.dumps(asked).encode() + b"\n")
    assert len(wait_calls(box, 2)) == 2
