"""What is hidden before a value is logged, stored or shown."""

from __future__ import annotations

import base64
import json
import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.redact import MASK, MIN_SECRET, Redactor
from tests.support.secret_forms import forms


def test_every_occurrence_is_hidden_in_text_and_in_bytes():
    redactor = Redactor(["hunter2-hunter2"])
    assert redactor.mask("a hunter2-hunter2 b hunter2-hunter2") == f"a {MASK} b {MASK}"
    assert redactor.mask_bytes(b"a hunter2-hunter2\n") == b"a ***\n"


def test_a_value_that_is_too_short_is_left_alone():
    """
    It would be found in everything, and the log would be unreadable.
    """
    assert Redactor(["x" * (MIN_SECRET - 1)]).mask("x" * 20) == "x" * 20
    assert Redactor(["x" * MIN_SECRET]).mask("a" + "x" * MIN_SECRET) == "a" + MASK


def test_of_two_secrets_the_one_within_the_other_leaves_no_rest():
    redactor = Redactor(["hunter2-1234", "hunter2-1234x"])
    assert redactor.mask("=hunter2-1234x=") == f"={MASK}="


def test_of_overlapping_secrets_nothing_is_left():
    assert Redactor(["abcdefgh", "efghijkl"]).mask("-abcdefghijkl-") == f"-{MASK}-"


def test_a_secret_of_several_lines_is_hidden_line_by_line():
    """
    A private key is logged a line at a time.
    """
    redactor = Redactor(["-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA\n-----END KEY-----\n"])
    assert redactor.mask("got MIIEpAIBAAKCAQEA") == f"got {MASK}"


def test_a_secret_is_found_as_json_writes_it():
    secret = 'pä"ss\\word\t'
    redactor = Redactor([secret])
    for ascii_only in (True, False):
        assert "word" not in redactor.mask(json.dumps({"x": secret}, ensure_ascii=ascii_only))


def test_bytes_that_are_no_utf8_are_compared_as_bytes():
    secret = b"\xff\xfe-binary-secret".decode("utf-8", "surrogateescape")
    assert Redactor([secret, "\ud800" * 8]).mask_bytes(b"<\xff\xfe-binary-secret>") == b"<***>"


def test_without_secrets_nothing_changes():
    assert not Redactor.NONE
    assert Redactor(["long enough"])
    assert Redactor.NONE.mask("anything") == "anything"


words = st.text("abc", min_size=MIN_SECRET, max_size=12)


@given(st.lists(words, min_size=1, max_size=4), st.data())
def test_no_secret_survives_wherever_it_stands(secrets: list[str], data: st.DataObject):
    text = "".join(
        data.draw(
            st.lists(st.one_of(st.sampled_from(secrets), st.text("abc-", max_size=5)), max_size=8)
        )
    )
    masked = Redactor(secrets).mask(text)
    assert not any(secret in masked for secret in secrets)
    assert Redactor(secrets).mask_bytes(text.encode()) == masked.encode()


ODD = [
    'pä"ss\\word\t',
    "plain-secret-0123",
    "a+b/c=d%e&f g?h#",
    "line one of it\nline two of it\n",
    "it's <so> 'quoted' & \"so\"",
    "пароль-пароль",
    "🔑🔑🔑🔑🔑🔑🔑🔑",
    "ends with a backslash\\",
    "\\\\server\\share\\new",
    "abc***defgh",
    "********",
    "%41%42%43%44",
    "\x1b[31mred\x07",
    "$HOME/`id`!x",
    "sk-ant-api03-AbC_dEf-123",
]


@pytest.mark.parametrize("secret", ODD)
def test_a_secret_is_found_however_it_is_written(secret: str):
    """
    B139: a server that logs a request as JSON, or a URL, writes another text than its environment has.
    """
    redactor = Redactor([secret])
    for form in forms(secret):
        masked = redactor.mask(f"<{form}>")
        assert MASK in masked, form
        runs = [run for run in re.findall(r"\w{3,}", secret) if run in masked]
        assert not runs, (form, masked)
        assert len(masked) <= 80, (form, masked)


@pytest.mark.parametrize("secret", ODD)
def test_nothing_of_what_stands_around_a_secret_is_lost(secret: str):
    around = "before it {} after it"
    for form in (secret, json.dumps(secret)[1:-1], quote(secret)):
        assert Redactor([secret]).mask(around.format(form)) == around.format(MASK)


def test_bytes_of_the_environment_that_are_no_utf8_are_found_in_decoded_output():
    """
    stderr is decoded with U+FFFD in their place, a log is encoded with question marks.
    """
    data = b"key-\xff\xfe\xe2\x82-of-bytes"
    redactor = Redactor([data.decode("utf-8", "surrogateescape")])
    text = data.decode(errors="surrogateescape")
    for form in (
        text,
        data.decode(errors="replace"),
        text.encode(errors="replace").decode(),
        json.dumps(text),
        json.dumps(data.decode(errors="replace")),
        repr(data),
        quote(data),
        base64.b64encode(b"u:" + data).decode(),
    ):
        masked = redactor.mask(form)
        assert MASK in masked and "of-bytes" not in masked and "key-" not in masked, form
    assert redactor.mask_bytes(b"<" + data + b">\xff") == b"<***>\xff"


def test_surrounding_blanks_are_no_part_of_a_secret():
    assert Redactor([" sentinel-1234\n"]).mask("is sentinel-1234, yes") == f"is {MASK}, yes"


@pytest.mark.parametrize("at", range(40))
def test_of_a_text_that_was_cut_no_part_of_a_secret_is_left(at: int):
    """
    The text comes from a stream that had to be cut before it could be masked.
    """
    redactor = Redactor(["Sentinel-0123456789"])
    text = "x" * 200 + "Sentinel-0123456789" + "y" * 40
    masked = redactor.mask_cut(text[: 195 + at])
    assert set(masked) <= set("x" + MASK)
    assert len(masked) >= 195 + at - 19 - redactor.reach


@pytest.mark.parametrize("limit", range(0, 60, 3))
def test_an_excerpt_is_masked_and_then_cut(limit: int):
    redactor = Redactor(["Sentinel-0123456789"])
    data = ("x" * 30 + "Sentinel-0123456789" + "y" * 1000).encode()
    assert redactor.excerpt(data, limit) == ("x" * 30 + MASK + "y" * 1000)[:limit]
    assert Redactor.NONE.excerpt(data, limit) == data[:limit].decode()


def test_an_excerpt_of_nothing_but_secrets_does_not_end_in_half_of_one():
    redactor = Redactor(["Sentinel-0123456789"])
    for more in range(40):
        data = b"x" * more + b"Sentinel-0123456789" * 1000
        assert set(redactor.excerpt(data, 100)) <= set("x" + MASK)


def test_the_number_of_secrets_does_not_count_for_text_that_holds_none(monkeypatch):
    """
    stderr is masked in the daemon's loop: a thousand patterns for each line would stop everybody.
    """
    redactor = Redactor([f"secret-number-{number}" for number in range(1000)])
    redactor.mask("")
    monkeypatch.setattr(
        "mcpd.redact._Needle.occurrences", lambda *_: pytest.fail("searched for each")
    )
    assert redactor.mask("nothing to see here\n" * 1000)


def test_no_secret_makes_the_search_explode():
    """
    Each of these would take centuries with a pattern that tries every way to read an escape.
    """
    for secret, text in (
        ("\\" * 40 + 'x"y', "\\" * 5000),
        ("%" * 40 + "abc", "%25" * 2000 + "abc"),
        ("\udcff" * 60 + "abc", "\ufffd" * 5000 + "abc"),
        ("&amp;" * 40 + "abc", "&amp;" * 1000 + "abx"),
        (" " * 40 + "abc", "+%20 " * 1000 + "abx"),
        ("'" * 40, "'\\''" * 1000),
        ("\n" * 40 + "abcdefgh", "\\r\\n" * 1000),
        ("+/" * 40, "+/\\/%2B%2f" * 500),
    ):
        Redactor([secret]).mask(text)
