"""The status of a server whose kind is another, or whose entry is wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mcpd.config.entry import entry_from_json
from mcpd.daemon.control.status import _public_url, _transport
from mcpd.daemon.servers.server import assemble
from mcpd.upstreams.run import Connection
from mcpd.upstreams.stdio.spec import ProcessSpec

LOCAL: Any = SimpleNamespace(config=None)


def far(**values: object) -> Any:
    entry = entry_from_json({"url": "https://x.example/mcp", **values}, name="s", env={}, cwd="/")
    return assemble(entry, base_env={})


@pytest.mark.parametrize(
    ("server", "transport"),
    [
        (SimpleNamespace(configured=LOCAL, backend=ProcessSpec), "stdio"),
        (SimpleNamespace(configured=LOCAL, backend=None), "stdio"),
        (far(), "http"),
        (far(transport="sse"), "sse"),
        (far(headers={"X": "${NOT_SET}"}), "http"),
    ],
)
def test_the_transport_is_that_of_the_entry_until_there_is_a_connection(
    server: Any, transport: str
) -> None:
    assert _transport(server, None) == transport
    assert _transport(server, Connection(transport="sse", auth="none")) == "sse"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://x.example/mcp?key=abcdefgh#", "https://x.example/mcp"),
        ("https://u:secretsecret@x.example/mcp", "https://x.example/mcp"),
        ("https://x.example/sk-proj-ABCDEFGHIJKLMNOPQRST1/mcp", "https://x.example/***/mcp"),
        ("https://x.example/${PART}", "https://x.example/${PART}"),
    ],
)
def test_the_url_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    entry = entry_from_json({"url": url}, name="s", env={"PART": "partpart"}, cwd="/")
    assert _public_url(assemble(entry, base_env={})) == shown
