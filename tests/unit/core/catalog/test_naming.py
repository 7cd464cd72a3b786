"""Qualified names, case by case; ``tests/property/test_names_are_unique.py`` has the rest."""

from __future__ import annotations

import re
from hashlib import sha256

import pytest

from mcpd.core.catalog.naming import qualify

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


def hash_of(server: str, name: str) -> str:
    return sha256(f"{server}\0{name}".encode()).hexdigest()[:10]


def one(servers: list[str], server: str, name: str) -> str:
    return qualify(servers, server, [name])[name]


@pytest.mark.parametrize(
    ("server", "name", "qualified"),
    [
        ("files", "read_file", "files__read_file"),
        ("beta-2", "echo", "beta-2__echo"),
        ("files", "read.file/x y", "files__read_file_x_y"),
        ("my server", "ünï", "my_server___n_"),
        ("files", "", "files__"),
        ("files", "__x__", "files____x__"),
        ("a", "b__c", "a__b__c"),
        ("files", "report_2024010112", "files__report_2024010112"),
    ],
)
def test_a_name_is_server_and_name_in_legal_characters(server: str, name: str, qualified: str):
    """
    B092: dots, slashes, spaces, letters of any script and the empty name.
    """
    assert one([server, "other"], server, name) == qualified


def test_a_name_of_64_characters_is_left_whole_and_a_longer_one_is_cut():
    """
    B092: one name that is too long makes the API refuse the whole request.
    """
    assert one(["s"], "s", "x" * 61) == "s__" + "x" * 61
    cut = one(["s"], "s", "x" * 62)
    assert cut == "s__" + "x" * 50 + "_" + hash_of("s", "x" * 62)
    assert len(cut) == 64
    both = qualify(["s" * 30], "s" * 30, ["t" * 60, "t" * 61])
    assert len(set(both.values())) == 2
    assert all(LEGAL.match(name) for name in both.values())


def test_a_server_name_that_alone_is_too_long_is_cut_too():
    names = {one(["s" * 200, "s" * 199], server, "t") for server in ("s" * 200, "s" * 199)}
    assert len(names) == 2
    assert all(LEGAL.match(name) for name in names)


def test_servers_that_look_alike_both_get_a_hash():
    """
    B093: ``x.y`` and ``x_y``. Both, so that adding one of them later renames the other at most once.
    """
    assert one(["x.y", "x_y"], "x.y", "t") == "x_y__t_" + hash_of("x.y", "t")
    assert one(["x.y", "x_y"], "x_y", "t") == "x_y__t_" + hash_of("x_y", "t")


def test_the_server_whose_name_goes_on_from_another_gets_the_hash():
    """
    ``a`` with ``b__c`` and ``a__b`` with ``c`` would be one name.
    """
    servers = ["a", "a__b"]
    assert one(servers, "a", "b__c") == "a__b__c"
    assert one(servers, "a__b", "c") == "a__b__c_" + hash_of("a__b", "c")


def test_a_server_name_that_ends_in_the_separator_gets_the_hash():
    """
    ``a`` with ``_c`` and ``a_`` with ``c`` would be one name as well.
    """
    servers = ["a", "a_"]
    assert one(servers, "a", "_c") == "a___c"
    assert one(servers, "a_", "c") == "a___c_" + hash_of("a_", "c")


def test_names_that_only_share_an_underscore_stay_plain():
    """
    B093: (``a_b``, ``c``) and (``a``, ``b_c``).
    """
    servers = ["a_b", "a"]
    assert one(servers, "a_b", "c") == "a_b__c"
    assert one(servers, "a", "b_c") == "a__b_c"


def test_two_names_of_one_server_that_look_alike_both_get_a_hash():
    names = qualify(["s"], "s", ["x.y", "x_y", "z"])
    assert names == {
        "x.y": "s__x_y_" + hash_of("s", "x.y"),
        "x_y": "s__x_y_" + hash_of("s", "x_y"),
        "z": "s__z",
    }


def test_names_that_differ_in_case_are_two_names():
    """
    B093.
    """
    assert qualify(["s"], "s", ["Search", "search"]) == {
        "Search": "s__Search",
        "search": "s__search",
    }


def test_a_name_listed_twice_does_not_collide_with_itself():
    assert qualify(["s"], "s", ["a", "a"]) == {"a": "s__a"}


def test_a_tool_cannot_take_the_hashed_name_of_another_server():
    """
    A hostile server knows how the hash is made; it must not receive what is meant for another.
    """
    servers = ["a", "a__b"]
    wanted = one(servers, "a__b", "c")
    forged = wanted.removeprefix("a__")
    assert one(servers, "a", forged) != wanted


def test_a_tool_cannot_take_a_hashed_name_of_its_own_server():
    wanted = qualify(["s"], "s", ["x.y", "x_y"])["x.y"]
    names = qualify(["s"], "s", ["x.y", "x_y", wanted.removeprefix("s__")])
    assert len(set(names.values())) == 3


def test_a_tool_cannot_take_a_name_that_was_cut():
    long = "s" * 70
    near = "s" * 51
    servers = [long + "__", near]
    wanted = one(servers, servers[0], "t")
    assert wanted.startswith(near)
    forged = wanted.removeprefix(near + "__")
    assert one(servers, near, forged) != wanted


def test_lone_surrogates_have_names_too():
    names = qualify(["s"], "s", ["\ud800", "\udc00"])
    assert len(set(names.values())) == 2
    assert all(LEGAL.match(name) for name in names.values())


def test_the_order_of_the_servers_does_not_matter():
    servers = ["a", "a__b", "x.y", "x_y"]
    for server in servers:
        assert one(servers, server, "t") == one(servers[::-1], server, "t")
