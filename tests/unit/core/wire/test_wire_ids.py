"""Ids of ours, in every spelling of their numbers."""

from __future__ import annotations

import pytest
from msgspec import UNSET, Raw

from mcpd.core.wire.wire_ids import wire_id_of


@pytest.mark.parametrize(
    ("raw", "wire_id"),
    [
        (b"3", 3),
        (b"3.0", 3),
        (b"3.00", 3),
        (b"3e0", 3),
        (b"3E+0", 3),
        (b"30e-1", 3),
        (b"1.2e1", 12),
        (b'"3"', 3),
        (b'"3.0"', 3),
        (b"1234567890123456789.0", 1234567890123456789),
        (b"3.5", None),
        (b"3e-1", None),
        (b"-3.0", None),
        (b"1e99", None),
        (b"1e999999999", None),
        (b"9" * 20, None),
        (b"9" * 5000, None),
        (b"3." + b"0" * 5000, None),
        (b"3.0\n", None),
        (b'""', None),
        (b'"x"', None),
        (b"null", None),
        (b"[3]", None),
        ("\u0663.0".encode(), None),
    ],
)
def test_a_whole_number_is_an_id_of_ours_however_it_is_spelled(raw: bytes, wire_id: int | None):
    """
    Gson, Lua and GDScript read every number as a double: 3 came back as 3.0, and answered nobody.
    """
    assert wire_id_of(Raw(raw)) == wire_id


def test_what_is_absent_is_no_id():
    assert wire_id_of(UNSET) is None
