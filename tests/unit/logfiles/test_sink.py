"""Lines that a sink does not take are counted, and a note tells their number once it takes lines again."""

from __future__ import annotations

from mcpd.logfiles.sink import CountingWriter, Written


class Narrow:
    """A sink with room for some lines."""

    def __init__(self) -> None:
        self.room = 0
        self.lines: list[bytes] = []

    def append(self, lines: list[bytes]) -> int:
        taken = lines[: self.room]
        self.lines += taken
        self.room -= len(taken)
        return len(taken)


def test_missing_lines_are_counted_until_a_note_is_written():
    sink = Narrow()
    writer = CountingWriter(sink, lambda missing: b"%d" % missing)
    assert writer.write([b"a", b"b"]) == Written(False, 0)
    assert writer.write([b"c"]) == Written(False, 0)
    assert writer.missing == 3
    sink.room = 2
    assert writer.write([b"d", b"e"]) == Written(True, 1)
    assert writer.missing == 1
    sink.room = 9
    assert writer.write([b"f"]) == Written(True, 1)
    assert writer.write([b"g"]) == Written(False, 1)
    assert (writer.missing, sink.lines) == (0, [b"3", b"d", b"1", b"f", b"g"])
