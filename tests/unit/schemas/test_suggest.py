"""Near names."""

from __future__ import annotations

import time

import pytest

from mcpd.schemas.suggest import MAX_CANDIDATES, nearest

TOOLS = ["echo", "read_file", "write_file", "list_directory", "search", "Search"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("ecko", "echo"),
        ("readfile", "read_file"),
        ("LIST_DIRECTORY", "list_directory"),
        ("serach", "search"),
    ],
)
def test_the_nearest_name_comes_first(name: str, near: str):
    assert nearest(name, TOOLS)[0] == near


def test_a_name_like_no_other_has_no_near_ones():
    assert nearest("zzz", TOOLS) == []
    assert nearest("", TOOLS) == []
    assert nearest("x", []) == []


def test_at_most_n_are_told_and_none_twice():
    assert nearest("file", ["file1", "file2", "file3", "file4"]) == ["file1", "file2", "file3"]
    assert nearest("file", ["file1", "file1"], n=5) == ["file1"]


def test_what_a_hostile_server_lists_takes_no_time():
    """
    The comparison is quadratic in the length of names that are nearly equal.
    """
    wanted = "ab" * 50
    candidates = ("ab" * 50 + "x" * 1000 + str(n) for n in range(1_000_000))
    began = time.thread_time()
    nearest(wanted, candidates)
    assert time.thread_time() - began < 0.25


def test_only_the_first_candidates_are_looked_at():
    names = (f"name{n}" for n in range(10 * MAX_CANDIDATES))
    nearest("name", names)
    assert next(names) == f"name{MAX_CANDIDATES}"
