"""Edits of TOML: what changes, and that nothing else does."""

from __future__ import annotations

import pytest

from mcpd.editing.edits import Drop, Edit, Put, PutSource
from mcpd.editing.file import parse
from mcpd.errors import ConfigError

CODEX = """\
# my comment
model = "gpt-5"   # trailing

[mcp_servers.a] # keep me
command = 'npx'
args = [
  "-y", # pkg
  "x",
]
startup_timeout_sec = 20
my_unknown = 1

# the secret
[mcp_servers.a.env]
TOKEN = "fake"

# between
[profiles.p]
model = "o3"
"""
A = ("mcp_servers", "a")
SCATTERED = """\
[mcp_servers.a]
command = "x"

[other]
k = 1

# about env

[mcp_servers.a.env] # tail
X = "1"

# last
[z]
"""
INLINE = """\
a.b = 1e3
[mcp_servers]
files = { command = "uvx", args = ["x"] } # inline
[mcp_servers."x.y"]
command = '''uvx'''
"""
DOTTED = """\
[mcp_servers]
first.command = "f"
a.command = "x" # c
# why
a.env.X = "1"
b.command = "y"
"""


def edited(text: str, *edits: Edit) -> str:
    return parse(text.encode(), "toml").edited(edits).encode().decode()


@pytest.mark.parametrize(
    ("text", "edit", "expected"),
    [
        ("a = 1 # x\n", Put(("a",), "q"), 'a = "q" # x\n'),
        ("a = 1 # x\n", Put(("b",), True), "a = 1 # x\nb = true\n"),
        ("a=1", Put(("b",), [1.5, "x"]), 'a=1\nb=[1.5, "x"]'),
        ("", Put(("a",), 1), "a = 1\n"),
        ("# title\n\n# about t\n[t]\n", Put(("a",), 1), "# title\n\na = 1\n\n# about t\n[t]\n"),
        ("", Put(("t", "n"), {"a": 1}), "[t.n]\na = 1\n"),
        ("", Put(("t", "n"), 1), "[t]\nn = 1\n"),
        ("[t] # x\n", Put(("t", "a"), 1), "[t] # x\na = 1\n"),
        ("[t]\n  a = 1\n# b\n\n[u]\n", Put(("t", "c"), 2), "[t]\n  a = 1\n  c = 2\n# b\n\n[u]\n"),
        ("[t]\r\na = 1\r\n", Put(("t", "b"), {"c": 1}), "[t]\r\na = 1\r\n\r\n[t.b]\r\nc = 1\r\n"),
        ("[t.a]\nx = 1\n\n[u]\n", Put(("t", "x y"), {"b": {}}),
         '[t.a]\nx = 1\n\n[t."x y"]\nb = {}\n\n[u]\n'),
        ("[t.a]\nx = 1\n", Put(("t", "n"), 1), "[t]\nn = 1\n\n[t.a]\nx = 1\n"),
        ("t = {}\n", Put(("t", "a"), 1), "t = { a = 1 }\n"),
        ("t = { a = 1 }\n", Put(("t", "b", "c"), {"d": 1}), "t = { a = 1, b = { c = { d = 1 } } }\n"),
        ("[t]\na = {x = 1}\n[u]\n", Put(("t", "b"), {"y": 2}), "[t]\na = {x = 1}\nb = { y = 2 }\n[u]\n"),
        ("l = [\n  1, # one\n]\n", Put(("l", 1), 2), "l = [\n  1, # one\n  2,\n]\n"),
        ("[[l]]\na = 1\n", Put(("l", 1), {"a": 2}), "[[l]]\na = 1\n\n[[l]]\na = 2\n"),
        ("[t]\na = 1\nb = 2\n", Put(("t",), {"b": 3, "c": 4}), "[t]\nb = 3\nc = 4\n"),
        ("[t]\na = 1 # x\n# y\nb = 2", Drop(("t", "b")), "[t]\na = 1 # x\n# y"),
        ("a = 1\nb = 2\n", Drop(("a",)), "b = 2\n"),
        ("# c\n\n[a]\nx = 1\n\n# d\n[b]\n", Drop(("a",)), "# c\n\n# d\n[b]\n"),
        ("[a.b]\nx = 1\n", Drop(("a", "b")), ""),
        ("t = { a = 1, b = 2 }\n", Drop(("t", "a")), "t = { b = 2 }\n"),
        ("t = { a.x = 1, b = 2 }\n", Drop(("t", "a")), "t = { b = 2 }\n"),
        ("l = [1, 2]\n", Drop(("l", 1)), "l = [1]\n"),
        ("a = 1", Drop(("b",)), "a = 1"),
        ("a = 1", Put(("é",), '\x7f"\\\n'), 'a = 1\n"é" = "\\u007F\\"\\\\\\n"'),
        ("d = 2026-01-01 10:00:00 # x\n", Put(("d",), 1), "d = 1 # x\n"),
    ],
)  # fmt: skip
def test_the_smallest_splice(text: str, edit: Edit, expected: str) -> None:
    assert edited(text, edit) == expected


def test_the_comments_and_unknown_keys_of_an_entry_stay() -> None:
    """
    What codex's own ``mcp add`` loses.
    """
    after = edited(
        CODEX, Put((*A, "command"), "/m"), Put((*A, "args"), ["connect", "a"]), Drop((*A, "env"))
    )
    assert after == CODEX.replace("'npx'", '"/m"').replace(
        '[\n  "-y", # pkg\n  "x",\n]', '["connect", "a"]'
    ).replace('\n[mcp_servers.a.env]\nTOKEN = "fake"', "")


EDITS: list[list[Edit]] = [
    [Put((*A, "command"), "/m"), Put((*A, "args"), ["connect"]), Drop((*A, "env"))],
    [Put(A, {"command": "/m"})],
    [Put(A, {"args": []})],
    [Put((*A, "env", "MORE"), "x"), Put(("mcp_servers", "new"), {"command": "n"})],
]


@pytest.mark.parametrize("text", [CODEX, SCATTERED, DOTTED, CODEX.replace("\n", "\r\n")])
@pytest.mark.parametrize("edits", EDITS)
def test_a_text_that_is_put_back_makes_the_file_what_it_was(text: str, edits: list[Edit]) -> None:
    before = parse(text.encode(), "toml")
    after = before.edited(edits)
    assert after.text != text
    back = after.edited([PutSource(A, before.source(A)), Drop(("mcp_servers", "new"))])
    assert back.text == text


@pytest.mark.parametrize("name", ["files", "x.y"])
def test_an_inline_table_stays_one(name: str) -> None:
    path = ("mcp_servers", name)
    before = parse(INLINE.encode(), "toml")
    after = before.edited([Put((*path, "command"), "/m"), Put((*path, "args"), ["c"])])
    assert after.text.count("\n") == INLINE.count("\n") + (name == "x.y")
    assert after.edited([PutSource(path, before.source(path))]).text == INLINE


def test_a_text_is_put_in_the_form_that_the_file_has_now() -> None:
    """
    A program that writes the file anew may change how tables are written.
    """
    source = parse(CODEX.encode(), "toml").source(A)
    wanted = parse(CODEX.encode(), "toml").data["mcp_servers"]["a"]
    inline = 'mcp_servers = { a = { command = "/m" } }\n'
    assert (
        parse(edited(inline, PutSource(A, source)).encode(), "toml").data["mcp_servers"]["a"]
        == wanted
    )
    text = edited("[mcp_servers.a]\ncommand = '/m'\n", PutSource(A, '{ command = "x" }'))
    assert text == '[mcp_servers.a]\ncommand = "x"\n'


def test_a_removed_table_may_come_back_as_the_last_one() -> None:
    text = "[s.a]\nx = 1 # one\n\n[s.b]\ny = 2\n\n[z]\n"
    source = parse(text.encode(), "toml").source(("s", "a"))
    without = edited(text, Drop(("s", "a")))
    assert without == "[s.b]\ny = 2\n\n[z]\n"
    assert edited(without, PutSource(("s", "a"), source)) == (
        "[s.b]\ny = 2\n\n[s.a]\nx = 1 # one\n\n[z]\n"
    )


@pytest.mark.parametrize("source", ["1\nb = 2", "1 # x", "", "{", "[x]\ny = 1"])
def test_a_text_that_would_change_more_is_refused(source: str) -> None:
    with pytest.raises(ConfigError):
        edited("a = 0\n", PutSource(("a",), source))


def test_a_text_that_may_be_a_list_or_a_table_is_refused() -> None:
    source = parse(b"[1]", "toml").source(("1",))
    with pytest.raises(ConfigError, match="a list or a table"):
        edited("1 = 2\n", PutSource(("1",), source))


@pytest.mark.parametrize(
    ("path", "value"), [(("l", 0), 1), (("l", 1), 1), (("l", "x"), 1), (("l", 2), {})]
)
def test_a_list_of_tables_gets_tables_alone(path: tuple[str | int, ...], value: object) -> None:
    with pytest.raises(ConfigError):
        edited("[[l]]\na = 1\n", Put(path, value))


@pytest.mark.parametrize("value", [None, {"a": None}, "\ud800"])
def test_what_toml_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(ConfigError):
        edited("", Put(("t", "a"), value))


def test_errors_have_a_place() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(b"x = 1\n[mcp_servers.n]\ncommand = uvx\n", "toml")
    assert caught.value.details == {"line": 3, "column": 11}


def test_lines_are_those_of_headers_and_keys() -> None:
    file = parse(CODEX.encode(), "toml")
    assert [file.line(A), file.line((*A, "args")), file.line((*A, "nothing"))] == [4, 6, 4]
