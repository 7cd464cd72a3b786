"""What was seen in the lists of one server."""

from __future__ import annotations

from mcpd.core.catalog.examine import Examined
from mcpd.core.catalog.model import Item, Kind
from mcpd.core.definitions import findings
from mcpd.core.definitions.findings import AllFindings, ServerFindings


def examined(name: str, size: int) -> tuple[Examined, ...]:
    raw = b'{"name":"%b","x":"%b"}' % (name.encode(), b"x" * size)
    return (Examined(Item(name, raw), None, raw),)


def test_large_lists_for_some_clients_are_forgotten_first_but_ours_is_not() -> None:
    """
    Sixty-four lists of a megabyte were kept for as many clients.
    """
    found = ServerFindings("s", "id", AllFindings())
    size = findings._LISTS_BYTES // 4
    found.take_list("", Kind.TOOLS, examined("ours", 8 * size))
    for key in ("1", "2", "3", "4", "1"):
        found.take_list(key, Kind.TOOLS, examined(f"of {key}", size))
    kept = [key for key in ("", "1", "2", "3", "4") if found.known(key, Kind.TOOLS)]
    assert kept == ["", "1", "3", "4"]
    found.take_list("5", Kind.TOOLS, examined("of 5", 8 * size))
    kept = [key for key in ("", "1", "3", "4", "5") if found.known(key, Kind.TOOLS)]
    assert kept == ["", "5"]
