"""What a value must be, and what it means."""

from __future__ import annotations

import datetime

import pytest

from mcpd.config.reading import values
from mcpd.config.reading.values import Expected, Reader


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0, 0.0),
        (1.5, 1.5),
        ("250ms", 0.25),
        ("30s", 30.0),
        ("1.5 m", 90.0),
        ("5min", 300.0),
        ("2h", 7200.0),
        ("1d", 86400.0),
        ("10 sec", 10.0),
    ],
)
def test_a_duration_is_in_seconds(written: object, meant: float) -> None:
    assert values.seconds(written) == pytest.approx(meant)


@pytest.mark.parametrize(
    "written",
    [
        -1,
        True,
        "30",
        "-5s",
        "soon",
        "5 weeks",
        None,
        [],
        float("nan"),
        float("inf"),
        1e300,
        10**400,
        "1" * 400 + "s",
    ],
)
def test_what_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(Expected):
        values.seconds(written)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0, 0),
        (1000000.0, 1000000),
        ("16MiB", 16777216),
        ("1.5 KiB", 1536),
        ("2GB", 2000000000),
        ("10mb", 10000000),
        ("7B", 7),
        ("1kB", 1000),
    ],
)
def test_a_size_is_in_bytes(written: object, meant: int) -> None:
    assert values.size(written) == meant


@pytest.mark.parametrize("written", [-1, 1.5, True, "16", "16M", "many", None, float("nan"), 1e300])
def test_what_is_no_size_is_refused(written: object) -> None:
    with pytest.raises(Expected):
        values.size(written)


@pytest.mark.parametrize("written", [-1, 1.5, True, "4", None])
def test_what_is_no_count_is_refused(written: object) -> None:
    with pytest.raises(Expected):
        values.count(written)


def test_a_size_that_would_break_everything_is_refused() -> None:
    with pytest.raises(Expected, match="at least 1024 bytes"):
        values.size_from(1024)("1kB")


def test_a_wrong_word_is_answered_with_the_right_ones_and_without_itself() -> None:
    with pytest.raises(Expected, match=r"^one of lazy, eager$"):
        values.one_of("lazy", "eager")("hunter2")


@pytest.mark.parametrize(
    ("reader", "written", "path", "says"),
    [
        (values.texts, "y", (), 'a list of strings, not a string: ["…", "…"]'),
        (values.texts, ["a", 5], (1,), 'a string, not a number: write it in quotes, "…"'),
        (values.texts, ["a", ["b"]], (1,), "a string, not a list"),
        (values.texts, {}, (), "a list of strings, not a table"),
        (values.environment, [], (), "a table of strings, not a list"),
        (values.environment, {"PORT": 8080}, ("PORT",), 'not a number: write it in quotes, "…"'),
        (values.environment, {"DEBUG": True}, ("DEBUG",), "not true or false: write it in quotes"),
        (values.environment, {"X": None}, ("X",), "a string, not null"),
        (values.environment, {"A=B": "x"}, ("A=B",), "a name of a variable"),
        (values.environment, {"": "x"}, ("",), "a name of a variable"),
        (values.text, "a\0b", (), "without NUL"),
        (values.text, "\ud800", (), "half of a surrogate pair"),
        (values.text, datetime.date(2026, 1, 1), (), "not a date or time"),
        (values.filled, "  ", (), "not empty"),
        (values.flag, "true", (), "true or false, not a string"),
        (values.roots, "/src", (), '"session"'),
        (values.roots, ["file:///a", "/src"], (1,), "a URI"),
    ],
)
def test_an_error_names_the_part_and_what_was_expected(
    reader: Reader, written: object, path: tuple[str | int, ...], says: str
) -> None:
    with pytest.raises(Expected) as caught:
        reader(written)
    assert caught.value.path == path
    assert says in caught.value.wanted


def test_roots_are_uris_or_those_of_the_session() -> None:
    assert values.roots(["file:///home/ada"]) == ("file:///home/ada",)
    assert values.roots("session") == "session"


@pytest.mark.parametrize("written", [[], ["/src"], ["~/src/*", "/a/b*/c"]])
def test_directories_are_absolute_or_below_the_home_directory(written: list[str]) -> None:
    assert values.directories(written) == tuple(written)


@pytest.mark.parametrize(
    "written", ["/src", ["src"], ["~"], ["/"], ["~/"], ["/a/../b"], ["*"], [1]]
)
def test_other_directories_are_refused(written: object) -> None:
    with pytest.raises(Expected):
        values.directories(written)
