"""TOML, and where its values stand."""

from __future__ import annotations

import tomllib

import pytest

from mcpd.errors import ConfigError
from mcpd.formats.document import KeyPath
from mcpd.formats.toml import parse

TEXT = '''# a comment with [brackets] and = signs
[daemon]
log_level = "info"

[servers.files]
command = "npx"   # not a = value
args = [
  "-y",  # first
  'C:\\it''s',
]
env = { TOKEN = "a # b", "odd key" = "x" }
note = """
[not.a.table]
"quoted" \\"""
x = 1"""
restart.backoff = 1

[servers."my server".restart]
window = 1979-05-27 07:32:00
[servers."my server"]
command = "x"
[[list]]
a = 1
[[list]]
a = 2
'''.replace("it''s", "its")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("daemon", "log_level"), (3, 13)),
        (("servers", "files"), (5, 1)),
        (("servers", "files", "command"), (6, 11)),
        (("servers", "files", "args", 1), (9, 3)),
        (("servers", "files", "env", "TOKEN"), (11, 17)),
        (("servers", "files", "env", "odd key"), (11, 38)),
        (("servers", "files", "restart", "backoff"), (16, 19)),
        (("servers", "my server", "restart", "window"), (19, 10)),
        (("servers", "my server"), (20, 1)),
        (("list", 0, "a"), (23, 5)),
        (("list", 1, "a"), (25, 5)),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_value_has_its_place(path: KeyPath, place: tuple[int, int], newline: str) -> None:
    """
    ``tomllib`` gives none, and an error that does not name its line is hard to find.
    """
    document = parse(TEXT.replace("\n", newline))
    assert path in document.values
    assert document.place_of_value(path) == place


def test_a_key_has_its_place() -> None:
    document = parse('[a]\n  b . "c d" = 1\n')
    assert document.place_of_key(("a", "b", "c d")) == (2, 7)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[servers.x]\ncommand = \n", (2, 11)),
        ("a = 1\na = 2", (2, 6)),
        ("a = [1,", (1, 8)),
        ("x = 1\ny = " + "9" * 5000, (2, 5)),
        ("a = " + "[" * 150 + "]" * 150, (1, 105)),
        ("a = " + "[" * 50000, (1, 1)),
    ],
)
def test_a_syntax_error_has_its_line_and_column(text: str, place: tuple[int, int]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert (caught.value.details["line"], caught.value.details["column"]) == place


@pytest.mark.parametrize(
    "text",
    ["a." * 200 + "b = 1", "[" + "a." * 200 + "b]", 'x = {"a" . ' + "'a' . " * 200 + "b = 1}"],
    ids=["key", "header", "inline"],
)
def test_a_key_of_many_parts_is_refused(text: str):
    with pytest.raises(ConfigError, match="nested more than 100 deep"):
        parse(f"first = 1\n{text}\n")


def test_a_key_of_many_parts_is_not_given_to_a_parser_that_takes_its_square(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(tomllib, "loads", None)
    with pytest.raises(ConfigError, match="nested more than 100 deep") as error:
        parse("first = 1\n" + "a." * 60_000 + "b = 1\n")
    assert error.value.details["line"] == 2


def test_many_dots_elsewhere_are_no_key():
    dots = "a." * 200
    text = f"""x = "{dots}"\ny = '{dots}'\nz = '''\n{dots}\n'''\nq = \"\"\"\n{dots}\n\"\"\" # {dots}\n"""
    assert set(parse(text).data) == {"x", "y", "z", "q"}


def test_a_number_that_could_not_be_written_is_refused():
    with pytest.raises(ConfigError, match="too many digits") as error:
        parse("first = 1\nx = 0x" + "f" * 5000 + "\n")
    assert (error.value.details["line"], error.value.details["column"]) == (2, 5)
