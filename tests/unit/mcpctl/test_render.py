"""Text for people."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta

import pytest

from mcpctl import render


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain é 漢 😀\n\tx", "plain é 漢 😀\n\tx"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\rb\x7f\x9b1m", r"a\x0db\x7f\x9b1m"),
        ("\u202etxt.exe", r"\u202etxt.exe"),
        ("\u2028", r"\u2028"),
        ("a\u200bb\ufeff\U000e0041", r"a\u200bb\ufeff\U000e0041"),
        ("م\u200cخ 👨\u200d👩", "م\u200cخ 👨\u200d👩"),
        ("one\r\ntwo\r", "one\ntwo\\x0d"),
    ],
)
def test_control_characters_are_spelled_out(raw: str, shown: str) -> None:
    assert render.escaped(raw) == shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.9, "0 s"), (61, "1 min 1 s"), (3660, "1 h 1 min"), (90_000, "1 d 1 h")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert render.duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "-"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (71303168, "68.0 MiB"),
        (300 << 20, "300 MiB"), (5 << 30, "5.0 GiB"), (2 << 40, "2.0 TiB"),
    ],
)  # fmt: skip
def test_sizes(count: int | None, text: str) -> None:
    assert render.size(count) == text


def test_columns_align_also_where_characters_are_wide() -> None:
    out = io.StringIO()
    lines = render.table(["A", "B"], [["漢字", "x"], ["é", "y"]], out).splitlines()
    assert lines == ["A     B", "漢字  x", "é     y"]


def test_a_table_fits_by_cutting_its_last_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    lines = render.table(["NAME", "WHY"], [["files", "w" * 100]], io.StringIO()).splitlines()
    assert [len(line) for line in lines] == [11 - 1, 30]
    assert lines[1].endswith("w…")


def test_a_table_in_a_pipe_is_whole() -> None:
    assert "w" * 500 in render.table(["A"], [["w" * 500]], io.StringIO())


def test_a_row_is_one_line_whatever_is_in_it() -> None:
    assert len(render.table(["A"], [["x\ny"]], io.StringIO()).splitlines()) == 2


def test_only_a_terminal_gets_colours_and_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    row: list[list[render.Cell]] = [[("ready", "green"), "\x1b[2J"]]
    assert render.table(["A", "B"], row, Terminal()).count("\x1b[") == 2
    assert r"\x1b[2J" in render.table(["A", "B"], row, Terminal())
    assert render.table(["A", "B"], row, io.StringIO()).count("\x1b") == 1  # as it came
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in render.table(["A", "B"], row, Terminal())


def test_documents_are_indented_for_people_and_verbatim_for_programs() -> None:
    assert render.document({"a": 1.0}, '{"a":1.00}', io.StringIO()) == '{"a":1.00}\n'
    assert render.document({"a": 1.0}, None, io.StringIO()) == '{"a": 1.0}\n'
    assert render.document({"a": 1.0}, '{"a":1.00}', Terminal()) == '{\n  "a": 1.0\n}\n'


def test_a_status_line_takes_itself_away() -> None:
    out = Terminal()
    line = render.StatusLine(out)
    line.clear()
    assert out.getvalue() == ""
    line.show("x" * 200)
    line.clear()
    assert out.getvalue() == "\r\x1b[K" + "x" * 78 + "…\r\x1b[K"


def test_there_is_no_status_line_in_a_pipe() -> None:
    out = io.StringIO()
    render.StatusLine(out).show("x")
    assert out.getvalue() == ""


def test_a_narrow_terminal_loses_the_columns_that_say_nothing_first(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    header = ["NAME", "RESTARTS", "CALLS", "ERRORS", "WHY"]
    lines = render.table(header, [["files", "0", "7", "0", "w" * 40]], io.StringIO()).splitlines()
    assert lines[0].split() == ["NAME", "CALLS", "WHY"]
    assert all(len(line) <= 30 for line in lines)
    monkeypatch.setenv("COLUMNS", "90")
    wide = render.table(header, [["files", "0", "7", "0", "w" * 40]], io.StringIO())
    assert wide.splitlines()[0].split() == header


def test_columns_are_left_out_in_the_order_given_until_the_others_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    header, rows = ["NAME", "ONE", "NIL", "TWO"], [["n", "x" * 10, "0", "y" * 10]]
    spare = ["NIL", "TWO", "ONE"]

    def lacking(columns: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        return render.columns_to_hide(header, rows, io.StringIO(), spare)

    assert lacking(28) == []  # without NIL, which says nothing and is left out by itself
    assert lacking(27) == ["TWO"]
    assert lacking(10) == ["TWO", "ONE"]
    monkeypatch.delenv("COLUMNS")
    assert render.columns_to_hide(header, rows, io.StringIO(), spare) == []


def test_a_table_without_columns() -> None:
    assert render.hide_columns(["A", "B", "C"], [["1", "2", "3"]], ["B"]) == (
        ["A", "C"],
        [["1", "3"]],
    )


def test_a_moment_is_the_time_of_day_here_and_how_long_ago() -> None:
    now = datetime.now(UTC)
    shown = render.moment(f"{(now - timedelta(seconds=125)):%Y-%m-%dT%H:%M:%S.000}Z")
    assert shown.endswith(" (2 min 5 s ago)") or shown.endswith(" (2 min 6 s ago)")
    assert re.match(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d \(", shown)
    assert render.moment("2020-01-02T03:04:05.000Z").startswith("2020-01-0")


def test_a_paragraph_breaks_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    text = "a line that is longer than the terminal is wide, with one\nbreak"
    assert render.paragraph(text, out, "  ") == f"  {text}".replace("\n", " ")
    monkeypatch.setenv("COLUMNS", "40")
    lines = render.paragraph(text, out, "  ").splitlines()
    assert lines == ["  a line that is longer than the", "    terminal is wide, with one break"]
    assert render.paragraph("\x1b[31m", Terminal(), "") == r"\x1b[31m"


@pytest.mark.parametrize(
    "end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"]
)
def test_no_line_of_ours_begins_within_a_text(end: str) -> None:
    """
    Else a server could write lines that look like ours, also into a pipe.
    """
    text = f"boom{end}mcpctl: all good"
    assert render.one_line(text) == "boom mcpctl: all good"
    shown = render.message([text, "  a hint"], io.StringIO())
    assert shown == "boom\n    mcpctl: all good\n  a hint"
    assert len(render.table(["A", "B"], [[text, f"x{end}\ty"]], io.StringIO()).splitlines()) == 2
    assert len(render.indented_json({"a": text}).splitlines()) == 3
    assert len(render.paragraph(text, io.StringIO(), "  ").splitlines()) == 1
