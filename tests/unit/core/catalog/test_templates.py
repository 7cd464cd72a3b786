"""URI templates."""

from __future__ import annotations

import time

import pytest

from mcpd.core.catalog.templates import MAX_URI_LENGTH, UriMatch, parse


def fits(template: str, uri: str) -> bool:
    return UriMatch(uri).any_of([template])


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("a:b", "a:b"),
        ("fake://item/{id}", "fake://item/3"),
        ("fake://item/{id}", "fake://item/a%20b?c"),
        ("fake://{x}/mid/{y}/end", "fake://a/mid/b/end"),
        ("{a}.{b}", "x.y"),
        ("{a}.{b}", "x.y.z"),
        ("{x,y}", "1,2"),
        ("file:///{+path}", "file:///a/b/c"),
        ("file:///{+path}.txt", "file:///a.txt/b.txt"),
        ("a{#frag}", "a#x/y"),
        ("a{#frag}", "a"),
        ("a{/b}", "a/x"),
        ("a{/b,c}", "a/x/y"),
        ("a{/b,c}", "a/x"),
        ("a{/b*}", "a/x/y/z"),
        ("a{.ext}", "a.txt"),
        ("a{;p}", "a;p=1"),
        ("a{?q,r}", "a?q=1&r=2"),
        ("a{?q,r}", "a"),
        ("a?x=1{&q}", "a?x=1&q=2"),
        ("a/{id:3}", "a/abc"),
        ("ä://{ö}", "ä://ü"),
        ("", ""),
    ],
)
def test_a_uri_fits_its_template(template: str, uri: str):
    assert fits(template, uri)


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("a:b", "a:bc"),
        ("a:b", "a:"),
        ("fake://item/{id}", "fake://item/"),
        ("fake://item/{id}", "fake://item/3/4"),
        ("fake://item/{id}", "xfake://item/3"),
        ("fake://item/{id}/x", "fake://item/3"),
        ("file:///{+path}.txt", "file:///a.md"),
        ("a{/b}", "a/"),
        ("a{/b,c}", "a/x/y/z"),
        ("a{?q}", "b?q=1"),
        ("{", "{"),
        ("a}", "a}"),
        ("{}", "x"),
        ("{+}", "x"),
        ("{a{b}}", "x"),
        ("{x}", ""),
    ],
)
def test_a_uri_that_is_no_expansion_does_not_fit(template: str, uri: str):
    assert not fits(template, uri)


def test_templates_made_to_backtrack_take_no_time():
    """
    A pattern of the same meaning tries every way to cut the URI into a hundred parts.
    """
    uri = "a" * MAX_URI_LENGTH
    began = time.perf_counter()
    assert not fits("{a}" * 100 + "/", uri)
    assert not fits("{+a}" * 100 + "!", uri)
    assert not fits("{/a}" * 100 + "!", uri)
    assert time.perf_counter() - began < 0.5


def test_a_server_with_endless_templates_takes_no_time():
    began = time.perf_counter()
    templates = ("{+a}" * 100 + f"!{n}" for n in range(1_000_000))
    assert not UriMatch("a" * MAX_URI_LENGTH).any_of(templates)
    assert time.perf_counter() - began < 0.5


def test_many_templates_for_other_uris_cost_nothing():
    templates = [f"x{n}://some/longer/path/with/{{id}}" for n in range(10_000)]
    assert UriMatch("x9999://some/longer/path/with/it").any_of(templates)


def test_what_is_too_long_fits_nothing():
    assert not fits("{a}", "a" * (MAX_URI_LENGTH + 1))
    assert parse("a" * 3000) is None
