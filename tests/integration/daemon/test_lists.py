"""Lists of a real daemon's servers: what starts one uses what it lists, and they are not for ever."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Box, Peer
from tests.support.waiting import wait_until

PROGRAM = Path(__file__).parents[2] / "support" / "listserver.py"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def serve(box: Box, name: str, *flags: object, **entry: Any) -> None:
    args = [str(PROGRAM), "--journal", str(box.root / f"{name}.journal"), *map(str, flags)]
    box.servers[name] = {"command": sys.executable, "args": args, **entry}


def asked(box: Box, name: str, method: str = "tools/list") -> int:
    """Return how often a server was asked for a list."""
    return (box.root / f"{name}.journal").read_text().splitlines().count(method)


def names(peer: Peer, **params: Any) -> list[str]:
    return [tool["name"] for tool in peer.request("tools/list", params)["tools"]]


def grown(peer: Peer, before: list[str], **params: Any) -> list[str]:
    """Return the first list that is another than ``before``; it is read once a second."""
    now = before

    def is_other() -> bool:
        nonlocal now
        now = names(peer, **params)
        return now != before

    wait_until(is_other, 10)
    return now


@pytest.mark.parametrize("sharing", ["session", "workspace", "shared"])
def test_what_starts_a_server_waits_for_it_and_uses_what_it_lists(box: Box, sharing: str) -> None:
    """
    Where each session has a process of its own there is no shared one whose lists are known.
    """
    for name in ("typed", "near", "tools", "prompts", "resources", "read"):
        serve(box, name, "--sleep", 0.1, sharing=sharing)
    box.up()
    typed = box.ctl("call", "typed.echo", "n=5", "s=007", "b=true")
    assert (typed.returncode, typed.stderr) == (0, "")
    assert json.loads(typed.stdout)[1] == {"n": 5, "s": "007", "b": True}
    assert "did you mean echo?" in box.ctl("call", "near.ech").stderr
    assert "tools.echo" in box.ctl("tools", "tools").stdout
    assert "prompts.p0" in box.ctl("prompts", "prompts").stdout
    found = box.ctl("resources", "resources")
    assert ("r://0" in found.stdout, "x0://{id}" in found.stdout, found.stderr) == (True, True, "")
    read = box.ctl("read", "x0://7")
    assert (read.stdout.strip(), read.stderr) == ("x0://7", "")


@pytest.mark.parametrize("sharing", ["session", "workspace", "shared"])
def test_the_first_list_of_the_aggregate_has_what_its_servers_list(box: Box, sharing: str) -> None:
    serve(box, "fake", "--sleep", 0.1, sharing=sharing)
    peer = box.up().session(None)
    assert names(peer) == ["fake__echo", "fake__t0"]
    assert [p["name"] for p in peer.request("prompts/list")["prompts"]] == ["fake__p0"]
    assert json.loads(peer.text("fake__t0"))[0] == "t0"


def test_a_list_that_grows_without_a_word_is_read_again_when_a_client_asks(box: Box) -> None:
    """
    Alone with the server a client sees one more tool at each look. Who asks gets the list of
    now, and the others a notice. A server that declares ``listChanged`` is asked once.
    """
    serve(box, "fake")
    serve(box, "tells", "--declares")
    own, every = box.up().session(), box.session(None)
    assert "tells__t0" in names(every)
    known = names(own)
    for _ in range(2):
        now = grown(own, known)
        assert now[: len(known)] == known
        every.take_notification("notifications/tools/list_changed")
        known = now
    assert set(names(every)) >= {f"fake__{name}" for name in known}
    wait_until(lambda: box.ctl("tools").stdout.count("fake.") > len(known), 10)
    assert asked(box, "tells") == 1


@pytest.mark.parametrize("kind", ["prompts", "resources", "resources/templates"])
def test_lists_of_prompts_and_resources_are_read_again_too(box: Box, kind: str) -> None:
    serve(box, "fake")
    peer = box.up().session()
    (before,) = (v for v in peer.request(f"{kind}/list").values() if isinstance(v, list))
    wait_until(lambda: before not in peer.request(f"{kind}/list").values())
    peer.take_notification(f"notifications/{kind.partition('/')[0]}/list_changed")


def test_a_modern_list_is_read_again_when_its_time_is_over(box: Box) -> None:
    serve(box, "fake", "--modern", era="modern")
    serve(box, "keeps", "--modern", "--ttl", 600_000, era="modern")
    peer, other = box.up().session(handshake=False), box.session("keeps", handshake=False)
    listen = {"notifications": {"toolsListChanged": True}}
    peer.start("subscriptions/listen", {**listen, "_meta": META})
    peer.take_notification("notifications/subscriptions/acknowledged")
    before, kept = names(peer, _meta=META), names(other, _meta=META)
    assert grown(peer, before, _meta=META)[: len(before)] == before
    peer.take_notification("notifications/tools/list_changed")
    assert names(other, _meta=META) == kept
    assert asked(box, "keeps") == 2  # by us when it started, and for the client


def test_a_server_that_hangs_or_fails_is_answered_for_from_the_copy(box: Box) -> None:
    """
    It is asked once while it hangs, however many ask.
    """
    hangs, fails = box.root / "hangs", box.root / "fails"
    serve(box, "fake", "--hangs", hangs, "--fails", fails)
    box.settings["list_wait"] = 0.2
    peers = [box.up().session(), box.session(), box.session(None)]
    before = names(peers[0])
    hangs.touch()
    wait_until(lambda: names(peers[0]) == before and asked(box, "fake") == 2)
    for _ in range(5):
        assert [len(names(peer)) for peer in peers] == [len(before)] * 3
    assert asked(box, "fake") == 2
    hangs.unlink()
    fails.touch()
    box.ctl("restart", "fake")  # what it was asked goes with it
    wait_until(lambda: names(peers[0]) == before and asked(box, "fake") > 3)
    fails.unlink()
    wait_until(lambda: names(peers[0]) != before)


def test_lists_neither_start_a_server_nor_keep_it_from_stopping(box: Box) -> None:
    serve(box, "fake", idle_timeout=1.5)
    peer = box.up().session(None)
    known = set(names(peer))
    wait_until(lambda: known.update(names(peer)) or box.status()["state"] == "stopped", 20)
    assert len(known) > 2, "it was asked while it ran"
    looks = asked(box, "fake")
    assert set(names(peer)) <= known
    assert box.ctl("tools", "fake").returncode == 0
    assert (box.status()["state"], box.status()["generation"]) == ("stopped", 1)
    assert asked(box, "fake") == looks
