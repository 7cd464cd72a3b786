"""What people have said of projects, on disk."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcpd.projects import kept
from mcpd.projects.kept import MOST_ANSWERS, Answer, ProjectsError


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where the file is to be."""
    return kept.path_in(str(tmp_path))


def answer(name: str, digest: str = "1") -> Answer:
    return Answer(name=name, hash=digest, at=1.0, shown=("runs x",))


def test_what_is_trusted_is_read_again(path: str):
    assert kept.read(path) == {}
    kept.trust(path, "/a", [answer("one"), answer("two")])
    kept.trust(path, "/b", [answer("one", "2")])
    known = kept.read(path)
    assert [*known] == ["/a", "/b"]
    assert known["/a"].has("one", "1")
    assert not known["/a"].has("one", "2")
    assert known["/a"].answer("one") == answer("one")
    assert known["/a"].answer("three") is None
    assert Path(path).stat().st_mode & 0o777 == 0o600


def test_several_contents_are_trusted_and_the_newest_is_compared(path: str):
    for digest in ("1", "2", "1"):
        kept.trust(path, "/a", [answer("one", digest)])
    known = kept.read(path)["/a"]
    assert known.has("one", "1")
    assert known.has("one", "2")
    assert known.answer("one") == answer("one", "1")
    assert [each.hash for each in known.trusted] == ["2", "1"]


def test_what_is_kept_of_a_server_is_bounded(path: str):
    for number in range(MOST_ANSWERS + 5):
        kept.trust(path, "/a", [answer("one", str(number)), answer("two")])
    known = kept.read(path)["/a"]
    assert [each.hash for each in known.trusted if each.name == "one"] == [
        str(number) for number in range(5, MOST_ANSWERS + 5)
    ]
    assert known.has("two", "1")


def test_it_is_taken_back(path: str):
    kept.trust(path, "/a", [answer("one"), answer("two")])
    kept.forget(path, "/a", ["one"])
    assert not kept.read(path)["/a"].has("one", "1")
    kept.forget(path, "/a", None)
    assert kept.read(path) == {}


def test_never_is_remembered_and_trust_takes_it_back(path: str):
    kept.trust(path, "/a", [answer("one")])
    kept.refuse(path, "/a", ["one"])
    assert kept.read(path)["/a"].never == ("one",)
    assert not kept.read(path)["/a"].has("one", "1")
    kept.trust(path, "/a", [answer("one")])
    assert kept.read(path)["/a"].never == ()
    kept.refuse(path, "/a", None)
    assert kept.read(path)["/a"].is_never
    kept.trust(path, "/a", [answer("one")])
    assert not kept.read(path)["/a"].is_never


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 9, "projects": []}', "\ud83d"])
def test_a_file_that_is_not_ours_is_an_error(path: str, text: str):
    Path(path).write_bytes(text.encode("utf-8", "surrogatepass"))
    Path(path).chmod(0o600)
    with pytest.raises(ProjectsError):
        kept.read(path)
    with pytest.raises(ProjectsError):
        kept.trust(path, "/a", [answer("one")])
    assert Path(path).read_bytes() == text.encode("utf-8", "surrogatepass")


def test_a_file_that_others_can_read_is_an_error(path: str):
    kept.trust(path, "/a", [answer("one")])
    Path(path).chmod(0o644)
    with pytest.raises(ProjectsError, match="cannot read") as refused:
        kept.read(path)
    assert refused.value.hint == f"chmod 600 {path}"


def test_a_link_is_an_error(path: str, tmp_path: Path):
    (tmp_path / "other").touch(mode=0o600)
    Path(path).symlink_to("other")
    with pytest.raises(ProjectsError):
        kept.read(path)


def test_a_directory_that_is_missing_is_an_error(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(ProjectsError, match="cannot write"):
        kept.trust(str(tmp_path / "file" / "projects.json"), "/a", [answer("one")])


def test_what_is_said_at_the_same_time_is_all_kept(path: str):
    homes = [f"/{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda home: kept.trust(path, home, [answer("one")]), homes))
    assert sorted(kept.read(path)) == sorted(homes)


def test_what_is_known_already_is_not_written_again(path: str):
    kept.trust(path, "/a", [answer("one")])
    before = Path(path).stat()
    kept.trust(path, "/a", [answer("one")])
    assert Path(path).stat() == before
    kept.forget(path, "/b", None)
    assert Path(path).stat() == before
