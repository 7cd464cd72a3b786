"""Every fact has its words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from mcpd.core import facts
from mcpd.core.facts import Fact, Failure
from mcpd.ids import SessionId, SlotId
from mcpd.logfiles.daemonlog import DaemonLog
from mcpd.observe.journal import Journal
from mcpd.observe.observer import Observer
from mcpd.observe.pipeline import Pipeline

SLOT = SlotId("slot")
CRASH = Failure("server_crashed", "x exited with status 7 hunter22", details={"exit_code": 7})


class Seen:
    """An observer and where its words go."""

    def __init__(self, fd: int) -> None:
        self.log = DaemonLog(fd)
        pipeline = Pipeline(self.log, level="debug")
        pipeline.load()
        self.journal = Journal()
        self.notes: list[tuple[str, str, str]] = []
        self.observer = Observer(
            pipeline.logger,
            self.journal,
            lambda *note: self.notes.append(note),
            lambda _server, text: text.replace("hunter22", "***"),
        )

    def report(self, fact: Fact) -> tuple[list[str], list[dict[str, Any]]]:
        self.observer.report(fact)
        return [line.text for line in self.log.tail(9)], self.journal.since(0)


@pytest.fixture
def seen() -> Iterator[Seen]:
    null = os.open(os.devnull, os.O_WRONLY)
    yield Seen(null)
    os.close(null)


@pytest.mark.parametrize(
    ("fact", "event", "members"),
    [
        (facts.ServerStarting("x", SLOT, 3), "server.starting", {"generation": 3}),
        (
            facts.ServerReady("x", SLOT, 3, 99, 0.25, "legacy", "2025-11-25"),
            "server.ready",
            {"pid": 99, "duration_s": 0.25},
        ),
        (facts.ServerCrashed("x", SLOT, 3, CRASH), "server.crashed", {"exit_code": 7}),
        (facts.ServerBackoff("x", SLOT, 0.5, 2), "server.backoff", {"delay_s": 0.5, "failures": 2}),
        (facts.ServerFailed("x", SLOT, CRASH), "server.failed", {"kind": "server_crashed"}),
        (facts.ServerStopping("x", SLOT, "idle"), "server.stopping", {"reason": "idle"}),
        (
            facts.ServerOverMemory("x", SLOT, 300, 200, True),
            "server.over_memory",
            {"memory_bytes": 300, "limit_bytes": 200, "then": "restarted when idle"},
        ),
        (facts.ServerStopped("x", SLOT, "idle", "eof"), "server.stopped", {"step": "eof"}),
        (facts.CatalogChanged("x", "tools", 4), "server.catalog_changed", {"count": 4}),
        (facts.ServerNoise("x", "junk", "hi", True), "server.noise", {"text": "hi"}),
        (facts.ServerWarning("x", "odd"), "server.warning", {"text": "odd"}),
        (facts.SessionOpened(SessionId(4), "x", "ed"), "session.opened", {"client": "ed"}),
        (facts.SessionClosed(SessionId(4), "x", "gone"), "session.closed", {"reason": "gone"}),
    ],
)
def test_a_fact_is_an_event_and_a_line(
    seen: Seen, fact: Fact, event: str, members: dict[str, Any]
) -> None:
    lines, events = seen.report(fact)
    assert [each["event"] for each in events] == [event]
    assert {name: events[0][name] for name in members} == members
    assert events[0]["server"] == "x"
    assert event in lines[0]


def test_secrets_are_in_none_of_them(seen: Seen) -> None:
    """
    B139.
    """
    for fact in (
        facts.ServerCrashed("x", SLOT, 3, CRASH),
        facts.ServerFailed("x", SLOT, CRASH),
        facts.ServerNoise("x", "junk", "token hunter22", True),
        facts.ServerWarning("x", "token hunter22"),
    ):
        lines, events = seen.report(fact)
        assert "hunter22" not in str(lines) + str(events)


def test_noise_is_told_once_and_kept_always(seen: Seen) -> None:
    """
    B062: a banner of many lines is one line of the log.
    """
    seen.report(facts.ServerNoise("x", "junk", "one", True))
    seen.report(facts.ServerNoise("x", "junk", "two", False))
    assert len(seen.journal.since(0)) == len(seen.log.tail(9)) == 1
    assert [note for note in seen.notes if note[1] == "stdout"] == [
        ("x", "stdout", "one"),
        ("x", "stdout", "two"),
    ]


def test_a_rejected_frame_is_a_line_for_whoever_looks_closely(seen: Seen) -> None:
    lines, events = seen.report(facts.FrameRejected(SessionId(3), "not JSON"))
    assert "frame.rejected" in lines[0]
    assert events == []


def test_what_was_too_much_is_counted(seen: Seen) -> None:
    lines, events = seen.report(facts.FactsOmitted("ServerNoise", 980, server="x"))
    assert "server.flooded" in lines[0] and "980" in lines[0]
    assert seen.notes[-1][2] == "980 more lines on its stdout that are no messages within a second"
    assert events == []
    lines, _ = seen.report(facts.FactsOmitted("FrameRejected", 3, session=SessionId(3)))
    assert "session.flooded" in lines[1] and "session=3" in lines[1]


def test_a_stray_is_a_line(seen: Seen) -> None:
    lines, _ = seen.report(facts.StrayEnded(42))
    assert "pid=42" in lines[0]


def test_a_log_message_for_nobody_is_in_the_servers_log(seen: Seen) -> None:
    seen.report(facts.ServerLogged("x", "warning", "hm"))
    assert seen.notes == [("x", "mcpd", "log message, warning: hm")]
