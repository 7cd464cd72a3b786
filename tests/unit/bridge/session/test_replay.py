"""What a new daemon is told of a session that began with an older one."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from mcpd.bridge.session.queue import Item
from mcpd.bridge.session.replay import Replay
from mcpd.bridge.session.state import SessionState

ERROR = {"code": -32603, "message": "gone"}


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


INITIALIZE = line(id=0, method="initialize", params={})


class World:
    """A session, and what its new daemon gets."""

    def __init__(self, *frames: bytes) -> None:
        self.state = SessionState()
        self.told: list[bytes] = []
        self.done = 0
        self.refusals: list[object] = []
        self.replay = Replay(
            self.state, send=self.told.extend, done=self._done, refused=self.refusals.append
        )
        for frame in frames:
            self.state.sent(Item([frame]))

    def _done(self) -> None:
        self.done += 1

    def lose(self) -> None:
        self.state.daemon_lost(ERROR)

    def written(self) -> list[Any]:
        """Return the messages that the daemon gets now."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self.state.queue.flush(ours)
            ours.close()
            got = b""
            while chunk := theirs.recv(1 << 16):
                got += chunk
        return [json.loads(one) for one in got.splitlines()]

    def say(self, **message: Any) -> bool:
        return self.state.from_daemon([line(**message)])


def test_nothing_is_told_of_a_session_that_has_no_state():
    world = World(line(id=1, method="tools/call"))
    world.lose()
    world.replay.begin()
    assert world.done == 1
    assert world.written() == []


def test_nothing_follows_the_handshake_before_it_is_answered():
    world = World(INITIALIZE, line(method="notifications/initialized"))
    world.say(id=0, result={})
    world.lose()
    world.state.from_client([line(id=1, method="tools/call")], is_up=False)
    world.replay.begin()
    [hello] = world.written()
    assert hello["method"] == "initialize"
    assert hello["id"] != 0
    assert world.done == 0
    assert not world.say(id=hello["id"], result={})
    assert world.done == 1
    assert [one["method"] for one in world.written()] == ["notifications/initialized", "tools/call"]


def test_a_handshake_that_fails_is_a_refusal_and_nothing_follows():
    world = World(INITIALIZE, line(method="notifications/initialized"))
    world.say(id=0, result={})
    world.lose()
    world.replay.begin()
    [hello] = world.written()
    assert not world.say(id=hello["id"], error=ERROR)
    assert world.refusals == [ERROR]
    assert (world.done, world.written()) == (0, [])


def test_a_handshake_that_was_never_answered_is_answered_to_the_client():
    world = World(INITIALIZE)
    world.lose()
    world.replay.begin()
    assert world.written() == [json.loads(INITIALIZE)]
    assert world.say(id=0, result={})
    assert world.done == 1


@pytest.mark.parametrize("key", ['"id"', '"\\u0069d"'])
def test_the_clients_id_is_replaced_however_it_is_spelled(key):
    world = World(b'{"method":"initialize",%b : 7,"params":{"x":2.50}}\n' % key.encode())
    world.say(id=7, result={})
    world.lose()
    world.replay.begin()
    [hello] = world.written()
    assert hello["id"] != 7
    assert hello["params"] == {"x": 2.5}


def test_ids_of_ours_are_used_once():
    world = World(INITIALIZE, line(id=1, method="logging/setLevel", params={"level": "info"}))
    world.say(id=0, result={})
    world.say(id=1, result={})
    seen = set()
    for _ in range(3):
        world.lose()
        world.replay.begin()
        [hello] = world.written()
        world.say(id=hello["id"], result={})
        [level] = world.written()
        seen |= {hello["id"], level["id"]}
    assert len(seen) == 6
