"""``mcpctl`` as a process, against a daemon that answers what the test says."""

from __future__ import annotations

import base64
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import scaled, wait_until
from tests.unit.client.fakedaemon import HELLO, Caller, Failed, FakeDaemon, Silence

ROOT = Path(__file__).parent.parent.parent.parent
MCPCTL = [sys.executable, "-m", "mcpctl"]
NASTY = "\x1b]0;owned\x07"

SERVER = {
    "name": "files", "state": "ready", "held": False, "enabled": True, "transport": "stdio",
    "sharing": "shared", "sharing_reason": None, "era": "legacy", "protocol_version": "2025-11-25",
    "server_info": None, "pid": 4250, "pids": [4250], "generation": 1, "uptime_s": 61.0,
    "restarts": 0, "sessions": 2, "in_flight": 0, "calls": 17, "errors": 1, "rss_bytes": 71303168,
    "tools": 14, "last_error": None,
}  # fmt: skip
BROKEN = {
    **SERVER, "name": "broken", "state": "failed", "pid": None, "pids": [], "uptime_s": None,
    "rss_bytes": None, "era": None, "protocol_version": None, "last_error": f"exited with 1: {NASTY}\nmore of it",
}  # fmt: skip
STATUS = {
    "daemon": {
        "pid": 4242, "version": "0.1.0", "uptime_s": 3.5, "socket": "/run/mcpd.sock", "sessions": 3
    },
    "servers": [SERVER, BROKEN],
}  # fmt: skip
TOOLS = {
    "tools": [
        {
            "server": "files",
            "qualified_name": "files__add",
            "name": "add",
            "description": "Add two numbers\nand more",
            "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}}},
        },
        {"server": "files", "qualified_name": "files__echo", "name": "echo"},
    ]
}
LINES = [
    {"time": "2026-01-01T00:00:00.000Z", "source": "stderr", "text": f"noise {n}"} for n in (1, 2)
]


@pytest.fixture
def daemon() -> Iterator[FakeDaemon]:
    with FakeDaemon(
        status=lambda *_: STATUS,
        tools=lambda *_: TOOLS,
        call=lambda params, _: text(json.dumps(params)),
    ) as made:
        yield made


def text(*texts: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": one} for one in texts], **more}


def run(
    daemon: FakeDaemon, *args: str, stdin: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MCPCTL, *args], env={**daemon.env, **env}, input=stdin, capture_output=True,
        cwd=ROOT, timeout=scaled(30), encoding="utf-8", check=False,
    )  # fmt: skip


def said(daemon: FakeDaemon, *args: str, status: int = 0, stdin: str = "", **env: str) -> str:
    """Run it, check its exit status, and return what it said on stdout, else on stderr."""
    done = run(daemon, *args, stdin=stdin, **env)
    assert done.returncode == status, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout or done.stderr


def on_terminal(daemon: FakeDaemon, *args: str, **env: str) -> tuple[str, int]:
    """Run it on a terminal; return all it wrote, and its exit status."""
    whole = {k: v for k, v in daemon.env.items() if k not in ("NO_COLOR", "COLUMNS")}
    whole |= {"TERM": "xterm", **env}
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execve(sys.executable, [*MCPCTL, *args], whole)
    written = b""
    while True:
        try:
            chunk = os.read(terminal, 1 << 16)
        except OSError:  # Linux tells the end of a terminal so
            break
        if not chunk:
            break
        written += chunk
    os.close(terminal)
    return written.decode().replace("\r\n", "\n"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_without_a_daemon_each_command_says_what_to_type(daemon: FakeDaemon) -> None:
    nowhere = {"MCPD_SOCKET": str(daemon.directory / "nowhere.sock")}
    for args in (
        ["status"],
        ["stop", "x"],
        ["reload"],
        ["list"],
        ["logs"],
        ["call", "x.y", "--no-start"],
    ):
        assert "mcpctl up" in said(daemon, *args, status=3, **nowhere)
    assert said(daemon, "down", **nowhere) == "no daemon runs\n"
    assert json.loads(said(daemon, "down", "--json", **nowhere)) == {"stopped": None}
    error = json.loads(said(daemon, "status", "--json", status=3, **nowhere))["error"]
    assert error["data"]["kind"] == "no_daemon"


def test_what_to_type_names_the_socket_that_the_command_line_names(daemon: FakeDaemon) -> None:
    """
    Without it a daemon would be started where nobody looked.
    """
    nowhere = str(daemon.directory / "nowhere.sock")
    named = ["--socket", nowhere]
    up = f"mcpctl --socket {nowhere} up"
    assert up in said(daemon, *named, "status", status=3)
    error = json.loads(said(daemon, *named, "status", "--json", status=3))["error"]
    assert error["data"]["hint"] == f"to start it: {up}"
    findings = json.loads(said(daemon, *named, "doctor", "--json"))["findings"]
    assert up in [each["remedy"] for each in findings]
    server = {**SERVER, "state": "misconfigured", "last_error": "type `mcpctl restart --daemon`"}
    daemon.handlers["mcpd/status"] = lambda *_: {**STATUS, "servers": [server]}
    told = said(daemon, "--socket", daemon.path, "status", "files")
    assert f"type `mcpctl --socket {daemon.path} restart --daemon`" in told
    assert "type `mcpctl restart --daemon`" in said(daemon, "status", "files")


def test_status_is_a_table(daemon: FakeDaemon) -> None:
    lines = said(daemon, "status").splitlines()
    assert lines[0] == "mcpd 0.1.0, pid 4242, up 3 s, 3 sessions, /run/mcpd.sock"
    assert lines[2].split()[:4] == ["SERVER", "STATE", "ERA", "PID"]
    assert " ".join(lines[3].split()) == (
        "files ready legacy 2025-11-25 4250 1 min 1 s 0 2 0 17 1 68.0 MiB"
    )
    assert lines[4].startswith("broken  failed  -                  -     -")
    assert all(len(line) <= 160 for line in lines)


def test_status_json_is_what_the_daemon_said(daemon: FakeDaemon) -> None:
    assert json.loads(said(daemon, "status", "--json", "files")) == STATUS
    assert daemon.requests("mcpd/status") == [{"servers": ["files"]}]


def test_status_tells_of_processes_per_session_and_of_held_servers(daemon: FakeDaemon) -> None:
    one = {
        "key": "s1",
        "pid": 77,
        "state": "ready",
        "sessions": 1,
        "uptime_s": 1,
        "rss_bytes": 1024,
    }
    server = {**SERVER, "state": "stopped", "held": True, "sharing": "session", "instances": [one]}
    server["sharing_reason"] = "known to keep state per client"
    daemon.handlers["mcpd/status"] = lambda *_: {**STATUS, "servers": [server]}
    shown = said(daemon, "status")
    assert "stopped (held)" in shown
    assert "  s1 " in shown
    assert "files: sharing session: known to keep state per client" in shown


def test_status_counts_the_processes_of_a_server_that_has_one_for_each_session(
    daemon: FakeDaemon,
) -> None:
    """
    ``ready`` without a pid reads like a fault.
    """
    one = {"key": "s1", "pid": 77, "state": "ready", "sessions": 1, "uptime_s": 1, "rss_bytes": 1}
    gone = {**one, "key": "", "pid": None, "state": "stopped"}
    server = {**SERVER, "pid": None, "sharing": "session", "instances": [one, one, gone]}
    daemon.handlers["mcpd/status"] = lambda *_: {**STATUS, "servers": [server]}
    lines = said(daemon, "status").splitlines()
    assert lines[3].split()[:5] == ["files", "per", "session", "(2)", "legacy"]
    assert lines[6].split()[:3] == ["shared", "stopped", "-"]
    assert json.loads(said(daemon, "status", "--json"))["servers"][0]["state"] == "ready"


def test_status_says_of_a_start_how_long_it_takes_and_why_perhaps(daemon: FakeDaemon) -> None:
    starting = {"for_s": 75.4, "limit_s": 120.0, "installing": True}
    one = {"key": "s1", "pid": 77, "state": "starting", "sessions": 1, "uptime_s": 1}
    one |= {"rss_bytes": 1024, "starting": {**starting, "for_s": None, "installing": False}}
    server = {**SERVER, "state": "starting", "sharing": "session", "instances": [one]}
    server["starting"] = starting
    daemon.handlers["mcpd/status"] = lambda *_: {**STATUS, "servers": [server]}
    lines = said(daemon, "status").splitlines()
    assert lines[3].startswith("files   starting (installing?) 1 min 15 s  ")
    assert lines[4].startswith("  s1    starting (queued) ")
    server["starting"] = {**starting, "installing": False}
    assert "files   starting 1 min 15 s " in said(daemon, "status")


def test_who_waits_for_a_start_sees_what_it_is_at(daemon: FakeDaemon) -> None:
    """
    B023: a minute of nothing looks like a hang, and a hang is killed.
    """
    asked: list[Any] = []
    starting = {"for_s": 65.0, "limit_s": 120.0, "installing": True}
    server = {**SERVER, "state": "starting", "starting": starting}

    def status(params: Any, *_: Any) -> dict[str, Any]:
        asked.append(params)
        return {**STATUS, "servers": [server]}

    def start(*_: Any) -> dict[str, Any]:
        wait_until(lambda: len(asked) >= 2)
        return {"servers": [{"name": "files", "state": "ready", "pid": 1}]}

    daemon.handlers |= {"mcpd/status": status, "mcpd/start": start}
    shown, code = on_terminal(daemon, "start", "files", COLUMNS="100")
    assert code == 0
    assert "start: files starting (installing?) 1 min 5 s, " in shown
    assert asked[0] == {"servers": ["files"]}
    assert "ready" in shown


def test_status_says_who_waits_for_whom(daemon: FakeDaemon) -> None:
    turn = {"session": 7, "since_s": 12.4}
    waiting = [{"session": number, "for_s": 75.0 - number} for number in (9, 11, 12)]
    server = dict(SERVER)
    daemon.handlers["mcpd/status"] = lambda *_: {**STATUS, "servers": [server]}
    server["interactive"] = {"mode": "auto", "asks": True, "turn": turn, "waiting": waiting}
    who = "files: 3 sessions wait for session 7, which has had the turn for 12 s"
    told = f"{who} (9 for 1 min 6 s, 11 for 1 min 4 s, 12 for 1 min 3 s)"
    assert said(daemon, "status").splitlines()[-2:] == ["", told]
    server["interactive"] = {"mode": "auto", "asks": True, "turn": None, "waiting": waiting[:1]}
    told = "files: 1 session waits for a turn (9 for 1 min 6 s)"
    assert said(daemon, "status").splitlines()[-1] == told
    crowd = [{"session": number, "for_s": 1.0} for number in range(100)]
    server["interactive"] = {"mode": "auto", "asks": True, "turn": None, "waiting": crowd}
    assert said(daemon, "status").endswith(
        "a turn (0 for 1 s, 1 for 1 s, 2 for 1 s, 3 for 1 s, 4 for 1 s, …)\n"
    )
    server["interactive"] = {"mode": "auto", "asks": True, "turn": turn, "waiting": []}
    assert "turn" not in said(daemon, "status")
    assert "files: session 7 has had the turn for 12 s" in said(daemon, "status", "files")


def test_status_says_more_of_a_server_that_is_named(daemon: FakeDaemon) -> None:
    info = {"name": "fs", "title": f"Files{NASTY}", "version": "1.2"}
    interactive = {"mode": "exclusive", "asks": False, "turn": None, "waiting": []}
    server = {**SERVER, "server_info": info, "interactive": interactive}
    daemon.handlers["mcpd/status"] = lambda *_: {**STATUS, "servers": [server, BROKEN]}
    assert len(said(daemon, "status").splitlines()) == 5
    assert said(daemon, "status", "files", "broken").splitlines()[5:] == [
        "",
        f"files: it is Files{NASTY} 1.2, 14 tools",
        "files: speaks legacy 2025-11-25",
        "files: process 4250, generation 1, restarts 0",
        "files: calls 17, failed 1, in flight 0, sessions 2",
        "files: sharing shared",
        "files: questions exclusive: it has not asked any yet",
        f"broken: exited with 1: {NASTY} more of it",
        "broken: calls 17, failed 1, in flight 0, sessions 2",
        "broken: sharing shared",
    ]
    shown, status = on_terminal(daemon, "status", "files")
    assert status == 0
    assert "it is Files\\x1b]0;owned\\x07 1.2" in shown


def test_status_says_what_is_wrong_with_a_server_that_lives(daemon: FakeDaemon) -> None:
    """
    B055: "ready" alone would be half the truth.
    """
    stuck = {**SERVER, "pids": [4250, 4251], "responsive": False, "stopped_pids": [4250, 4251]}
    silent = {**SERVER, "name": "silent", "in_flight": 1, "responsive": True, "silent_s": 45.2}
    busy = {**SERVER, "name": "busy", "in_flight": 1, "responsive": True, "silent_s": 4.0}
    noisy = {**SERVER, "name": "noisy", "noise": 3, "noise_reason": "not JSON-RPC"}
    daemon.handlers["mcpd/status"] = lambda *_: {**STATUS, "servers": [stuck, silent, busy, noisy]}
    lines = said(daemon, "status").splitlines()
    assert lines[3].split()[:2] == ["files", "unresponsive"]
    assert " ".join(lines[4].split()[:3]) == "silent ready, silent"
    assert lines[5].split()[:3] == ["busy", "ready", "legacy"]
    assert lines[7:] == [
        "",
        "files: unresponsive: 2 of its processes are stopped by a signal; to let it go on: "
        "kill -CONT 4250 4251, or: mcpctl restart files",
        "silent: silent for 45 s, and owes an answer since; if it is stuck: mcpctl restart silent",
        "noisy: 3 lines on its stdout were no messages of MCP (not JSON-RPC); to see them: "
        "mcpctl logs noisy",
    ]


def test_a_narrow_terminal_gets_fewer_columns_and_the_errors_below(daemon: FakeDaemon) -> None:
    """
    Lines that wrap are no table, and an error that is cut off helps nobody.
    """
    lines = said(daemon, "status", COLUMNS="80").splitlines()
    assert max(map(len, lines[2:5])) <= 80
    assert lines[2].split()[-1] != "ERROR"
    assert f"broken: exited with 1: {NASTY} more of it" in lines
    assert lines[-1].startswith("no room for ERA: mcpctl status SERVER")
    assert "no room" not in said(daemon, "status", COLUMNS="300")


def test_status_shows_no_process_of_a_stopped_server(daemon: FakeDaemon) -> None:
    """
    It may have one that goes on for another of the same launch parameters.
    """
    held = {**SERVER, "name": "twin", "state": "stopped", "held": True, "sessions": 0}
    daemon.handlers["mcpd/status"] = lambda *_: {**STATUS, "servers": [SERVER, held]}
    lines = said(daemon, "status").splitlines()
    assert " ".join(lines[4].split()) == "twin stopped (held) legacy 2025-11-25 - - 0 0 0 17 1 -"
    assert lines[-1] == "twin: its process, pid 4250, goes on for files"
    daemon.handlers["mcpd/status"] = lambda *_: {**STATUS, "servers": [held]}
    assert "twin: its process, pid 4250, goes on for others" in said(daemon, "status", "twin")


def test_a_status_without_servers_says_where_to_look(daemon: FakeDaemon) -> None:
    daemon.handlers["mcpd/status"] = lambda *_: {**STATUS, "servers": []}
    assert "mcpctl list" in said(daemon, "status")


def test_another_version_of_the_daemon_is_noted(daemon: FakeDaemon) -> None:
    """
    B120: compatible, so it works, and says so.
    """
    old = {**STATUS["daemon"], "version": "0.0.9"}  # type: ignore[dict-item]
    daemon.handlers["mcpd/status"] = lambda *_: {**STATUS, "daemon": old}
    done = run(daemon, "status")
    assert done.returncode == 0
    assert "restart --daemon" in done.stderr


def test_watching_goes_on_until_interrupted(daemon: FakeDaemon) -> None:
    argv = [*MCPCTL, "status", "--watch", "--json"]
    with subprocess.Popen(
        argv, env=daemon.env, cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as watch:
        assert watch.stdout
        assert json.loads(watch.stdout.readline()) == STATUS
        assert json.loads(watch.stdout.readline()) == STATUS
        watch.send_signal(signal.SIGINT)
        assert watch.wait(scaled(10)) == 130


@pytest.mark.parametrize(
    ("args", "sent"),
    [
        (["files", "add", "a=5"], {"a": 5}),
        (["files.add", "a=5"], {"a": 5}),
        (["files", "echo", "a=5"], {"a": "5"}),
        (["files", "unknown", "a=5"], {"a": "5"}),
        (["files", "add", "--args", '{"a": 1, "b": 2}', "a=5"], {"a": 5, "b": 2}),
        (["files", "add", "--args", "-"], {"piped": "ö"}),
        (["files", "add"], {}),
    ],
)
def test_a_call_sends_typed_arguments(daemon: FakeDaemon, args: list[str], sent: Any) -> None:
    said(daemon, "call", *args, stdin='{"piped": "ö"}')
    (params,) = daemon.requests("mcpd/call")
    assert params["arguments"] == sent
    assert params["server"] == "files"


def test_a_call_asks_for_no_schema_that_it_does_not_need(daemon: FakeDaemon) -> None:
    said(daemon, "call", "files.add", "a:=5", "--timeout", "7")
    assert [one["method"] for one in daemon.seen] == ["mcpd/hello", "mcpd/call"]
    assert daemon.requests("mcpd/call")[0]["timeout"] == 7


@pytest.mark.parametrize("timeout", ["0", "-1", "nan", "inf", "soon"])
def test_a_timeout_is_a_number_of_seconds_above_0(daemon: FakeDaemon, timeout: str) -> None:
    told = said(daemon, "call", "files.echo", "--timeout", timeout, status=2)
    assert f"--timeout': {timeout} is no number of seconds above 0." in told
    told = said(daemon, "call", "files.echo", "--json", f"--timeout={timeout}", status=2)
    assert timeout in json.loads(told)["error"]["message"]
    assert daemon.requests("mcpd/call") == []


def test_the_longest_server_that_exists_is_meant(daemon: FakeDaemon) -> None:
    known = [{**SERVER, "name": name} for name in ("a", "a.b")]
    daemon.handlers["mcpd/status"] = lambda *_: {**STATUS, "servers": known}
    said(daemon, "call", "a.b.c")
    said(daemon, "call", "a.x.c")
    said(daemon, "call", "q.x.c")
    said(daemon, "call", "a.b", "c")
    said(daemon, "call", "q.b", "c")
    found = [(one["server"], one["tool"]) for one in daemon.requests("mcpd/call")]
    assert found == [("a.b", "c"), ("a", "x.c"), ("q", "x.c"), ("a.b", "c"), ("q.b", "c")]


def test_a_call_of_a_server_that_does_not_exist_says_so_also_without_a_tool(
    daemon: FakeDaemon,
) -> None:
    def status(params: Any, _: Caller) -> Any:
        assert params == {"servers": ["nope"]}
        raise Failed(-32602, "there is no server 'nope'", kind="server_not_found")

    daemon.handlers["mcpd/status"] = status
    assert "there is no server 'nope'" in said(daemon, "call", "nope", status=4)
    nowhere = {"MCPD_SOCKET": str(daemon.directory / "nowhere.sock")}
    assert "mcpctl tools nope" in said(daemon, "call", "nope", status=2, **nowhere)


def test_json_before_the_command_is_told_its_place(daemon: FakeDaemon) -> None:
    error = json.loads(said(daemon, "--json", "status", status=2))["error"]
    assert error["message"] == "--json stands after the command: mcpctl status --json"
    assert "Did you mean" in said(daemon, "--sockte", "x", "status", status=2)


def test_the_text_of_a_result_is_printed(daemon: FakeDaemon) -> None:
    daemon.handlers["mcpd/call"] = lambda *_: text("one", "two\n")
    assert said(daemon, "call", "files.echo") == "one\ntwo\n\n"
    daemon.handlers["mcpd/call"] = lambda *_: {"content": [], "structuredContent": {"ü": 1}}
    assert said(daemon, "call", "files.echo") == '{"ü": 1}\n'


def test_what_has_no_text_is_named_on_stderr(daemon: FakeDaemon) -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "AAAA" * 512}
    inner = {"type": "resource", "resource": {"uri": "x:y", "text": "embedded"}}
    link = {"type": "resource_link", "uri": "file:///z", "name": "z"}
    daemon.handlers["mcpd/call"] = lambda *_: {"content": [image, inner, link]}
    done = run(daemon, "call", "files.echo")
    assert done.stdout == "embedded\nfile:///z\n"
    assert "image/png, 1.5 KiB" in done.stderr


@pytest.mark.parametrize(
    ("result", "shown", "says"),
    [
        (None, "", "is null, where MCP wants an object"),
        ("plain", "plain\n", "is a string, where"),
        (42, "42\n", "is a number, where"),
        (True, "true\n", "is a boolean, where"),
        ([1, None], "[1, null]\n", "is an array, where"),
        ({"content": []}, "", "is empty"),
        ({"content": [{"type": "text", "text": ""}]}, "\n", "is empty"),
        ({}, "", "has no content"),
        ({"content": None, "_meta": {}}, "", "has no content"),
        ({"toolResult": "old"}, '{"toolResult": "old"}\n', "has no content"),
        ({"content": [], "structuredContent": [1]}, "[1]\n", ""),
        ({"content": [{"type": "image"}], "structuredContent": {}}, "{}\n", "not shown: image;"),
        ({"structuredContent": "a\u2028b"}, '"a\\u2028b"\n', ""),
        ({"content": [{"type": "text", "text": None}]}, "", "not shown: text; "),
        ({"content": [{"type": None}]}, "", "not shown: content without a type; "),
        ({"content": [None]}, "", "not shown: content that is no object; "),
        ({"content": [{"type": "resource_link"}]}, "", "not shown: resource_link; "),
        ({"content": [{"type": "a\nmcpctl: b"}]}, "", "not shown: a mcpctl: b; "),
    ],
)
def test_a_result_without_a_text_says_what_it_is(
    daemon: FakeDaemon, result: Any, shown: str, says: str
) -> None:
    daemon.handlers["mcpd/call"] = lambda *_: result
    done = run(daemon, "call", "files.echo")
    assert (done.returncode, done.stdout) == (0, shown)
    assert says in done.stderr
    assert bool(says) is bool(done.stderr)
    assert len(done.stderr.splitlines()) <= 1
    assert "None" not in done.stderr


@pytest.mark.parametrize(
    ("command", "result", "says"),
    [
        (["read", "x:y"], None, "the result of x:y is null"),
        (["read", "x:y"], {"contents": []}, "the result of x:y has no contents"),
        (["read", "x:y"], {"contents": [{"uri": None}]}, "without text or blob"),
        (["read", "x:y"], {"contents": [{"blob": "!"}]}, "the resource is not valid base64"),
        (["prompt", "files", "p"], [], "the result of files.p is an array"),
        (["prompt", "files", "p"], {"messages": []}, "the result of files.p has no messages"),
        (["prompt", "files", "p"], {"messages": [{}, {}]}, "content that is no object"),
    ],
)
def test_a_resource_or_a_prompt_without_a_text_says_so(
    daemon: FakeDaemon, command: list[str], result: Any, says: str
) -> None:
    daemon.handlers[f"mcpd/{command[0]}"] = lambda *_: result
    done = run(daemon, *command)
    assert done.returncode == 0
    assert says in done.stderr
    assert "None" not in done.stdout + done.stderr


EVIL = "ok\r\nmcpctl: forged\u2028mcpctl: again\rmcpctl: more"


@pytest.mark.parametrize(
    "args",
    [
        ["tools"],
        ["tools", "--schema"],
        ["prompts"],
        ["prompts", "--schema"],
        ["resources"],
        ["status"],
        ["status", "files"],
        ["logs"],
        ["events"],
        ["call", "files.add"],
        ["call", "files.echo"],
        ["prompt", "files", "p"],
    ],
)
def test_no_line_of_ours_begins_within_a_text_of_a_server(
    daemon: FakeDaemon, args: list[str]
) -> None:
    """
    A name, a description, an error or a log line with a line break would pass for one of ours.
    """
    item = {"server": "files", "name": EVIL, "uri": EVIL, "description": EVIL, "title": EVIL}
    item |= {"inputSchema": {"description": EVIL}, "arguments": [{"name": EVIL}, {}]}
    info = {"name": EVIL, "version": EVIL}
    server = {**SERVER, "last_error": EVIL, "server_info": info, "sharing_reason": EVIL}
    stamp = "2026-01-01T00:00:00.000Z"

    def call(params: Any, _: Caller) -> Any:
        if params["tool"] == "add":
            raise Failed(-32000, EVIL, stderr=[EVIL], near=[EVIL], hint=EVIL)
        return text(EVIL, isError=True)

    def events(_: Any, caller: Caller) -> Any:
        caller.send({"jsonrpc": "2.0", "id": caller.ident, "result": {"seq": 1}})
        one = {"seq": 1, "time": stamp, "event": "server.failed", "server": "files"}
        caller.notify("mcpd/event", {**one, "reason": EVIL, "word": "a\nmcpctl:forged"})
        raise Silence

    role = {"role": EVIL, "content": {"type": "text", "text": "x"}}
    daemon.handlers |= {
        "mcpd/tools": lambda *_: {"tools": [item]},
        "mcpd/prompts": lambda *_: {"prompts": [item]},
        "mcpd/resources": lambda *_: {"resources": [item], "resourceTemplates": []},
        "mcpd/status": lambda *_: {**STATUS, "servers": [server]},
        "mcpd/logs": lambda *_: {"lines": [{"time": stamp, "source": "stderr", "text": EVIL}]},
        "mcpd/events": events,
        "mcpd/call": call,
        "mcpd/prompt": lambda *_: {"messages": [role, role]},
    }
    done = subprocess.run(
        [*MCPCTL, *args], env=daemon.env, cwd=ROOT, capture_output=True, check=False
    )
    lines = (done.stdout + done.stderr).decode().splitlines()
    assert any("forged" in line for line in lines)
    assert not [line for line in lines[1:] if line.startswith("mcpctl:")]
    assert "None" not in done.stdout.decode()


def test_json_is_the_result_as_the_server_spelled_it(daemon: FakeDaemon) -> None:
    """
    B087: numbers, surrogates and unknown members as they came, also with an error in it.
    """
    raw = '{"isError":true,"content":[],"structuredContent":{"n":1.0,"b":1e400,"s":"\\ud800"},"x":2.50}'

    def call(_: Any, caller: Caller) -> Any:
        caller.send_raw(b'{"jsonrpc":"2.0","id":%d,"result":%s}\n' % (caller.ident, raw.encode()))
        raise Silence

    daemon.handlers["mcpd/call"] = call
    assert said(daemon, "call", "files.echo", "--json", status=1) == raw + "\n"


def test_an_error_of_the_tool_is_one(daemon: FakeDaemon) -> None:
    daemon.handlers["mcpd/call"] = lambda *_: text("because", isError=True)
    done = run(daemon, "call", "files.echo")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "mcpctl: files.echo reported an error: because\n"


def test_an_error_of_the_daemon_is_told_with_its_details(daemon: FakeDaemon) -> None:
    def call(*_: Any) -> Any:
        raise Failed(-32603, "files ended", kind="server_crashed", stderr=["its last words"])

    daemon.handlers["mcpd/call"] = call
    assert "its last words" in said(daemon, "call", "files.echo", status=4)
    error = json.loads(said(daemon, "call", "files.echo", "--json", status=4))["error"]
    assert error["code"] == -32603
    assert error["data"]["stderr"] == ["its last words"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["stauts"], "status"),
        (["--no-start", "status", "files"], "after the command: mcpctl status files --no-start"),
        (["call"], "SERVER TOOL"),
        (["call", "files"], "mcpctl tools files"),
        (["call", "files.add", "milk"], "'milk' is not an argument: write KEY=VALUE"),
        (["call", "files", "add", "a=x"], "a number"),
        (["call", "files", "add", "ab"], "KEY=VALUE"),
        (["call", "files", "add", "--args", "{not"], "JSON"),
        (["call", "files", "add", "a=@/nonexistent"], "/nonexistent"),
        (["call", "files", "add", "--timeout", "0"], "timeout"),
        (["call", "files", "add", "--limit=5"], "without dashes: limit=5"),
        (["call", "files", "add", "--limit", "5", "a=1"], "without dashes: limit=5"),
        (["call", "files.add", "--dry", "a=1"], "without dashes: dry=true"),
        (["call", "files.add", "-n", "a b"], "without dashes: 'n=a b'"),
        (["call", "files.add", "--timout", "5"], "--timeout"),
        (["prompt", "files", "greet", "--who=Ada"], "without dashes: who=Ada"),
        (["start"], "--all"),
        (["start", "x", "--all"], "not both"),
        (["restart", "--daemon", "x"], "--daemon"),
        (["logs", "-n", "-1"], "-1"),
    ],
)
def test_wrong_usage_is_two_and_says_what_is_right(
    daemon: FakeDaemon, args: list[str], says: str
) -> None:
    done = run(daemon, *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    error = json.loads(said(daemon, *args, "--json", status=2))["error"]
    assert error["data"]["kind"] == "invalid_arguments"


def test_an_argument_that_does_not_fit_is_told_as_the_daemon_tells_it(daemon: FakeDaemon) -> None:
    told = said(daemon, "call", "files.add", "a=x", "b=2", "--json", status=2)
    assert json.loads(told)["error"]["data"] == {
        "kind": "invalid_arguments",
        "retryable": False,
        "server": "files",
        "hint": "mcpctl tools files --schema shows what it takes",
        "path": "a",
        "violations": [{"path": "a", "message": "must be a number"}],
    }
    assert "--schema" in run(daemon, "call", "files.add", "a=x", "b=2").stderr


def test_an_interrupt_cancels_the_call(daemon: FakeDaemon) -> None:
    def call(*_: Any) -> Any:
        raise Silence

    daemon.handlers["mcpd/call"] = call
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        daemon.seen.clear()
        argv = [*MCPCTL, "call", "files.echo"]
        with subprocess.Popen(argv, env=daemon.env, cwd=ROOT, stderr=subprocess.PIPE) as running:
            wait_until(lambda: daemon.requests("mcpd/call"), what="the call")
            running.send_signal(number)
            _, complaint = running.communicate(timeout=scaled(10))
        assert (running.returncode, complaint) == (status, b"")
        wait_until(lambda: daemon.requests("notifications/cancelled"), what="its cancellation")


def test_a_call_that_took_too_long_is_five(daemon: FakeDaemon) -> None:
    def call(*_: Any) -> Any:
        raise Failed(-32603, "no answer within 1 s", kind="call_timeout", limit="timeout")

    daemon.handlers["mcpd/call"] = call
    assert "1 s" in said(daemon, "call", "files.echo", "--timeout", "1", status=5)


def test_a_reader_that_goes_away_is_no_error(daemon: FakeDaemon) -> None:
    daemon.handlers["mcpd/call"] = lambda *_: text("x" * (1 << 20))
    argv = [*MCPCTL, "call", "files.echo"]
    with subprocess.Popen(
        argv, env=daemon.env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout
        assert running.stderr
        running.stdout.read(10)
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(scaled(10)) == 0


def test_a_terminal_is_not_controlled_by_a_server(daemon: FakeDaemon) -> None:
    daemon.handlers["mcpd/call"] = lambda *_: text(NASTY)
    assert said(daemon, "call", "files.echo") == NASTY + "\n"
    shown, status = on_terminal(daemon, "call", "files.echo")
    assert (shown, status) == ("\\x1b]0;owned\\x07\n", 0)
    shown, _ = on_terminal(daemon, "status")
    assert "\x1b[32mready\x1b[0m" in shown
    assert r"exited with 1: \x1b]0;owned\x07 more of it" in shown
    shown, _ = on_terminal(daemon, "status", NO_COLOR="1")
    assert "\x1b" not in shown


def test_progress_is_shown_on_a_terminal_only(daemon: FakeDaemon) -> None:
    def call(_: Any, caller: Caller) -> Any:
        caller.notify(
            "mcpd/progress", {"id": caller.ident, "progress": 1, "total": 2, "message": NASTY}
        )
        return text("done")

    daemon.handlers["mcpd/call"] = call
    shown, _ = on_terminal(daemon, "call", "files.echo")
    assert shown == "\r\x1b[Kfiles.echo: 50 % \\x1b]0;owned\\x07\r\x1b[Kdone\n"
    assert said(daemon, "call", "files.echo") == "done\n"
    assert [one.get("progress") for one in daemon.requests("mcpd/call")] == [True, None]


def test_tools_are_listed_searched_and_explained(daemon: FakeDaemon) -> None:
    shown = said(daemon, "tools", "files")
    assert "files.add   Add two numbers\n" in shown
    assert "files.echo\n" in shown
    assert daemon.requests("mcpd/tools") == [{"server": "files"}]
    assert "files.echo" not in said(daemon, "tools", "--search", "TWO")
    assert '"type": "number"' in said(daemon, "tools", "--schema")
    assert json.loads(said(daemon, "tools", "--json")) == TOOLS
    assert "nothing" in said(daemon, "tools", "--search", "absent")


def test_servers_that_a_list_lacks_are_named_with_their_states(daemon: FakeDaemon) -> None:
    daemon.handlers["mcpd/tools"] = lambda *_: {**TOOLS, "missing": ["broken", "gone"]}
    for args in (["tools"], ["tools", "--json"], ["tools", "--search", "absent"]):
        done = run(daemon, *args)
        assert done.returncode == 0
        assert "without the tools of broken (failed), gone (removed)" in done.stderr
        assert "mcpctl status" in done.stderr
    assert json.loads(run(daemon, "tools", "--json").stdout) == TOOLS


def test_resources_and_templates_are_listed_together(daemon: FakeDaemon) -> None:
    found = {
        "resources": [{"server": "files", "uri": "file:///a", "name": "a", "description": "A"}],
        "resourceTemplates": [{"server": "files", "uriTemplate": "file:///{x}", "name": "x"}],
    }
    daemon.handlers["mcpd/resources"] = lambda *_: found
    lines = said(daemon, "resources").splitlines()
    assert lines == ["RESOURCE     DESCRIPTION", "file:///a    A", "file:///{x}"]
    assert json.loads(said(daemon, "resources", "--json")) == found


def test_a_resource_is_printed_as_it_is(daemon: FakeDaemon) -> None:
    data = bytes(range(256))
    found: list[dict[str, Any]] = [{"uri": "x:y", "text": "no newline"}]
    daemon.handlers["mcpd/read"] = lambda *_: {"contents": found}
    assert said(daemon, "read", "x:y", "--server", "files") == "no newline"
    assert daemon.requests("mcpd/read") == [{"uri": "x:y", "server": "files"}]
    assert on_terminal(daemon, "read", "x:y") == ("no newline\n", 0)
    found[:] = [{"uri": "x:y", "mimeType": "image/png", "blob": base64.b64encode(data).decode()}]
    done = subprocess.run(
        [*MCPCTL, "read", "x:y"], env=daemon.env, cwd=ROOT, capture_output=True, check=True
    )
    assert done.stdout == data
    assert "image/png, 256 B" in on_terminal(daemon, "read", "x:y")[0]


def test_a_prompt_is_filled_in_with_texts(daemon: FakeDaemon) -> None:
    hello = {"role": "user", "content": {"type": "text", "text": "greet Ada"}}
    found = [hello]
    daemon.handlers["mcpd/prompt"] = lambda *_: {"messages": found}
    assert said(daemon, "prompt", "files", "greet", "who=Ada", "n=5") == "greet Ada\n"
    (params,) = daemon.requests("mcpd/prompt")
    assert params == {"server": "files", "name": "greet", "arguments": {"who": "Ada", "n": "5"}}
    found.append({**hello, "role": "assistant"})
    assert said(daemon, "prompt", "files", "greet") == "[user]\ngreet Ada\n[assistant]\ngreet Ada\n"


@pytest.mark.parametrize(
    ("method", "args", "who"),
    [
        ("prompt", ["notes", "greet"], "notes reported an error: "),
        ("read", ["x:y", "--server", "notes"], "notes reported an error: "),
        ("read", ["x:y"], ""),
        ("call", ["notes.add"], "notes.add reported an error: "),
    ],
)
def test_a_servers_own_error_comes_with_its_name(
    daemon: FakeDaemon, method: str, args: list[str], who: str
) -> None:
    def theirs(*_: Any) -> Any:
        raise Failed(-32601, "no such thing")

    def ours(*_: Any) -> Any:
        raise Failed(-32603, "notes was stopped", kind="server_stopped")

    daemon.handlers[f"mcpd/{method}"] = theirs
    assert said(daemon, method, *args, status=1) == f"mcpctl: {who}no such thing\n"
    error = json.loads(said(daemon, method, *args, "--json", status=1))
    assert error == {"error": {"code": -32601, "message": "no such thing"}}
    daemon.handlers[f"mcpd/{method}"] = ours
    assert said(daemon, method, *args, status=4) == "mcpctl: notes was stopped\n"


def test_prompts_are_listed_with_their_arguments(daemon: FakeDaemon) -> None:
    who = {"name": "who", "required": True, "description": "Whom"}
    prompt = {"server": "files", "name": "greet", "description": "Greets", "arguments": [who]}
    daemon.handlers["mcpd/prompts"] = lambda *_: {"prompts": [prompt]}
    assert "files.greet  Greets" in said(daemon, "prompts")
    assert "  who, required: Whom" in said(daemon, "prompts", "--schema")


@pytest.mark.parametrize(
    "odd", [None, 5, [], "x", {"content": 5}, {"content": [5, {}]}, {"messages": [1]}]
)
def test_a_servers_oddest_result_is_no_traceback(daemon: FakeDaemon, odd: Any) -> None:
    for method in ("call", "read", "prompt"):
        daemon.handlers[f"mcpd/{method}"] = lambda *_: odd
    for args in (["call", "files.echo"], ["read", "x:y"], ["prompt", "files", "p"]):
        said(daemon, *args)


def test_servers_are_started_stopped_and_restarted(daemon: FakeDaemon) -> None:
    def change(params: Any, _: Caller) -> Any:
        return {"servers": [{"name": n, "state": "ready", "pid": 5} for n in params["servers"]]}

    for verb in ("start", "stop", "restart"):
        daemon.handlers[f"mcpd/{verb}"] = change
    assert said(daemon, "start", "a", "b", "a").splitlines()[1:] == [
        "a       ready  5",
        "b       ready  5",
    ]
    assert json.loads(said(daemon, "stop", "a", "--json"))["servers"][0]["state"] == "ready"
    off = {**SERVER, "name": "off", "state": "disabled"}
    daemon.handlers["mcpd/status"] = lambda *_: {**STATUS, "servers": [SERVER, BROKEN, off]}
    assert run(daemon, "restart", "--all").stderr == ""
    wrong = {**SERVER, "name": "wrong", "state": "misconfigured"}
    daemon.handlers["mcpd/status"] = lambda *_: {**STATUS, "servers": [SERVER, wrong]}
    assert "without wrong (misconfigured)" in run(daemon, "start", "--all").stderr
    assert daemon.requests("mcpd/start") == [{"servers": ["a", "b"]}, {"servers": ["files"]}]
    assert daemon.requests("mcpd/restart") == [{"servers": ["files", "broken"]}]


def test_logs_are_exactly_the_lines_asked_for(daemon: FakeDaemon) -> None:
    daemon.handlers["mcpd/logs"] = lambda *_: {"lines": LINES}
    assert said(daemon, "logs", "files", "-n", "2").splitlines() == [
        "2026-01-01T00:00:00.000Z stderr noise 1",
        "2026-01-01T00:00:00.000Z stderr noise 2",
    ]
    assert daemon.requests("mcpd/logs") == [{"server": "files", "lines": 2, "follow": False}]
    assert json.loads(said(daemon, "logs", "--json")) == {"lines": LINES}


def test_logs_are_followed_until_the_daemon_is_gone(daemon: FakeDaemon) -> None:
    def logs(_: Any, caller: Caller) -> Any:
        caller.send({"jsonrpc": "2.0", "id": caller.ident, "result": {"lines": LINES[:1]}})
        caller.notify("mcpd/log", LINES[1])
        caller.hang_up()
        raise Silence

    daemon.handlers["mcpd/logs"] = logs
    done = run(daemon, "logs", "-f", "--json")
    assert [json.loads(line) for line in done.stdout.splitlines()[:2]] == LINES
    assert done.returncode == 3


def test_events_so_far_end_and_followed_ones_do_not(daemon: FakeDaemon) -> None:
    made = [
        {
            "seq": n,
            "time": "2026-01-01T00:00:00.000Z",
            "event": "server.backoff",
            "server": "files",
            "delay_s": n,
        }
        for n in (1, 2, 3)
    ]

    def events(_: Any, caller: Caller) -> Any:
        caller.send({"jsonrpc": "2.0", "id": caller.ident, "result": {"seq": 3}})
        for one in made:
            caller.notify("mcpd/event", one)
        raise Silence

    daemon.handlers["mcpd/events"] = events
    assert [json.loads(line) for line in said(daemon, "events", "--json").splitlines()] == made
    shown = said(daemon, "events", "-n", "1")
    assert shown == "2026-01-01T00:00:00.000Z server.backoff         files delay_s=3\n"
    assert said(daemon, "events", "-n", "0") == ""
    argv = [*MCPCTL, "events", "-f"]
    with subprocess.Popen(argv, env=daemon.env, cwd=ROOT, stdout=subprocess.PIPE) as following:
        assert following.stdout
        for _ in made:
            assert b"server.backoff" in following.stdout.readline()
        following.send_signal(signal.SIGINT)
        assert following.wait(scaled(10)) == 130


def test_a_reload_with_errors_ends_with_two(daemon: FakeDaemon) -> None:
    changes: dict[str, Any] = {
        "added": ["a", "b"], "removed": [], "changed": ["c"], "unchanged": [], "errors": []
    }  # fmt: skip
    daemon.handlers["mcpd/reload"] = lambda *_: changes
    assert said(daemon, "reload") == "added a, b; changed c\n"
    changes |= {"added": [], "changed": [], "errors": ["x.toml:5:1: error: line 5"]}
    done = run(daemon, "reload")
    assert done.returncode == 2
    assert done.stdout == "nothing else has changed since it was last read\n"
    assert "line 5" in done.stderr
    assert json.loads(said(daemon, "reload", "--json", status=2)) == changes
    changes |= {"applied": False}
    told = "what the files say now is not in force: the daemon goes on with what it had\n"
    assert run(daemon, "reload").stdout == told
    changes |= {"errors": [], "applied": True}
    assert said(daemon, "reload") == "nothing has changed since it was last read\n"


def test_the_configuration_is_listed_with_where_it_comes_from(daemon: FakeDaemon) -> None:
    entry = {"name": "files", "file": "/c.toml", "line": 3, "enabled": True, "error": None}
    found = {
        "files": ["/c.toml"],
        "servers": [{**entry, "config": {"command": "npx", "args": ["-y", "x"]}}],
        "errors": [],
    }
    daemon.handlers["mcpd/list"] = lambda *_: found
    assert "files   yes      legacy 2025-11-25  /c.toml:3  npx -y x" in said(daemon, "list")
    found["errors"] = ["/c.toml:3:1: error: command is missing"]
    found["servers"] = [{**entry, "config": None, "error": found["errors"][0]}]
    done = run(daemon, "list")
    assert done.stdout.endswith("/c.toml:3  an error, see below\n")
    assert done.stderr == "mcpctl: /c.toml:3:1: error: command is missing\n"
    found["servers"] = []
    assert "/c.toml" in said(daemon, "list")


def test_the_list_fits_a_terminal_and_quotes_as_the_check_does(daemon: FakeDaemon) -> None:
    args = ["-y foo", "a b", "${HOME}/src", "***", "$x", *map(str, range(40))]
    home = f"{daemon.directory}/.config/mcpd/mcp.json"
    entry = {"line": 12, "enabled": True, "error": None, "config": {"command": "npx", "args": args}}
    servers = [
        {**entry, "name": "files", "file": home},
        {**entry, "name": "other-server", "file": f"{daemon.directory}-/{'d/' * 40}mcp.json"},
    ]
    daemon.handlers["mcpd/list"] = lambda *_: {"files": [], "servers": servers, "errors": []}
    quoted = "npx '-y foo' 'a b' ${HOME}/src *** '$x' 0 1"
    wide, narrow = (said(daemon, "list", COLUMNS=width).splitlines() for width in ("120", "60"))
    assert wide[0].split() == ["SERVER", "ENABLED", "ERA", "FROM", "COMMAND"]
    assert narrow[0].split() == ["SERVER", "FROM", "COMMAND"]
    assert "  ~/.config/mcpd/mcp.json:12  " in wide[1]
    assert "/d/d/d/mcp.json:12  " in wide[2]
    assert max(map(len, wide)) == 120
    assert max(map(len, narrow)) == 60
    assert quoted in said(daemon, "list", COLUMNS="400")


def test_a_daemon_that_runs_is_up_already(daemon: FakeDaemon) -> None:
    listed: dict[str, Any] = {"files": [], "servers": [], "errors": []}
    daemon.handlers["mcpd/list"] = lambda *_: listed
    assert "is up already: pid 4242" in said(daemon, "up")
    assert run(daemon, "up").stderr == ""
    listed["errors"] = ["x.toml:5:1: error: line 5"]
    assert run(daemon, "up").stderr == (
        "mcpctl: 1 error in the configuration: mcpctl doctor says where\n"
    )
    found = json.loads(said(daemon, "up", "--json"))["daemon"]
    assert (found["pid"], found["socket"]) == (4242, daemon.path)


def test_a_configuration_that_the_daemon_does_not_read_is_noted(daemon: FakeDaemon) -> None:
    other, absent = daemon.directory / "other.json", daemon.directory / "absent.json"
    other.write_text("{}")
    daemon.handlers["mcpd/list"] = lambda *_: {"files": ["/a", "/b"], "servers": [], "errors": []}
    for read, files in ((None, "/a, /b"), ("/c.toml", "/c.toml")):
        daemon.handlers["mcpd/hello"] = lambda *_, read=read: {**HELLO, "config": read}
        for args in (["up"], ["up", "--json"], ["call", "files.add"]):
            done = run(daemon, "--config", str(other), *args)
            assert (done.returncode, done.stderr) == (
                0,
                f"mcpctl: the daemon that runs reads {files}, and not {other}; to have it read "
                f"that: mcpctl --config {other} restart --daemon\n",
            )
        told = run(daemon, "--config", str(absent), "--socket", daemon.path, "up").stderr
        assert told.endswith(f"{files}, and not {absent}, which does not exist\n")
    daemon.handlers["mcpd/hello"] = lambda *_: {**HELLO, "config": str(other)}
    link = daemon.directory / "link.json"
    link.symlink_to(other)
    for named in (other, link):
        assert run(daemon, "--config", str(named), "up").stderr == ""


def test_down_waits_until_the_process_is_gone(daemon: FakeDaemon) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        daemon.handlers["mcpd/hello"] = lambda *_: {
            "version": "0.1.0", "pid": process.pid, "api": 1, "uptime_s": 1
        }  # fmt: skip

        def shutdown(_: Any, caller: Caller) -> Any:
            process.terminate()
            caller.hang_up()
            raise Silence

        daemon.handlers["mcpd/shutdown"] = shutdown
        assert f"was pid {process.pid}" in said(daemon, "down")
        assert process.poll() is not None or process.wait(0) is not None


def test_shells_are_told_the_line_and_complete_from_the_daemon(daemon: FakeDaemon) -> None:
    line = said(daemon, "completion", "bash")
    assert "_MCPCTL_COMPLETE=bash_source" in line
    told = json.loads(said(daemon, "completion", "bash", "--json"))
    assert told == {"shell": "bash", "line": line.rstrip("\n")}

    def complete(*words: str) -> list[str]:
        shown = said(
            daemon,
            _MCPCTL_COMPLETE="bash_complete",
            COMP_WORDS=" ".join(["mcpctl", *words]),
            COMP_CWORD=str(len(words)),
        )
        return [line.partition(",")[2] for line in shown.splitlines()]

    assert "status" in complete("st")
    assert complete("stop", "f") == ["files"]
    assert complete("connect", "f") == ["files"]
    assert complete("call", "f") == ["files"]
    assert complete("call", "files", "a") == ["add"]
    assert complete("call", "files.a") == ["files.add"]
    assert complete("call", "files.add", "") == ["a="]
    forged = {"server": "files", "name": "add\nplain,rm"}
    daemon.handlers["mcpd/tools"] = lambda *_: {"tools": [*TOOLS["tools"], forged]}
    assert complete("call", "files", "a") == ["add"]
    assert complete("call", "files.a") == ["files.add"]
    daemon.close()
    shown = run(
        daemon, _MCPCTL_COMPLETE="bash_complete", COMP_WORDS="mcpctl stop f", COMP_CWORD="2"
    )
    assert (shown.stdout.strip(), shown.stderr) == ("", "")


def test_help_and_version(daemon: FakeDaemon) -> None:
    assert "Usage" in said(daemon, "--help")
    assert "mcpctl connect --" in said(daemon, "connect", "--help")
    assert said(daemon, "--version") == "mcpctl 0.1.0\n"
