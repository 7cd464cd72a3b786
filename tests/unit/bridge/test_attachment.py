"""A connection that is attached to an endpoint, and the one question asked beside it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading

import pytest

from mcpd.bridge import attachment
from mcpd.bridge.arguments import Arguments, parse
from mcpd.daemon_start import deadline
from mcpd.errors import DaemonUnavailable

HELLO = {"version": "1", "pid": 7, "api": 1, "uptime_s": 1}


class Other:
    """The daemon's end of a connection: greets, answers what comes next, then goes on."""

    def __init__(self, *answers: bytes, hello: object = HELLO) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.got = b""
        self._hello = answer(result=hello) if isinstance(hello, dict) else hello
        self._answers = answers
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.ours.close()
        self._thread.join(5)
        self.theirs.close()

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # our end may be closed before all is said
            self._speak()

    def _speak(self) -> None:
        self._read()
        self.theirs.sendall(self._hello)
        if self._read():
            for said in self._answers:
                self.theirs.sendall(said)
            if not self._answers:
                self.theirs.shutdown(socket.SHUT_RDWR)

    def _read(self) -> bool:
        self.got = b""
        while not self.got.endswith(b"\n"):
            chunk = self.theirs.recv(65536)
            if not chunk:
                return False
            self.got += chunk
        return True


def answer(**members) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "mcpctl", **members}).encode() + b"\n"


def attach(connection: socket.socket, asked: Arguments) -> attachment.Attachment:
    return attachment.attach(connection, asked, lambda text: None)


ATTACHED = answer(result={"session": 3, "server": "files"})


def test_attach_says_who_asks_from_where_and_gives_up_control(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Other(ATTACHED) as other:
        assert attach(other.ours, parse(["files"])).server == "files"
    message = json.loads(other.got)
    assert message["method"] == "mcpd/attach"
    params = message["params"]
    assert params["client"].keys() == {"name", "version", "pid"}
    assert params["client"]["pid"] == os.getpid()
    assert params | {"client": 0} == {
        "client": 0,
        "cwd": str(tmp_path),
        "control": False,
        "farewell": True,
        "server": "files",
    }


def test_the_aggregate_has_no_name():
    with Other(answer(result={"session": 3, "server": None})) as other:
        assert attach(other.ours, parse([])).server is None
    assert "server" not in json.loads(other.got)["params"]


def test_an_ad_hoc_command_brings_its_own_environment(tmp_path, monkeypatch):
    """
    Without what tells terminals apart: two terminals are to share one server.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKEN", "$HOME")
    monkeypatch.setenv("TERM_SESSION_ID", "w1")
    monkeypatch.setenv("MCPD_INSTANCE", "a:b:1")
    monkeypatch.setenv("LATIN1", "\udce9")
    with Other(ATTACHED) as other:
        attach(other.ours, parse(["--", "sh", "-c", "$x"]))
    params = json.loads(other.got)["params"]
    command = params["command"]
    assert (command["command"], command["args"]) == ("sh", ["-c", "$x"])
    assert command["cwd"] == params["cwd"] == str(tmp_path)
    assert command["inherit_env"] == "none"
    assert command["env"]["TOKEN"] == "$HOME"
    assert command["env"].keys().isdisjoint({"TERM_SESSION_ID", "MCPD_INSTANCE", "LATIN1"})
    assert "server" not in params


def test_a_directory_that_was_removed_is_not_sent(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with Other(ATTACHED) as other:
        attach(other.ours, parse(["files"]))
    monkeypatch.chdir(tmp_path)
    assert "cwd" not in json.loads(other.got)["params"]


def test_nothing_beyond_the_answer_is_read():
    """
    What follows is the session's, whatever chunk it came in.
    """
    with Other(ATTACHED + b'{"jsonrpc":"2.0","method":"x"}\n{"half') as other:
        attach(other.ours, parse([]))
        assert other.ours.recv(100) == b'{"jsonrpc":"2.0","method":"x"}\n{"half'


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("server_not_found", 4),
        ("server_disabled", 4),
        ("config_invalid", 4),
        ("spawn_failed", 4),
        ("draining", 3),
        ("invalid_arguments", 2),
        ("denied", 6),
        ("rate_limited", 6),
        ("internal", 70),
        ("unheard_of", 4),
    ],
)
def test_a_refusal_has_its_message_hint_and_exit_status(kind, status):
    data = {"kind": kind, "retryable": False, "hint": "do this"}
    error = {"code": -32602, "message": "no such server: nope", "data": data}
    with (
        Other(answer(error=error)) as other,
        pytest.raises(attachment.Refused, match="no such server: nope") as refused,
    ):
        attach(other.ours, parse(["nope"]))
    assert (refused.value.status, refused.value.hint) == (status, "do this")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([], "gone"),
        ([b"HTTP/1.1 400 Bad Request\n"], "incompatible"),
        ([b"\xff\n"], "incompatible"),
    ],
)
def test_a_daemon_that_hangs_up_or_is_none_is_unavailable(said, why):
    with Other(*said) as other, pytest.raises(DaemonUnavailable) as error:
        attach(other.ours, parse([]))
    assert error.value.details["why"] == why


@pytest.mark.parametrize("said", [b"[]\n", b"7\n", b"{}\n", b'{"result":[]}\n', b'{"error":3}\n'])
def test_an_answer_of_another_form_is_a_refusal(said):
    with Other(said) as other, pytest.raises(attachment.Refused):
        attach(other.ours, parse([]))


def test_a_daemon_that_says_nothing_is_named_by_its_pid(monkeypatch):
    monkeypatch.setattr(deadline, "ANSWER_TIMEOUT_S", 0.05)
    with (
        Other(hello=b'{"jsonrpc":') as other,
        pytest.raises(DaemonUnavailable, match=rf"unresponsive, pid {os.getpid()}:") as error,
    ):
        attach(other.ours, parse([]))
    assert error.value.details["why"] == "unresponsive"


def test_a_daemon_that_says_nothing_yet_is_told_of_once(monkeypatch):
    """
    It may still load, so it is waited for; a person learns of it before that is over.
    """
    monkeypatch.setattr(deadline, "ANSWER_TIMEOUT_S", 0.3)
    monkeypatch.setattr(attachment, "SILENCE_S", 0.01)
    told: list[str] = []
    with Other(hello=b"") as other:
        other.ours.settimeout(0.02)  # as it is after connecting: that time is over
        with pytest.raises(DaemonUnavailable) as error:
            attachment.attach(other.ours, parse([]), told.append)
    assert error.value.details["why"] == "unresponsive"
    assert told == [f"the daemon (pid {os.getpid()}) does not respond yet: waiting"]


@pytest.mark.parametrize("api", [0, 2, "1", None, True])
def test_a_daemon_of_another_protocol_is_not_attached_to(api):
    """
    B120: it is told what to do, and goes on for those who understand it.
    """
    with (
        Other(ATTACHED, hello={"version": "9", "pid": 7, "api": api}) as other,
        pytest.raises(DaemonUnavailable) as error,
    ):
        attach(other.ours, parse([]))
    assert error.value.details["why"] == "incompatible"
    assert "mcpctl restart --daemon" in str(error.value.hint)
    assert b"attach" not in other.got


def test_a_daemon_of_another_release_is_attached_to():
    with Other(ATTACHED, hello={"version": "99.1", "pid": 7, "api": 1, "new": {}}) as other:
        assert attach(other.ours, parse([])).hello["version"] == "99.1"


def test_attaching_waits_for_nothing():
    """
    A client is served, and noticed to be gone, while a daemon takes its time.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        attaching = attachment.Attachment(ours, parse(["files"]))
        assert not attaching.step()
        assert b"mcpd/hello" in theirs.recv(65536)
        theirs.sendall(answer(result=HELLO)[:20])
        assert not attaching.step()
        theirs.sendall(answer(result=HELLO)[20:])
        assert not attaching.step()
        assert b"mcpd/attach" in theirs.recv(65536)
        theirs.sendall(ATTACHED + b"more")
        assert attaching.step()
        assert ours.recv(100) == b"more"


def test_a_command_with_a_large_environment_is_sent_whole(monkeypatch):
    """
    Larger than a socket takes at once.
    """
    monkeypatch.setenv("LARGE", "x" * 100_000)
    for number in range(20):
        monkeypatch.setenv(f"LARGE_{number}", "x" * 100_000)
    with Other(ATTACHED) as other:
        attach(other.ours, parse(["--", "sh"]))
    assert len(json.loads(other.got)["params"]["command"]["env"]["LARGE_19"]) == 100_000
