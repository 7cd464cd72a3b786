"""Secrets that entries name: from the keyring or a file into a server, and nowhere else."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.daemon import Box, Peer, RpcError
from tests.support.rings import HANGS, LOCKED, WORKS, kept, ring
from tests.support.secret_forms import forms
from tests.support.waiting import scaled, wait_until

SECRET = 'SENT"INEL/of somebody+7'


@pytest.fixture
def named(box: Box) -> Box:
    """A box with a server that gets a secret, another one, and secrets in the file."""
    box.settings["watch"] = False
    box.trust["keyring"] = "file"
    return box.fake(env={"TOKEN": "${keyring:gh}"}).fake("other")


def keep(box: Box, value: str = SECRET, name: str = "gh") -> str:
    done = box.ctl("secret", "set", name, "--stdin", stdin=f"{value}\n")
    assert done.returncode == 0, done.stderr
    return done.stdout


def token(peer: Peer) -> str:
    return peer.text("env", timeout=30.0, name="TOKEN")


def refused(peer: Peer, server: str = "fake") -> RpcError:
    with pytest.raises(RpcError) as error:
        peer.request("mcpd/call", {"server": server, "tool": "pid", "arguments": {}}, timeout=30.0)
    return error.value


def events(box: Box, name: str) -> list[dict[str, object]]:
    """Return the events of this name since the daemon started."""
    with box.peer() as peer:
        last = peer.request("mcpd/events", {"since": 0})["seq"]
        found = []
        while not found or found[-1]["seq"] < last:
            found.append(peer.take_notification("mcpd/event"))
    return [each for each in found if each["event"] == name]


def test_a_secret_is_in_its_server_and_nowhere_else(named: Box) -> None:
    """
    T41, T55: whatever the server does with it, nothing that we write or show has it.
    """
    ring(named)
    named.trust["keyring"] = "system"
    named.fake(
        "argued", "--name", "${keyring:gh}", env={"TOKEN": "x ${keyring:gh}", "B": "${keyring:gh}"}
    )
    named.fake("crashing", "--crash-at-start", 3, env={"TOKEN": "${keyring:gh}"})
    keep(named)
    assert kept(named) == {"mcpd/gh": SECRET}
    named.up()
    session = named.session()
    assert token(session) == SECRET and token(named.session("other")) == "<unset>"
    assert token(named.session("argued")) == f"x {SECRET}"
    session.text("echo", text=SECRET)
    refused(named.peer(), "crashing")
    shown = "".join(
        done.stdout + done.stderr
        for done in (
            named.ctl(*command)
            for command in (
                ("status",), ("status", "--json"), ("status", "fake"), ("list",), ("list", "--json"),
                ("secret", "list"), ("secret", "list", "--json"), ("doctor",), ("logs",),
                ("logs", "fake"), ("logs", "argued"), ("tools", "argued"),
            )
        )
    )  # fmt: skip
    written = [
        path.read_text(errors="replace")
        for path in (*named.state.rglob("*"), named.log)
        if path.is_file()
    ]
    for form in forms(SECRET):
        assert form not in shown and not any(form in text for text in written), form
    assert "${keyring:gh}" in shown
    assert not (named.state / "secrets.json").exists()


def test_a_missing_secret_is_an_error_of_its_server_until_it_is_set(named: Box) -> None:
    """
    T41
    """
    named.up()
    error = refused(named.peer())
    assert error.kind == "config_invalid" and error.data["hint"] == "mcpctl secret set gh"
    assert error.data["secret"] == "gh"
    status = named.status()
    assert (status["state"], status["restarts"]) == ("stopped", 0)
    [event] = events(named, "secret.unavailable")
    assert (event["server"], event["name"], event["reason"]) == ("fake", "gh", "missing")
    assert events(named, "server.crashed") == []
    assert named.session("other").text("count") == "1"
    keep(named)
    assert token(named.session()) == SECRET


def test_a_secret_that_is_set_while_sessions_wait_for_it_is_used_without_a_reload(
    named: Box,
) -> None:
    named.up()
    session = named.session(handshake=False)
    with pytest.raises(RpcError) as error:
        session.initialize()
    assert error.value.kind == "config_invalid"
    keep(named)
    session.initialize()
    assert token(session) == SECRET


def test_a_new_value_replaces_its_servers_after_their_calls(named: Box) -> None:
    """
    T41
    """
    keep(named)
    named.up()
    session, other = named.session(), named.session("other")
    before, pid = other.text("pid"), session.text("pid")
    call = session.start("tools/call", {"name": "sleep", "arguments": {"ms": 500}})
    wait_until(lambda: named.status()["in_flight"] == 1)
    assert "restarted when idle: fake" in keep(named, "another")
    assert session.finish(call)["content"][0]["text"] == "slept 500"
    assert token(session) == "another" and session.text("pid") != pid
    assert other.text("pid") == before
    assert named.peer().request("mcpd/secret_changed", {"name": "none"})["servers"] == []
    named.write()
    pid = session.text("pid")
    named.peer().request("mcpd/reload", timeout=30.0)
    assert session.text("pid") == pid, "a reload changes nothing about it"


def test_a_server_that_is_held_stays_held(named: Box) -> None:
    keep(named)
    named.up()
    token(named.session())
    peer = named.peer()
    peer.request("mcpd/stop", {"servers": ["fake"]}, timeout=30.0)
    keep(named, "another")
    assert refused(peer).kind == "server_stopped"
    peer.request("mcpd/start", {"servers": ["fake"]}, timeout=30.0)
    assert token(named.session()) == "another"


def test_an_eager_server_starts_again_with_the_new_value(named: Box) -> None:
    named.servers["fake"]["start"] = "eager"
    named.up()
    wait_until(lambda: bool(events(named, "secret.unavailable")))
    keep(named)
    wait_until(lambda: named.status()["state"] == "ready")


@pytest.mark.parametrize(
    ("body", "least_s"), [(LOCKED, 0.0), pytest.param(HANGS, 5.0, marks=pytest.mark.slow)]
)
def test_a_locked_keyring_fails_its_server_alone(named: Box, body: str, least_s: float) -> None:
    """
    T41: after 5 s where it shows a prompt; no crash is counted, and the next use tries again.
    """
    ring(named, body)
    named.trust["keyring"] = "auto"
    named.up()
    peer, began = named.peer(), time.monotonic()
    call = peer.start("mcpd/call", {"server": "fake", "tool": "pid", "arguments": {}})
    assert named.session("other").text("count", timeout=5.0) == "1"
    with pytest.raises(RpcError) as error:
        peer.finish(call, 30.0)
    assert least_s <= time.monotonic() - began < scaled(least_s + 10)
    data = error.value.data
    assert error.value.kind == "spawn_failed" and data["retryable"] is True
    assert (data["reason"], data["secret"]) == ("keyring_locked", "gh")
    status = named.status()
    assert (status["state"], status["restarts"]) == ("stopped", 0)
    assert events(named, "server.crashed") == [] and events(named, "server.backoff") == []
    ring(named, WORKS)
    keep(named)
    assert token(named.session()) == SECRET


def test_without_a_keyring_the_file_is_used_and_system_is_an_error(named: Box) -> None:
    """
    T41
    """
    named.env["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
    named.trust["keyring"] = "auto"
    named.write()
    assert "secrets.json" in keep(named)
    named.up()
    assert token(named.session()) == SECRET
    found = {
        each["id"]: each for each in json.loads(named.ctl("doctor", "--json").stdout)["findings"]
    }
    assert found["secrets_file"]["severity"] == "warning"
    assert found["keyring_missing"]["severity"] == "note"
    named.trust["keyring"] = "system"
    named.write()
    named.peer().request("mcpd/reload", timeout=30.0)
    named.peer().request("mcpd/secret_changed", {"name": "gh"})
    error = refused(named.peer())
    assert error.kind == "spawn_failed" and error.data["reason"] == "keyring_unavailable"


def test_a_credential_of_systemd_comes_first(named: Box) -> None:
    folder = named.root / "credentials"
    folder.mkdir(mode=0o700)
    (folder / "gh").write_text("from systemd\n")
    keep(named)
    named.env["CREDENTIALS_DIRECTORY"] = str(folder)
    named.up()
    assert token(named.session()) == "from systemd"


@pytest.fixture
def headers() -> Iterator[tuple[str, list[str | None]]]:
    """The URL of a server that refuses everything, and the keys that it was sent."""
    seen: list[str | None] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.headers.get("X-Key"))
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/mcp", seen
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_remote_server_gets_its_secret_when_it_is_connected(
    named: Box, headers: tuple[str, list[str | None]]
) -> None:
    url, seen = headers
    named.servers["far"] = {"url": url, "headers": {"X-Key": "key ${keyring:far}"}}
    named.up()
    assert refused(named.peer(), "far").kind == "config_invalid" and seen == []
    keep(named, "for-it-alone", "far")
    refused(named.peer(), "far")
    assert seen and set(seen) == {"key for-it-alone"}
    keep(named, "two\nlines", "far")
    error = refused(named.peer(), "far")
    assert error.kind == "config_invalid" and "two" not in error.message
    assert set(seen) == {"key for-it-alone"}


def test_a_project_gets_a_secret_once_it_is_trusted(named: Box) -> None:
    """
    T44: its name is shown before, and it is part of what is trusted.
    """
    keep(named)
    named.up()
    folder = named.root / "shop"
    folder.mkdir()

    def offer(name: str) -> str:
        entry = {**named.servers["other"], "env": {"TOKEN": f"${{keyring:{name}}}"}}
        (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"mine": entry}}))
        found = json.loads(named.ctl("trust", folder, "--json").stdout)["entries"][0]
        assert found["keyring"] == [name]
        assert f"gets from you: keyring {name}" in found["shown"]
        return str(found["hash"])

    other, digest = offer("other"), offer("gh")
    assert other != digest
    done = named.ctl("trust", folder, "--hash", digest)
    assert done.returncode == 0, done.stderr
    assert token(named.session("mine", cwd=str(folder))) == SECRET
