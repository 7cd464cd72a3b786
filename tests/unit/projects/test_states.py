"""Which servers of a project are trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpd.formats.document import Document
from mcpd.projects.files import Project
from mcpd.projects.kept import Answer, Kept
from mcpd.projects.offer import Offer
from mcpd.projects.states import is_within, states


def project(**hashes: str) -> Project:
    offers = {
        name: Offer(
            name=name, file="/p/.mcp.json", path=(), document=Document(""), content={}, hash=digest
        )
        for name, digest in hashes.items()
    }
    return Project(workspace="/p", directory="/p", home="/main", offers=offers)


def kept(*answers: tuple[str, str], **more: object) -> dict[str, Kept]:
    trusted = tuple(Answer(name=name, hash=digest, at=1.0) for name, digest in answers)
    return {"/main": Kept(dir="/main", trusted=trusted, **more)}  # type: ignore[arg-type]


def test_each_entry_is_compared_by_its_hash():
    offered = project(one="1", two="2", new="3")
    found = states(offered, kept(("one", "1"), ("two", "x")), ())
    assert found == {"one": "trusted", "two": "changed", "new": "untrusted"}


def test_what_is_trusted_elsewhere_is_not_trusted_here():
    assert states(project(one="1"), {"/p": kept(("one", "1"))["/main"]}, ()) == {"one": "untrusted"}


def test_never_is_for_a_server_or_for_all():
    offered = project(one="1", two="2")
    assert states(offered, kept(never=("two",)), ()) == {"one": "untrusted", "two": "never"}
    assert set(states(offered, kept(is_never=True), ()).values()) == {"never"}


def test_a_trusted_directory_asks_nothing():
    assert states(project(one="1"), {}, ("/p",)) == {"one": "trusted"}


@pytest.mark.parametrize(
    ("directory", "pattern", "is_in"),
    [
        ("/src/a", "/src/a", True),
        ("/src/a/x/y", "/src/a", True),
        ("/src/a-evil", "/src/a", False),
        ("/src", "/src/a", False),
        ("/src/a", "/src/*", True),
        ("/src", "/src/*", False),
        ("/src/a/b", "/src/*/b", True),
        ("/src/a/c/b", "/src/*/b", False),
        ("/src/ab", "/src/a*", True),
        ("/src/[a]", "/src/[a]", True),
        ("/src/a", "/src/[a]", False),
        ("/src/a", "/src/?", False),
        ("/home/x/a", "~/a", True),
        ("/home/xa", "~", False),
        ("/other/a", "~/a", False),
        ("/src/a", "/src/a/", True),
        ("/src/a", "//src//a", True),
        ("/src/a", "/", False),
        ("/src/a", "", False),
        ("/home/xa/b", "~a/b", False),
    ],
)
def test_whole_parts_of_a_path_are_compared(
    directory: str, pattern: str, is_in: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", "/home/x")
    assert is_within(directory, pattern) is is_in


def test_the_configuration_may_name_a_link(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert is_within(str(tmp_path / "real" / "a"), f"{tmp_path}/link/*")
