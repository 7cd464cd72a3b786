"""Signing in with ``mcpctl``: one sign-in for every client of the daemon, and nothing of it seen."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import TAG, Box, RpcError, binary
from tests.support.fakeauth import FakeAuth, browse, ends_at
from tests.support.waiting import scaled, wait_until


@pytest.fixture
def auth() -> Iterator[FakeAuth]:
    with FakeAuth() as fake:
        yield fake


@pytest.fixture
def far(box: Box, auth: FakeAuth) -> Box:
    """A daemon with a remote server that wants a sign-in."""
    box.env |= {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    box.env.pop("DISPLAY", None)
    box.servers["far"] = {"url": auth.url}
    return box.up()


class Login:
    """``mcpctl login``, read while it runs."""

    def __init__(self, box: Box, *args: str) -> None:
        self.process = subprocess.Popen(
            [binary("mcpctl"), "login", "far", *args],
            env=box.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.output = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        while piece := os.read(self.process.stdout.fileno(), 65536):
            self.output += piece.decode()

    def address(self) -> str:
        found = wait_until(
            lambda: re.search(r"http://\S+/authorize\?[^\s\"]+", self.output),
            30,
            what=lambda: f"the address; so far: {self.output}",
        )
        return found[0]

    def type(self, text: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{text}\n".encode())
        self.process.stdin.flush()

    def end(self) -> int:
        try:
            return self.process.wait(scaled(30))
        finally:
            for stream in (self.process.stdin, self.process.stdout):
                assert stream
                stream.close()


def sign_in(box: Box, *args: str) -> Login:
    login = Login(box, *args)
    assert browse(login.address())[0] == 200
    assert login.end() == 0, login.output
    return login


def call(box: Box, tool: str = "echo") -> str:
    done = box.ctl("call", "far", tool)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def refused(box: Box, tool: str = "echo") -> RpcError:
    with box.peer() as control, pytest.raises(RpcError) as raised:
        control.request("mcpd/call", {"server": "far", "tool": tool}, 30)
    return raised.value


def test_somebody_signs_in_for_everybody(far: Box, auth: FakeAuth) -> None:
    """
    It is offered where people look, and nothing is tried before.
    """
    with far.peer() as control:
        control.request("mcpd/events", {})
        done = far.ctl("call", "far", "echo")
        assert done.returncode == 6 and "mcpctl login far" in done.stderr
        event = control.take_notification("mcpd/event", 20)
        while event["event"] != "server.login_required":
            event = control.take_notification("mcpd/event", 20)
        assert "mcpctl login far" in event["message"]
    assert far.status("far")["state"] == "login"
    assert "mcpctl login far" in far.ctl("doctor").stdout
    asked = len(auth.paths)
    assert refused(far).kind == "login_required" and len(auth.paths) == asked
    login = sign_in(far, "--no-browser")
    assert auth.origin in login.output and "renewed" in login.output
    with far.session("far") as one, far.session("far") as other:
        assert one.text("echo") == other.text("echo") == "echo"
    assert far.status("far")["auth"].startswith("oauth: signed in until 20")
    assert "credentials.json" in far.ctl("doctor").stdout
    far.down()
    auth.expire()
    far.up()
    assert call(far) == "echo" and len(auth.authorizations) == 1 and auth.reused == 0


def test_it_needs_no_call_before(far: Box, auth: FakeAuth) -> None:
    sign_in(far)
    assert call(far) == "echo"


def test_json_has_the_address_and_then_the_result(far: Box, auth: FakeAuth) -> None:
    login = sign_in(far, "--json")
    begun, done = map(json.loads, login.output.splitlines())
    assert begun["url"].startswith(f"{auth.origin}/authorize?") and begun["joined"] is False
    assert done["issuer"] == auth.origin and done["scopes"] == ["read"] and done["renews"] is True


def test_a_second_one_waits_and_whoever_began_may_leave(far: Box, auth: FakeAuth) -> None:
    one = Login(far)
    address = one.address()
    two = Login(far)
    assert two.address() == address and "already" in two.output
    one.process.kill()
    one.end()
    assert browse(address)[0] == 200
    assert two.end() == 0 and len(auth.grants) == len(auth.registrations) == 1


def test_over_ssh_the_address_is_pasted(far: Box, auth: FakeAuth) -> None:
    login = Login(far)
    end = ends_at(login.address())
    login.type("http://127.0.0.1/callback?code=x&state=y")
    wait_until(lambda: "not the answer" in login.output, 10, what=lambda: login.output)
    login.type(end)
    assert login.end() == 0, login.output
    assert call(far) == "echo"


def test_the_browser_gets_one_argument_and_no_shell(far: Box, auth: FakeAuth) -> None:
    folder = far.root / "bin"
    folder.mkdir()
    opener = folder / "xdg-open"
    opened = far.root / "opened"
    opener.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$#" "$@" > {opened}.tmp\nmv {opened}.tmp {opened}\n'
    )
    opener.chmod(0o755)
    far.env |= {"PATH": f"{folder}:{far.env['PATH']}", "DISPLAY": ":99"}
    for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"):
        far.env.pop(name, None)
    login = Login(far)
    address = login.address()
    wait_until(opened.exists, 10, what="xdg-open")
    assert opened.read_text().splitlines() == ["1", address]
    far.env["SSH_CONNECTION"] = "1.2.3.4 5 6.7.8.9 22"
    opened.unlink()
    second = Login(far)
    second.address()
    assert browse(address)[0] == 200 and login.end() == second.end() == 0
    assert not opened.exists()


def test_signing_out_ends_it_for_everybody(far: Box, auth: FakeAuth) -> None:
    sign_in(far)
    assert call(far) == "echo"
    done = far.ctl("logout", "far")
    assert done.returncode == 0 and "revoked" in done.stdout and len(auth.revoked) == 2
    assert refused(far).kind == "login_required"
    assert not (far.ctl("logout", "far", "--json").returncode)
    for path in far.root.rglob("*"):
        assert not path.is_file() or b"SENTINELREFRESH" not in path.read_bytes(), path


def test_scopes_that_are_missing(far: Box, auth: FakeAuth) -> None:
    """
    The other tools go on, and the next sign-in asks for the union.
    """
    auth.tool_scopes["admin"] = {"admin"}
    sign_in(far)
    error = refused(far, "admin")
    assert error.kind == "forbidden" and error.data["scopes"] == ["admin"]
    assert call(far) == "echo" and far.status("far")["state"] == "ready"
    sign_in(far)
    assert auth.authorizations[-1]["scope"] == "read admin" and call(far, "admin") == "admin"


def test_where_nobody_can_sign_in(far: Box, auth: FakeAuth) -> None:
    far.servers |= {
        "open": {"url": auth.url, "auth": {"type": "bearer", "token": "x" * 20}},
        "header": {"url": auth.url, "headers": {"authorization": "Basic eA=="}},
    }
    far.fake("process").write()
    far.ctl("reload")
    for name in ("open", "header", "process", "missing"):
        for verb in ("login", "logout"):
            done = far.ctl(verb, name)
            assert done.returncode == 4 and name in done.stderr, (name, done)
    assert auth.authorizations == []


def test_a_sign_in_that_fails_is_told(far: Box, auth: FakeAuth) -> None:
    auth.back = {"code": None, "error": "access_denied", "error_description": "not you"}
    login = Login(far)
    browse(login.address())
    assert login.end() == 6 and "access_denied: not you" in login.output
    auth.prm["resource"] = "https://evil.example.com/mcp"
    again = Login(far)
    assert again.end() == 6 and "evil.example.com" in again.output


def test_nothing_of_it_is_seen(far: Box, auth: FakeAuth) -> None:
    """
    Not in logs, events, status, errors, command lines, environments and files, but the one that
    only its owner can read.
    """
    far.ctl("events", "--json")
    far.fake("other").write()
    far.ctl("reload")
    with far.peer() as control:
        control.request("mcpd/events", {"since": 0})
        login = Login(far)
        address = login.address()
        seen = processes(far)
        assert browse(address)[0] == 200 and login.end() == 0
        assert call(far) == "echo" and far.ctl("call", "other", "echo", "text=x").stdout == "x\n"
        auth.expire()
        assert call(far) == "echo"
        auth.forget()
        error = refused(far)
        seen += processes(far)
        told = [json.dumps(event) for event in control.inbox]
    shown = [
        far.ctl(*words).stdout for words in (("status", "--json"), ("doctor", "-v"), ("logs",))
    ]
    shown += [far.ctl("logs", "far").stdout, far.ctl("list", "--json").stdout, *told, str(error)]
    files = {path: path.read_bytes() for path in far.root.rglob("*") if path.is_file()}
    secrets = [b"SENTINEL", auth.authorizations[0]["code_challenge"].encode()]
    secrets.append(auth.used("authorization_code")[0]["code_verifier"].encode())
    for secret in secrets:
        assert not [text for text in seen if secret in text]
        assert not [text for text in shown if secret.decode() in text]
        found = [path for path, data in files.items() if secret in data]
        assert all(path.name == "credentials.json" for path in found), found
    for path in far.root.rglob("credentials.json*"):
        assert path.stat().st_mode & 0o077 == 0


def processes(box: Box) -> list[bytes]:
    """Return the command lines and environments of all processes of a box that can be read."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            environment = (place / "environ").read_bytes()
            if f"{TAG}={box.env[TAG]}".encode() in environment:
                found += [environment, (place / "cmdline").read_bytes()]
        except OSError:
            continue
    return found
