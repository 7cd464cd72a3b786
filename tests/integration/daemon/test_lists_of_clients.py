"""Lists of a modern server that several clients share: each sees what it would have seen alone."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Box, Json
from tests.support.waiting import wait_until

PROGRAM = Path(__file__).parents[2] / "support" / "listserver.py"
UI = "io.modelcontextprotocol/ui"
KINDS = ["tools", "prompts", "resources", "resources/templates"]
CLIENTS: list[Json] = [
    {},
    {"elicitation": {}},
    {"sampling": {}},
    {"roots": {"listChanged": True}},
    {"experimental": {"x": {}}},
    {"extensions": {UI: {}}},
    {"elicitation": {"form": {}}, "sampling": {}, "roots": {}, "extensions": {UI: {}, "x/y": {}}},
]


def gate(box: Box, *flags: object, name: str = "gate", **entry: Any) -> None:
    journal = str(box.root / f"{name}.journal")
    args = [str(PROGRAM), "--modern", "--gates", "--journal", journal, *map(str, flags)]
    box.servers[name] = {"command": sys.executable, "args": args, "era": "modern", **entry}


def asked(box: Box, method: str = "tools/list", name: str = "gate") -> int:
    return (box.root / f"{name}.journal").read_text().splitlines().count(method)


def declares(capabilities: Json) -> list[str]:
    """Return the entries that the server lists for these capabilities."""
    words = [name for name in capabilities if name != "extensions"]
    words += capabilities.get("extensions", {})
    return ["plain", *sorted(re.sub(r"\W", "_", word) for word in words)]


class Asking:
    """A client of either revision that asks for lists."""

    def __init__(self, box: Box, server: str | None, capabilities: Json, *, modern: bool) -> None:
        self.prefix = "" if server else "gate__"
        self.meta: Json = {}
        self.peer = box.session(server, handshake=False)
        if modern:
            version = "2026-07-28"
            self.meta = {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientCapabilities": capabilities,
            }
        else:
            self.peer.initialize(capabilities=capabilities)

    def params(self, **params: Any) -> Json:
        return {**params, "_meta": self.meta} if self.meta else params

    def names(self, kind: str = "tools") -> list[str]:
        result = self.peer.request(f"{kind}/list", self.params())
        (found,) = (value for value in result.values() if isinstance(value, list))
        return [entry["name"].removeprefix(self.prefix) for entry in found]

    def call(self, tool: str) -> Json:
        params = self.params(name=self.prefix + tool, arguments={})
        result: Json = self.peer.request("tools/call", params)
        return result


@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
@pytest.mark.parametrize("server", ["gate", None], ids=["own", "aggregate"])
def test_each_client_sees_what_the_server_lists_for_it(
    box: Box, server: str | None, modern: bool
) -> None:
    """
    Tools that only some clients are shown can be called by these; `mcpctl` is shown our own.
    """
    gate(box)
    box.up()
    for capabilities in (*CLIENTS, CLIENTS[0]):
        client = Asking(box, server, capabilities, modern=modern)
        for kind in KINDS:
            assert client.names(kind) == declares(capabilities)
        assert not client.call(declares(capabilities)[-1]).get("isError")
    shown = box.ctl("tools", "gate").stdout
    assert ("gate.elicitation" in shown, "gate.roots" in shown) == (True, False)


def test_clients_that_declare_the_same_share_a_list_in_whatever_way_they_come(box: Box) -> None:
    gate(box, "--declares")
    box.up()
    same: list[Json] = [
        {"roots": {}, "sampling": {}, "extensions": {"b": {}, "a": {}}},
        {"extensions": {"a": {}, "b": {}}, "sampling": {}, "roots": {}},
    ]
    clients = [
        Asking(box, server, capabilities, modern=modern)
        for server in ("gate", None)
        for capabilities in same
        for modern in (True, False)
    ]
    lists = {tuple(client.names()) for client in clients}
    assert lists == {tuple(declares(same[0]))}
    assert asked(box) == 2  # for us, and for them


def test_a_new_daemon_and_a_server_that_stopped_list_for_each_client_what_they_did(
    box: Box,
) -> None:
    """
    Without a start: these lists are kept as ours are. What was never asked for needs one.
    """
    gate(box, idle_timeout=0.2)
    box.up()
    for capabilities in CLIENTS[:2]:
        client = Asking(box, "gate", capabilities, modern=False)
        assert client.names() == declares(capabilities)
        client.peer.close()
    wait_until(lambda: box.status("gate")["state"] == "stopped", 20)
    looks = asked(box)
    for again in (False, True):
        if again:
            box.down()
            box.up()
        for server in ("gate", None):
            for capabilities in CLIENTS[:2]:
                client = Asking(box, server, capabilities, modern=server is None)
                assert client.names() == declares(capabilities)
    assert asked(box) == looks
    assert Asking(box, None, CLIENTS[2], modern=False).names() == declares(CLIENTS[2])
    assert asked(box) > looks


def test_a_server_that_was_replaced_tells_only_those_whose_lists_are_others(box: Box) -> None:
    """
    What it lists for us changes with every client's that can be asked for words; nobody else's.
    """
    more = box.root / "more"
    gate(box, "--more", more, "--declares")
    box.up()
    clients = [
        Asking(box, server, capabilities, modern=False)
        for capabilities in ({"sampling": {}}, {"elicitation": {}})
        for server in ("gate", None)
    ]
    before = [client.names() for client in clients]
    more.touch()
    assert box.ctl("restart", "gate").returncode == 0
    for client in clients[:2]:
        client.peer.take_notification("notifications/tools/list_changed")
        assert client.names() == ["plain", "sampling", "words"]
    assert [client.names() for client in clients[2:]] == before[2:]
    for client in clients[2:]:
        assert not [m for m in client.peer.inbox if "list_changed" in m.get("method", "")]


def test_a_list_that_changes_for_some_is_told_to_everybody_and_read_again(box: Box) -> None:
    more = box.root / "more"
    gate(box, "--more", more)
    box.up()
    words, plain = (Asking(box, "gate", c, modern=False) for c in ({"sampling": {}}, {}))
    assert (words.names(), plain.names()) == (["plain", "sampling"], ["plain"])
    more.touch()
    wait_until(lambda: words.names() == ["plain", "sampling", "words"], 10)
    for client in (words, plain):
        client.peer.take_notification("notifications/tools/list_changed")
    assert plain.names() == ["plain"]
    wait_until(lambda: "gate.words" in box.ctl("tools", "gate").stdout, 10)


def test_so_many_lists_are_kept_and_no_more(box: Box) -> None:
    """
    The least recently asked for is read again.
    """
    gate(box, "--declares")
    box.up()
    clients = [
        Asking(box, "gate", {"experimental": {}, f"x{number}": {}}, modern=True)
        for number in range(17)
    ]
    for number, client in enumerate(clients):
        assert client.names() == ["plain", "experimental", f"x{number}"]
    assert asked(box) == 18
    assert clients[16].names() and asked(box) == 18
    assert clients[0].names() == ["plain", "experimental", "x0"]
    assert asked(box) == 19


def test_with_interactive_off_a_server_is_not_told_that_clients_can_be_asked(box: Box) -> None:
    gate(box, interactive="off")
    box.up()
    client = Asking(box, "gate", CLIENTS[-1], modern=True)
    assert client.names() == ["plain", "io_modelcontextprotocol_ui", "roots", "x_y"]
