"""Cases from the field: servers that package runners have to install first."""

from __future__ import annotations

import json
import time

import pytest

from tests.faults.ground import Watch, events, take_event
from tests.support.daemon import Box, Json, Peer, RpcError, is_alive
from tests.support.fakenpx import FakeNpx
from tests.support.waiting import scaled, wait_until

QUICK = {"backoff": 0.05, "backoff_max": 0.1}

BROKEN = """\
cat >&2 <<END
Error: Cannot find module 'zod'
Require stack:
- $home/_npx/15b07286cbcc3329/node_modules/@scope/server/dist/index.js
    at Function._resolveFilename (node:internal/modules/cjs/loader:1225:15)
    at Function._load (node:internal/modules/cjs/loader:1055:27)
    at TracingChannel.traceSync (node:diagnostics_channel:322:14)
    at wrapModuleLoad (node:internal/modules/cjs/loader:220:24)
    at Module.require (node:internal/modules/cjs/loader:1311:12)
    at require (node:internal/modules/helpers:136:16)
    at Object.<anonymous> ($home/_npx/15b07286cbcc3329/node_modules/x/dist/index.js:3:13)
    at Module._compile (node:internal/modules/cjs/loader:1554:14)
    at Object..js (node:internal/modules/cjs/loader:1706:10) {
  code: 'MODULE_NOT_FOUND'
}

Node.js v22.14.0
END
exit 1
"""

DIES_ONCE = """\
if [ ! -e "$home/died" ]; then
    : > "$home/died"
    head -n 1 > /dev/null
    exit 3
fi
"""

A_PERSON = """\
echo opened >> "$home/browser"
echo "Please authorize this client by visiting: https://login.example/" >&2
until [ -e "$home/consent" ]; do sleep 0.1; done
"""


@pytest.fixture
def npx(box: Box) -> FakeNpx:
    """A package runner for a box."""
    return FakeNpx(box)


def started(peer: Peer) -> list[tuple[str, str]]:
    """Return what has happened to servers so far: event and server."""
    last, told = peer.request("mcpd/events", {"since": 0})["seq"], list[Json]()
    while not told or told[-1]["seq"] < last:
        told.append(peer.take_notification("mcpd/event"))
    return [(one["event"], one["server"]) for one in told if "server" in one]


def test_an_installation_that_is_killed_gets_to_its_end_all_the_same(npx: FakeNpx):
    """
    B023: killed at its time, it began from nothing at each try, and never got there.
    """
    box = npx.box
    npx.package("big", takes=2.6)
    npx.fake("cold", "big", startup_timeout=1, stop_grace=0.1, start="eager", restart=QUICK)
    box.up()
    wait_until(lambda: box.status("cold").get("starting", {}).get("installing"))
    shown = box.ctl("status").stdout
    assert "starting (installing?) " in shown
    wait_until(lambda: box.status("cold")["state"] == "ready", 20)
    assert npx.journal("big") == ["begin", "begin", "begin", "installed"]
    with box.session("cold") as session, box.peer() as watcher:
        assert session.text("echo", text="at last") == "at last"
        events(watcher, "cold")
        said = [take_event(watcher, "server.crashed")["message"] for _ in range(2)]
    assert said[0] == "cold was not ready within 1 s; the next try gets 2 s"
    assert said[1] == "cold was not ready within 2 s; the next try gets 4 s"
    assert "starting" not in box.status("cold")


def test_a_person_who_starts_it_again_does_not_begin_from_the_shortest_time(npx: FakeNpx):
    """
    B023: and a change of its entry does, for then nothing is known.
    """
    box = npx.box
    npx.package("big", takes=60)
    npx.fake("cold", "big", startup_timeout=0.3, stop_grace=0.1, restart={"policy": "never"})
    box.up()
    said = []
    for command in ("start", "start", "restart"):
        with box.peer() as peer, pytest.raises(RpcError) as caught:
            peer.request(f"mcpd/{command}", {"servers": ["cold"]})
        said.append((caught.value.data["seconds"], caught.value.data["next_seconds"]))
    assert said == [(0.3, 0.6), (0.6, 1.2), (1.2, 2.4)]
    box.servers["cold"]["call_timeout"] = 7
    box.write()
    with box.peer() as peer:
        peer.request("mcpd/reload")
        with pytest.raises(RpcError) as caught:
            peer.request("mcpd/start", {"servers": ["cold"]})
    assert caught.value.data["seconds"] == 0.3


def test_a_session_that_comes_again_finds_what_the_last_one_learned(npx: FakeNpx):
    """
    B023: a server with a process for each session is a new place each time, and the same cache.
    """
    box = npx.box
    npx.package("big", takes=60)
    given = {"startup_timeout": 0.3, "stop_grace": 0.1, "restart": {"backoff": 60}}
    npx.fake("cold", "big", sharing="session", **given)
    box.up()
    said = []
    for _ in range(2):
        with box.session("cold", handshake=False) as session, pytest.raises(RpcError) as caught:
            session.initialize()
        said.append(caught.value.data["seconds"])
    assert said == [0.3, 0.6]


def test_what_a_runner_says_while_it_installs_is_no_silent_server(npx: FakeNpx):
    """
    B022: more than 3 s after a word on stderr, and more than half of its time, it is still at it.
    """
    box = npx.box
    npx.package("slow", takes=3.6)
    npx.fake("slow", "slow", startup_timeout=7, start="eager")
    box.up()
    watch = Watch()
    with box.session(None):
        assert watch.seconds < scaled(2), "a client's handshake waits for no server"
    with box.session("slow") as session:
        assert session.text("echo", text="there") == "there"
    assert npx.journal("slow") == ["begin", "installed"]
    assert box.status("slow")["generation"] == 1


def test_a_server_that_waits_for_a_person_is_started_once(npx: FakeNpx):
    """
    B138: each client and each time-out opened another tab, and spent the same token again.
    """
    box = npx.box
    npx.package("mcp-remote", script=A_PERSON)
    npx.fake("remote", "mcp-remote", startup_timeout=3600)
    box.up()
    with box.peer() as held:
        sessions = [box.session("remote", handshake=False) for _ in range(5)]
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
        asked = [session.start("initialize", params) for session in sessions]
        longest = 3.5  # more than what a silent server has
        wait_until(lambda: (box.status("remote").get("starting") or {}).get("for_s"))
        wait_until(lambda: box.status("remote")["starting"]["for_s"] > longest, 20)
        npx.file("consent").touch()
        for session, ident in zip(sessions, asked, strict=True):
            assert session.finish(ident)["serverInfo"]["name"] == "remote"
        assert ("server.ready", "remote") in started(held)
    assert npx.file("browser").read_text() == "opened\n"
    assert len(box.pids("remote")) == 1


def test_two_of_one_package_start_one_after_the_other_and_others_overtake(npx: FakeNpx):
    """
    B026: the caches of package runners are not safe for two at a time.
    """
    box = npx.box
    npx.package("same", takes=0.6)
    npx.package("other")
    npx.fake("first", "same", start="eager", startup_timeout=20)
    npx.fake("second", "same", "--start-delay", 0.1, start="eager", startup_timeout=20)
    npx.fake("third", "same", "--start-delay", 0.2, start="eager", startup_timeout=20)
    npx.fake("free", "other", start="eager", startup_timeout=20)
    box.settings["max_concurrent_starts"] = 2
    box.up()
    names = ("first", "second", "third", "free")
    wait_until(lambda: box.status("second").get("starting") is not None)
    wait_until(lambda: all(box.status(name)["state"] == "ready" for name in names), 20)
    with box.peer() as peer:
        told = [each for each in started(peer) if each[0] in ("server.starting", "server.ready")]
    alike = [each for each in told if each[1] != "free"]
    assert [event for event, _ in alike] == ["server.starting", "server.ready"] * 3
    assert told.index(("server.starting", "free")) < told.index(("server.ready", "first"))


def test_the_second_process_of_a_start_does_not_wait_for_its_own_package(npx: FakeNpx):
    """
    B026: a server that dies of the question for its era is started again, in the place it has.
    """
    box = npx.box
    npx.package("same", script=DIES_ONCE)
    npx.fake("first", "same", start="eager", startup_timeout=20)
    npx.fake("second", "same", "--start-delay", 0.01, start="eager", startup_timeout=20)
    box.settings["max_concurrent_starts"] = 1
    box.up()
    wait_until(lambda: all(box.status(name)["state"] == "ready" for name in ("first", "second")))
    with box.peer() as peer:
        told = [each for each in started(peer) if each[0] in ("server.starting", "server.ready")]
    assert told == [
        ("server.starting", "first"),
        ("server.starting", "first"),
        ("server.ready", "first"),
        ("server.starting", "second"),
        ("server.ready", "second"),
    ]


def test_the_place_of_one_that_fails_is_free_and_the_queue_costs_no_time(npx: FakeNpx):
    """
    B026: that a start waits for another's end is not its own time.
    """
    box = npx.box
    npx.package("same", takes=60)
    never = {"policy": "never"}
    npx.fake("fails", "same", startup_timeout=2, stop_grace=0.1, start="eager", restart=never)
    npx.fake("waits", "same", startup_timeout=1.5, stop_grace=0.1, start="eager", restart=never)
    box.up()
    wait_until(lambda: (box.status("waits").get("starting") or {"for_s": 0})["for_s"] is None)
    assert "starting (queued)" in box.ctl("status").stdout
    wait_until(lambda: box.status("fails")["state"] == "stopped", 20)
    npx.file("same.installed").touch()
    wait_until(lambda: npx.journal("same") == ["begin", "begin", "installed"], 20)
    wait_until(lambda: box.status("waits")["state"] in ("ready", "stopped"), 20)
    with box.peer() as peer:
        told = started(peer)
    assert ("server.crashed", "fails") in told
    assert told.index(("server.starting", "waits")) > told.index(("server.crashed", "fails"))


def test_who_waits_for_a_package_can_be_stopped_and_changed(npx: FakeNpx):
    """
    B026: with one place for all starts, and nothing may be stuck for ever.
    """
    box = npx.box
    npx.package("same", takes=60)
    npx.package("other")
    npx.fake("first", "same", start="eager", stop_grace=0.1)
    npx.fake("stopped", "same", "--start-delay", 0.1, start="eager")
    npx.fake("changed", "same", "--start-delay", 0.2, start="eager")
    npx.fake("removed", "same", "--start-delay", 0.3, start="eager")
    npx.fake("other", "other")
    box.settings["max_concurrent_starts"] = 2
    box.up()
    wait_until(lambda: npx.journal("same") == ["begin"])
    for name in ("stopped", "changed", "removed"):
        assert box.status(name)["starting"]["for_s"] is None
    with box.session("other") as session:
        assert session.text("echo", text="overtakes") == "overtakes"
    with box.peer() as peer:
        peer.request("mcpd/stop", {"servers": ["stopped"]})
        del box.servers["removed"]
        npx.fake("changed", "same", "--start-delay", 0.01, start="eager")
        box.write()
        peer.request("mcpd/reload")
        npx.file("same.installed").touch()
        peer.request("mcpd/restart", {"servers": ["first"]}, 30)
        wait_until(lambda: box.status("changed")["state"] == "ready", 20)
        told = started(peer)
    assert box.status("stopped")["state"] == "stopped"
    assert npx.journal("same") == ["begin", "begin", "installed", "begin", "installed"]
    assert [server for event, server in told if event == "server.starting"].count("changed") == 1


def test_a_broken_cache_is_named_and_left_as_it_is(npx: FakeNpx):
    """
    B028: it failed for ever and logged for ever; and to clear one cache cleared them all.
    """
    box = npx.box
    npx.package("broken", script=BROKEN)
    npx.fake("broken", "broken", restart={**QUICK, "max_failures": 3})
    cache = npx.home / "_npx" / "15b07286cbcc3329"
    (cache / "node_modules").mkdir(parents=True)
    box.up()
    asked = {"server": "broken", "tool": "echo"}
    with box.peer() as peer:
        wait_until(lambda: kind_of(peer, asked) == "crash_loop")
        with pytest.raises(RpcError) as caught:
            peer.request("mcpd/call", asked)
    assert caught.value.data["cache"] == str(cache)
    assert f"rm -r {cache} && mcpctl restart broken" in caught.value.data["hint"]
    assert str(cache) in box.status("broken")["last_error"]
    lines = len(box.log.read_text().splitlines())
    assert len(npx.journal("broken")) <= 3 * 2 * 2  # each of three starts may take two processes
    assert lines < 40
    with box.peer() as peer:
        for _ in range(50):
            assert kind_of(peer, asked) == "crash_loop"
    assert len(box.log.read_text().splitlines()) == lines
    assert (cache / "node_modules").is_dir()


def kind_of(peer: Peer, asked: dict[str, object]) -> str | None:
    """Call a tool; return the kind of error that comes of it."""
    with pytest.raises(RpcError) as caught:
        peer.request("mcpd/call", asked)
    return caught.value.kind


def test_many_cold_starts_take_turns_and_all_of_them_succeed(box: Box):
    """
    B026: of a hundred at once most ran out of time, for each had a hundredth of the machine.
    """
    starts = box.root / "starts"
    names = [f"s{number}" for number in range(30)]
    for name in names:
        box.fake(name, start="eager", startup_timeout=10, era="legacy")
        launch = box.servers[name]
        burn = f"echo begin >> {starts}; i=0; while [ $$i -lt 20000 ]; do i=$((i+1)); done"
        launch["args"] = ["-c", f'{burn}; exec "$@"', "sh", launch["command"], *launch["args"]]
        launch["command"] = "sh"
    box.settings["max_concurrent_starts"] = 3
    box.up()
    with box.peer() as watcher:
        watcher.request("mcpd/events", {"since": 0})
        starting, most, ready = 0, 0, 0
        while ready < len(names):
            event = watcher.take_notification("mcpd/event", 60.0)
            assert event["event"] != "server.crashed", json.dumps(event)
            starting += (event["event"] == "server.starting") - (event["event"] == "server.ready")
            ready += event["event"] == "server.ready"
            most = max(most, starting)
    assert most == 3
    assert starts.read_text() == "begin\n" * len(names)


def test_a_stop_of_what_installs_ends_the_installer(npx: FakeNpx):
    """
    B023: the time that a start has got longer is no time that a stop has to wait.
    """
    box = npx.box
    npx.package("big", takes=60)
    npx.fake("cold", "big", startup_timeout=600, stop_grace=0.2, start="eager")
    box.up()
    wait_until(lambda: npx.journal("big") == ["begin"])
    (pid, *rest) = box.status("cold")["pids"]
    began = time.monotonic()
    with box.peer() as peer:
        peer.request("mcpd/stop", {"servers": ["cold"]})
    assert time.monotonic() - began < scaled(3)
    assert not any(map(is_alive, (pid, *rest)))
