"""What is hidden before a value is logged, stored or shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.core.policy.redact import MASK, MIN_SECRET, Redactor, is_secret_key


@pytest.mark.parametrize(
    "name",
    [
        "TOKEN",
        "GITHUB_TOKEN",
        "api-key",
        "ApiKey",
        "client_secret",
        "DB_PASSWORD",
        "Authorization",
        "Set-Cookie",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ],
)
def test_a_key_that_names_a_secret_is_one(name: str):
    assert is_secret_key(name)


@pytest.mark.parametrize("name", ["", "PATH", "HOME", "LOG_LEVEL", "PASS", "URL"])
def test_any_other_key_is_none(name: str):
    assert not is_secret_key(name)


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
