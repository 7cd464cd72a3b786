"""What is said of servers, from their status."""

from __future__ import annotations

from typing import Any

import pytest

from mcpd.doctor.check.servers import check
from mcpd.doctor.facts import Talk
from mcpd.doctor.finding import Finding

READY = {
    "name": "s", "state": "ready", "held": False, "sharing": "shared", "sharing_reason": None,
    "restarts": 0, "last_error": None, "last_error_at": None, "last_error_kind": None,
    "noise": 0, "noise_reason": None, "stopped_pids": [], "silent_s": None,
}  # fmt: skip


def findings(
    said: tuple[str, ...] = (), explained: tuple[str, ...] = (), **status: Any
) -> dict[str, Finding]:
    config = {"startup_timeout": 30.0}
    talk = Talk(
        status={"servers": [{**READY, **status}]},
        listed={"servers": [{"name": "s", "config": config}]},
        said={"s": list(said)},
    )
    return {each.id: each for each in check(talk, explained)}


def failed(kind: str, text: str = "s exited with status 3", **more: Any) -> dict[str, Finding]:
    return findings(state="failed", last_error=text, last_error_kind=kind, **more)


def test_a_server_that_is_ready_is_in_order() -> None:
    assert [each.severity for each in findings().values()] == ["ok"]


def test_one_that_sleeps_is_not_worth_a_word() -> None:
    assert findings(state="stopped") == {}


def test_a_failure_is_told_with_its_reason_its_time_and_its_last_words() -> None:
    found = failed(
        "server_crashed",
        last_error_at="2026-01-02T03:04:05.678Z",
        said=("error: no such flag", "usage: …", ""),
    )["server_failed"]
    assert found.severity == "error"
    assert found.message.startswith("exited with status 3, 2026-01-0")
    assert "(its last words: error: no such flag)" in found.message
    assert found.remedy == "see mcpctl logs s; when it is mended: mcpctl restart s"


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("startup_timeout", "startup_timeout = 60"),
        ("handshake_failed", "does it speak MCP over stdio?"),
        ("spawn_failed", "correct its command"),
    ],
)
def test_the_remedy_is_of_the_kind_of_failure(kind: str, remedy: str) -> None:
    assert remedy in str(failed(kind)["server_failed"].remedy)


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("connect_failed", "check its url, the network and the proxy"),
        ("unauthorized", "correct `auth` or `headers` of its entry, then: mcpctl reload"),
        ("handshake_failed", "does its url lead to an MCP endpoint?"),
    ],
)
def test_the_remedy_for_a_remote_server_is_about_its_entry(kind: str, remedy: str) -> None:
    found = failed(kind, url="https://x.example/mcp")["server_failed"]
    assert remedy in str(found.remedy)
    assert "stdio" not in str(found.remedy)


def test_without_a_complaint_the_last_words_are_the_last_line() -> None:
    found = failed("server_crashed", said=("one", "x" * 200))["server_failed"]
    assert f"(its last words: {'x' * 160}…)" in found.message
    assert "last words" not in failed("server_crashed")["server_failed"].message


def test_what_was_explained_is_not_told_twice() -> None:
    assert failed("spawn_failed", explained=("s",)) == {}
    assert "server_failed" in failed("server_crashed", explained=("s",))
    wrong = {"state": "misconfigured", "last_error": "x"}
    assert findings(explained=("s",), **wrong) == {}
    assert "server_misconfigured" in findings(**wrong)


def test_the_name_of_a_server_is_said_once():
    found = findings(state="backoff", last_error="s: no connection to h: connection refused")
    assert found["server_backoff"].message.startswith("no connection to h")


def test_a_server_that_waits_for_its_next_start_is_a_warning() -> None:
    found = findings(state="backoff", last_error="s was killed by SIGSEGV")["server_backoff"]
    assert found.severity == "warning" and "killed by SIGSEGV" in found.message


def test_a_package_that_is_half_installed_is_told_with_its_directory() -> None:
    """
    B028: it fails for ever, and nobody knows what to remove.
    """
    said = ("Error: Cannot find module '/h/.npm/_npx/0a1b2c/node_modules/x/index.js'", "at …")
    found = failed("server_crashed", said=said)["runner_cache_broken"]
    assert found.remedy == "rm -r /h/.npm/_npx/0a1b2c, then: mcpctl restart s"
    assert "runner_cache_broken" not in failed("server_crashed", said=("in /h/.npm/_npx/0a1b2c",))


def test_a_stopped_process_is_told_with_how_it_goes_on() -> None:
    """
    B055: nothing ended, so nothing is started again by itself.
    """
    found = findings(stopped_pids=[7, 8])["server_unresponsive"]
    assert (found.severity, found.remedy) == ("error", "kill -CONT 7 8; or: mcpctl restart s")


@pytest.mark.parametrize(("silent_s", "is_told"), [(None, False), (29.0, False), (45.0, True)])
def test_silence_is_a_warning_after_a_time(silent_s: float | None, is_told: bool) -> None:
    assert ("server_silent" in findings(silent_s=silent_s)) == is_told


@pytest.mark.parametrize(
    ("kind", "limit_s", "longest", "is_told"),
    [
        ("startup_timeout", 12.0, 300.0, True),
        ("startup_timeout", 6.0, 6.0, True),
        ("startup_timeout", 6.0, 300.0, False),  # of another day: it has been ready since
        ("server_crashed", 12.0, 300.0, False),
        (None, 6.0, 300.0, False),
    ],
)
def test_a_start_after_one_that_took_too_long_is_a_warning(
    kind: str | None, limit_s: float, longest: float, is_told: bool
) -> None:
    """
    B022: between two tries it is no failure yet, and nobody says how much time it needs.
    """
    server = {
        **READY, "state": "starting", "last_error": "s was not ready within 6 s",
        "last_error_kind": kind, "starting": {"for_s": 1, "limit_s": limit_s, "installing": False},
    }  # fmt: skip
    config = {"startup_timeout": 6.0, "startup_timeout_max": longest}
    talk = Talk(status={"servers": [server]}, listed={"servers": [{"name": "s", "config": config}]})
    found = {each.id: each for each in check(talk, ())}
    assert ("server_slow_start" in found) == is_told
    if is_told:
        slow = found["server_slow_start"]
        assert slow.message.startswith("was not ready within 6 s; it is being started again")
        assert "startup_timeout = 12" in str(slow.remedy)


def test_silence_at_a_start_is_about_no_call() -> None:
    starting = {"for_s": 40, "limit_s": 60, "installing": False}
    silent = findings(state="starting", silent_s=40.0, starting=starting)["server_silent"]
    assert "call" not in str(silent.remedy) and "mcpctl logs s" in str(silent.remedy)


@pytest.mark.parametrize(
    ("state", "is_told"), [("stopped", True), ("disabled", False), ("misconfigured", False)]
)
def test_what_cannot_start_is_not_to_be_started(state: str, is_told: bool) -> None:
    assert ("server_held" in findings(state=state, held=True)) == is_told


def test_noise_is_a_warning_and_the_wrong_protocol_an_error() -> None:
    noisy = findings(noise=3, noise_reason="not JSON-RPC")["server_noise"]
    assert noisy.severity == "warning" and "3 lines" in noisy.message
    reason = "Content-Length framing (LSP): MCP over stdio is one JSON message per line"
    assert findings(noise=3, noise_reason=reason)["server_speaks_lsp"].severity == "error"


def test_many_restarts_are_a_warning() -> None:
    assert "server_restarts" not in findings(restarts=2)
    found = findings(restarts=3, last_error="s was killed by SIGKILL")["server_restarts"]
    assert "3 times" in found.message and "SIGKILL" in found.message


def test_what_is_good_to_know_is_a_note() -> None:
    found = findings(state="stopped", held=True, sharing="session", sharing_reason="it keeps state")
    assert {each.severity for each in found.values()} == {"note"}
    assert found["server_held"].remedy == "mcpctl start s"
    assert "it keeps state" in found["server_sharing"].message


def test_an_older_daemon_tells_less() -> None:
    """
    B120: its status lacks what came later.
    """
    kept = ("name", "state", "held", "sharing", "sharing_reason", "restarts", "last_error")
    old = {key: READY[key] for key in kept}
    assert [e.id for e in check(Talk(status={"servers": [old]}), ())] == ["server"]
    assert list(check(Talk(), ())) == []
