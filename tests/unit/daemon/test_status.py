"""The status of a server whose kind is another, or whose entry is wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mcpd.daemon.status import _transport
from mcpd.upstreams.stdio.spec import ProcessSpec


@pytest.mark.parametrize(
    ("backend", "transport"),
    [(ProcessSpec, "stdio"), (SimpleNamespace(transport="carrier-pigeon"), "carrier-pigeon")],
)
def test_the_transport_is_that_of_the_servers_kind(backend: Any, transport: str) -> None:
    server: Any = SimpleNamespace(backend=backend)
    assert _transport(server) == transport


def test_a_server_whose_entry_is_wrong_has_the_usual_transport() -> None:
    server: Any = SimpleNamespace(backend=None)
    assert _transport(server) == "stdio"
