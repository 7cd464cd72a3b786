"""What a server is told that its client can do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpd.core.interface.entries import Entry, Interactive
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.offer import FULL, Offer, Omission
from mcpd.core.mcp.versions import Era
from mcpd.core.upstream.own_info import client_info_for, handshake_params

UI = "io.modelcontextprotocol/ui"
CLIENT = ClientInfo(
    Era.LEGACY,
    b'{"elicitation":{},"roots":{},"extensions":{"x/y":{"z":1}}}',
    b'{"name":"editor","version":"7"}',
)


def told(entry: Entry, client: ClientInfo | None = None, offer: Offer = FULL) -> dict[str, Any]:
    params = json.loads(handshake_params(client_info_for(entry, client, "1.2"), entry, offer))
    return dict(params)


def test_a_process_of_many_is_told_what_makes_servers_show_all_their_tools() -> None:
    """
    Servers hide tools from clients without sampling and elicitation; one that is told of roots
    replaces its directories with them.
    """
    assert told(Entry(name="x", launch="x")) == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"sampling": {}, "elicitation": {"form": {}, "url": {}}},
        "clientInfo": {"name": "mcpd", "version": "1.2"},
    }


def test_roots_are_declared_where_the_entry_has_some() -> None:
    own = Entry(name="x", launch="x", roots=("file:///r",))
    assert told(own)["capabilities"]["roots"] == {}
    assert told(own, CLIENT)["capabilities"]["roots"] == {}
    of_session = Entry(name="x", launch="x", asks_for_roots=True)
    assert told(of_session, CLIENT)["capabilities"]["roots"] == {"listChanged": True}


def test_a_process_of_many_is_told_the_extensions_of_its_entry() -> None:
    entry = Entry(name="x", launch="x", extensions=(UI, "io.modelcontextprotocol/tasks"))
    assert told(entry)["capabilities"]["extensions"] == {UI: {}}


def test_a_process_of_one_client_is_told_what_that_client_said() -> None:
    entry = Entry(name="x", launch="x", extensions=(UI,))
    assert told(entry, CLIENT) == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}, "extensions": {"x/y": {"z": 1}}},
        "clientInfo": {"name": "editor", "version": "7"},
    }


@pytest.mark.parametrize("client", [None, CLIENT])
def test_where_no_question_is_passed_on_none_is_invited(client: ClientInfo | None) -> None:
    entry = Entry(name="x", launch="x", interactive=Interactive.OFF, roots=("file:///r",))
    declared = told(entry, client)["capabilities"]
    assert declared.keys() - {"extensions"} == {"roots"}


def test_an_offer_leaves_out_what_was_refused() -> None:
    entry = Entry(name="x", launch="x", extensions=(UI,))
    declared = {
        omission: told(entry, None, Offer("2024-11-05", omission))["capabilities"]
        for omission in Omission
    }
    assert declared[Omission.DETAILS] == {"sampling": {}, "elicitation": {}}
    assert declared[Omission.ELICITATION] == {"sampling": {}}
    assert declared[Omission.EVERYTHING] == {}
