"""Calls that somebody is asked about, with processes, terminals and a disk."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.daemon import Box, RpcError, binary
from tests.support.waiting import scaled, wait_until


class Terminal:
    """A command of mcpctl on a terminal of its own."""

    def __init__(self, box: Box, *args: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(binary("mcpctl"), ["mcpctl", *args], box.env | {"TERM": "xterm"})
        self.shown = ""
        self._seen = 0

    def wait(self, text: str) -> str:
        """Return all that is shown once ``text`` is, after what was waited for before."""
        end = time.monotonic() + scaled(15)
        while text not in self.shown[self._seen :]:
            ready, _, _ = select.select([self.fd], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"no {text!r} in {self.shown!r}"
            self.shown += self._read()
        self._seen = self.shown.index(text, self._seen) + len(text)
        return self.shown

    def _read(self) -> str:
        try:
            return os.read(self.fd, 65536).decode()
        except OSError:  # the other end is closed
            return ""

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self.fd, keys.encode())

    def end(self) -> int:
        """Wait for the end of the command, and return its exit status."""
        end = time.monotonic() + scaled(15)
        while select.select([self.fd], [], [], max(0.0, end - time.monotonic()))[0]:
            if not (text := self._read()):
                break
            self.shown += text
        else:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


@contextmanager
def calling(box: Box, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run ``mcpctl call`` without a terminal."""
    argv = [binary("mcpctl"), "call", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(argv, env=box.env, stdin=subprocess.DEVNULL, text=True, **pipes) as call:
        try:
            yield call
        finally:
            call.kill()


def ids(box: Box) -> list[str]:
    return [each["id"] for each in json.loads(box.ctl("approvals", "--json").stdout)["open"]]


def required(box: Box, *words: str) -> str:
    """Return the id of the question about a call that nobody could be asked about."""
    done = box.ctl("call", *words, "--json")
    assert done.returncode == 6
    data = json.loads(done.stdout)["error"]["data"]
    assert data["kind"] == "approval_required"
    ident: str = data["approval"]
    return ident


def test_a_call_on_a_terminal_is_asked_about_there(box: Box) -> None:
    box.fake(approval="ask").up()
    call = Terminal(box, "call", "fake", "echo", "text=\x1b]0;sesame")
    shown = call.wait("n no")
    assert "echo" in shown and "⟨U+001B⟩]0;sesame" in shown and "\x1b]0" not in shown
    assert not box.messages(method="tools/call")
    call.type("y")
    assert call.end() == 0 and "sesame" in call.shown
    no = Terminal(box, "call", "fake", "echo", "text=x")
    no.wait("n no")
    no.type("n")
    assert no.end() == 6 and "A person refused this" in no.shown


def test_a_watcher_answers_by_key(box: Box) -> None:
    """
    What was typed before the question was drawn does not count.
    """
    box.fake(approval="ask").up()
    watch = Terminal(box, "approvals", "-w")
    watch.wait("q ends this")
    watch.type("yyy")
    with calling(box, "fake", "echo", "text=sesame") as call:
        watch.wait("v view")
        wait_until(lambda: ids(box) == ["a1"])
        assert call.poll() is None
        watch.type("v")
        watch.wait("the tool, as its server lists it")
        watch.wait("v view")  # it is drawn again; a key that came before is not for it
        watch.type("y")
        assert call.communicate(timeout=scaled(15))[0].strip() == "sesame"
    watch.wait("it runs now")
    watch.type("q")
    assert watch.end() == 0


def test_always_outlives_the_daemon(box: Box) -> None:
    box.fake(approval="ask").up()
    done = box.ctl("approve", required(box, "fake", "pid"), "--always")
    assert done.returncode == 0 and "the next such call runs" in done.stdout
    assert box.daemon is not None
    box.daemon.send_signal(signal.SIGKILL)
    box.daemon.wait()
    box.up()
    assert box.ctl("call", "fake", "pid").returncode == 0
    (rule,) = json.loads(box.ctl("approvals", "rules", "--json").stdout)["rules"]
    assert (rule["server"], rule["tool"], rule["uses"]) == ("fake", "pid", 1)
    assert rule["by"] == "control (mcpctl)"
    assert "1 answer forgotten" in box.ctl("approvals", "forget", "fake.pid").stdout
    required(box, "fake", "pid")


def test_damaged_rules_are_said_and_remember_nothing(box: Box) -> None:
    (box.state / "trust").mkdir(mode=0o700)
    path = box.state / "trust" / "rules.json"
    path.write_text("{")
    path.chmod(0o600)
    box.fake(approval="ask").up()
    required(box, "fake", "pid")
    (problem,) = box.peer().request("mcpd/status")["daemon"]["problems"]
    assert "cannot be read" in problem


def test_who_asks_does_not_answer(box: Box) -> None:
    """
    Neither the client of a bridge, which is its parent, nor what it starts.
    """
    box.fake(approval="ask").up()
    session = box.session()
    with pytest.raises(RpcError) as refused:
        session.call("pid")
    ident = refused.value.data["approval"]
    done = box.ctl("approve", ident)
    assert done.returncode == 6 and "another terminal" in done.stderr
    assert ids(box) == [ident]


def test_a_client_with_half_a_name_does_not_answer(box: Box) -> None:
    """
    What cannot be recorded as it is keeps nobody from knowing who has asked.
    """
    box.fake(approval="ask").up()
    session = box.session(handshake=False)
    session.initialize(name="agent\ud800")
    with pytest.raises(RpcError) as refused:
        session.call("pid")
    ident = refused.value.data["approval"]
    assert box.ctl("approve", ident).returncode == 6
    events = json.loads(box.ctl("audit", "events", "--json").stdout)["events"]
    assert [each for each in events if each["what"] == "approval.asked"]


def test_a_command_below_a_client_is_that_clients(box: Box) -> None:
    """
    An agent with a shell would call with one command, and approve that with the next.
    """
    box.fake(approval="ask").up()
    session = box.session()
    assert box.ctl("approve", required(box, "fake", "pid")).returncode == 6
    call = Terminal(box, "call", "fake", "echo", "text=x", "--timeout", "3")
    call.wait("n no")
    call.type("y")
    call.wait("another terminal")
    assert call.end() == 5
    session.close()
    wait_until(lambda: box.peer().request("mcpd/status")["daemon"]["sessions"] == 0)
    assert box.ctl("approve", required(box, "fake", "echo", "text=y")).returncode == 0


@pytest.mark.parametrize(
    "words", [["approve", "x"], ["approve", "a1", "--server"], ["approvals", "forget"]]
)
def test_wrong_words_are_wrong_usage(box: Box, words: list[str]) -> None:
    box.fake().up()
    assert box.ctl(*words).returncode == 2


def test_what_is_over_or_was_never_asked_is_said(box: Box) -> None:
    box.fake(approval="ask").up()
    ident = required(box, "fake", "pid")
    assert box.ctl("deny", ident).returncode == 0 == box.ctl("deny", ident).returncode
    done = box.ctl("approve", ident)
    assert done.returncode == 1 and "is over" in done.stderr
    assert (
        box.ctl("approve", "a99").returncode == 1 == box.ctl("approvals", "show", "a99").returncode
    )
    assert "nothing is asked" in box.ctl("approvals").stdout
