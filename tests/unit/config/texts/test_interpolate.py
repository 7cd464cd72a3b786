"""Variables and the home directory in text."""

from __future__ import annotations

import pytest

from mcpd.config.texts import workspace
from mcpd.config.texts.interpolate import Piece, Unresolved, joined, resolve

ENV = {"HOME": "/home/ada", "V": "value", "W_1": "w", "EMPTY": "", "TRAP": "$V ${V} ~", "S": "/s"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("", ""),
        ("plain", "plain"),
        ("$V", "value"),
        ("$V!", "value!"),
        ("$W_1x", None),
        ("${W_1}x", "wx"),
        ("${V}", "value"),
        ("${env:V}", "value"),
        ("a${V}b$V", "avaluebvalue"),
        ("${EMPTY}", ""),
        ("${EMPTY:-d}", "d"),
        ("${V:-d}", "value"),
        ("${NO:-d}", "d"),
        ("${NO:-}", ""),
        ("${env:NO:-d}", "d"),
        ('${NO:-{"a": {}}}', '{"a": {}}'),
        ("${NO:-a}}", "a}"),
        ("${NO:-${V}}", "value"),
        ("${NO:-${NEITHER:-${V}}}!", "value!"),
        ("${V:-${NO}}", "value"),
        ("${NO:-$$}", "$"),
        ("$$V", "$V"),
        ("$$$V", "$value"),
        ("$$${V}", "$value"),
        ("$", "$"),
        ("5$ $1 $(x) $-", "5$ $1 $(x) $-"),
        ("$TRAP", "$V ${V} ~"),
        ("~", "/home/ada"),
        ("~/src", "/home/ada/src"),
        ("~$S", "/home/ada/s"),
        ("${NO:-~/src}", "/home/ada/src"),
        ("~bob/x", "~bob/x"),
        ("a~b", "a~b"),
        ("/tmp/~x", "/tmp/~x"),
        ("--dir=~/x", "--dir=~/x"),
        ("~~", "~~"),
    ],
)
def test_text_comes_to(written: str, meant: str | None) -> None:
    """
    B101 and B104: one rule for every field, and never an empty string for what is not set.
    """
    if meant is None:
        with pytest.raises(Unresolved, match="W_1x is not set"):
            resolve(written, ENV)
    else:
        assert joined(resolve(written, ENV)) == meant


@pytest.mark.parametrize(
    "written", ["$NO", "${NO}", "${env:NO}", "a${NO}b", "${NO:-${NEITHER}}", "$workspaceFolder"]
)
def test_a_variable_that_is_not_set_is_named(written: str) -> None:
    with pytest.raises(Unresolved, match="is not set") as caught:
        resolve(written, ENV)
    assert caught.value.variable in ("NO", "NEITHER", "workspaceFolder")


@pytest.mark.parametrize(
    "written",
    [
        "${",
        "${V",
        "${NO:-{}",
        "${}",
        "${1}",
        "${input:token}",
        "${V-d}",
        "${V:?d}",
        "${V }",
        "${NO:-" * 30 + "x" + "}" * 30,
    ],
)
def test_a_form_that_is_not_known_is_an_error(written: str) -> None:
    with pytest.raises(Unresolved) as caught:
        resolve(written, ENV)
    assert caught.value.variable is None


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_a_home_directory_that_is_not_set_is_an_error(home: str | None) -> None:
    env = {} if home is None else {"HOME": home}
    with pytest.raises(Unresolved, match="HOME is not set"):
        resolve("~/x", env)


def test_the_root_directory_may_be_the_home_directory() -> None:
    assert joined(resolve("~", {"HOME": "/"})) == "/"
    assert joined(resolve("~/x", {"HOME": "/"})) == "/x"
    assert joined(resolve("~/x", {"HOME": "/root/"})) == "/root/x"


def test_each_part_says_where_it_came_from() -> None:
    assert resolve("a${V}b${NO:-c}", ENV) == (
        Piece("a"),
        Piece("value", "V"),
        Piece("b"),
        Piece("c"),
    )


def test_an_editors_words_are_understood() -> None:
    """
    B103: the workspace is not known yet, and home is no place to take for it.
    """
    assert resolve("a${workspaceFolder}/b", ENV) == (
        Piece("a"),
        Piece(workspace.FOLDER, "workspaceFolder"),
        Piece("/b"),
    )
    assert joined(resolve("${workspaceFolderBasename}", ENV)) == workspace.BASENAME
    assert joined(resolve("${userHome}/b", ENV)) == ENV["HOME"] + "/b"
    told = {**ENV, "userHome": "/x"}
    assert joined(resolve("${env:userHome}", told)) == "/x"


@pytest.mark.parametrize("written", ["${workspaceFolder:-~}", "${userHome:-/x}"])
def test_an_editors_words_have_no_default(written: str) -> None:
    """
    B103: never home.
    """
    with pytest.raises(Unresolved, match="has no default"):
        resolve(written, ENV)
