"""The connection to the daemon: made anew whenever it is lost, in steps that do not wait."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator

import pytest

from mcpd.bridge import attachment
from mcpd.bridge import link as links
from mcpd.bridge.arguments import parse
from mcpd.bridge.link import Link
from mcpd.errors import DaemonUnavailable


@pytest.fixture
def error(monkeypatch: pytest.MonkeyPatch) -> list[DaemonUnavailable | OSError]:
    """What ``connect`` raises, the last for ever."""
    raised: list[DaemonUnavailable | OSError] = []

    def connect(_path: str, _timeout: float) -> socket.socket:
        raise raised[0] if len(raised) == 1 else raised.pop(0)

    monkeypatch.setattr(links, "connect", connect)
    return raised


@pytest.fixture
def link() -> Iterator[Link]:
    """A link that was attached, and may start no daemon."""
    ours, theirs = socket.socketpair()
    with theirs:
        asked = parse(["files", "--no-start"])
        made = Link("/nowhere/mcpd.sock", asked, ours, attachment.Attachment(ours, asked))
        made.resumed(0.0)
        yield made
        made.close()


def unavailable(why: str) -> DaemonUnavailable:
    return DaemonUnavailable(f"it is {why}", hint="do this", why=why)


def delays(link: Link, count: int) -> list[float]:
    """Return the time from each of so many tries to the next."""
    found, now = [], link.next_at()
    for _ in range(count):
        assert not link.advance(now)
        found.append(link.next_at() - now)
        now = link.next_at()
    return found


def test_the_first_try_comes_at_once_and_later_ones_every_few_seconds(link, error):
    """
    B053: a backoff that grows absurdly is a session that is lost.
    """
    error.append(unavailable("absent"))
    link.lost(100.0)
    assert 100.0 <= link.next_at() <= 100.0 + links.FIRST_DELAY_S
    waited = delays(link, 200)
    assert max(waited) <= links.LONGEST_DELAY_S
    assert max(waited[20:]) > links.LONGEST_DELAY_S / 2
    assert len(set(waited)) > 150, "twenty bridges must not come all at once"


def test_a_session_that_lasted_is_no_reason_to_be_slow(link, error):
    error.append(unavailable("absent"))
    link.lost(100.0)
    delays(link, 20)
    link.resumed(200.0)
    link.lost(200.0 + links.STEADY_S)
    assert link.next_at() <= 200.0 + links.STEADY_S + links.FIRST_DELAY_S


@pytest.mark.parametrize(
    ("why", "is_firm"),
    [
        ("absent", False),
        ("refused", False),
        ("gone", False),
        ("unresponsive", False),
        ("start_timeout", False),
        ("start_failed", True),
        ("not_ours", True),
        ("exposed", True),
        ("unusable", True),
        ("incompatible", True),
    ],
)
def test_what_waiting_does_not_mend_is_said_at_once(link, error, why, is_firm):
    error.append(unavailable(why))
    link.lost(100.0)
    assert not link.advance(200.0)
    assert link.obstacle.is_firm is is_firm
    assert link.obstacle.text() == f"it is {why}\n  do this"
    assert link.obstacle.error["data"] == {
        "kind": "no_daemon",
        "retryable": why == "start_failed" or not is_firm,
        "hint": "do this",
    }
    assert link.is_incompatible is (why == "incompatible")


def test_no_descriptor_or_process_just_now_is_an_obstacle_like_others(link, error):
    error.append(OSError(24, "Too many open files"))
    link.lost(100.0)
    assert not link.advance(200.0)
    assert link.obstacle.text() == "cannot reach a daemon: Too many open files"
    assert link.next_at() < 300.0


def test_requests_wait_from_when_the_session_was_lost(link, error):
    error.append(unavailable("absent"))
    assert link.answer_at() == math.inf
    link.lost(100.0)
    delays(link, 5)
    assert link.answer_at() == 100.0 + links.QUEUE_TIMEOUT_S
    link.resumed(150.0)
    assert link.answer_at() == math.inf


def test_a_refusal_is_told_as_the_daemon_said_it(link):
    error = {"code": -32602, "message": "no server is called files", "data": {"kind": "x"}}
    link.refused(error, 100.0)
    assert link.obstacle.error is error
    assert link.obstacle.is_firm
    assert not link.is_attached
    assert link.next_at() <= 100.0 + links.FIRST_DELAY_S
