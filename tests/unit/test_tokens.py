"""Tokens: their file, and who may change it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from mcpd import tokens
from mcpd.tokens import TokensError


@pytest.fixture
def path(tmp_path):
    return tokens.path_in(str(tmp_path / "state"))


def test_without_a_file_there_are_no_tokens(path):
    assert tokens.read(path) == ()


def test_a_token_is_kept_as_its_hash_in_a_private_file(path):
    token, text = tokens.create(path, "laptop", now=1.0)
    assert text.startswith("mcpd_") and len(text) >= 48
    assert tokens.read(path) == (token,)
    with open(path) as file:
        kept = file.read()
    assert token.sha256 in kept
    assert text not in kept
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_token_is_found_by_its_text_alone(path):
    token, text = tokens.create(path, "a", now=1.0)
    other, _ = tokens.create(path, "b", now=1.0)
    assert tokens.find([token, other], text, 2.0) == token
    assert tokens.find([token, other], text + "x", 2.0) is None
    assert tokens.find([], text, 2.0) is None


def test_a_token_whose_time_is_over_is_not_found(path):
    token, text = tokens.create(path, "a", now=100.0, lifetime=10.0)
    assert tokens.find([token], text, 109.9) == token
    assert tokens.find([token], text, 110.0) is None


def test_a_name_is_given_once(path):
    tokens.create(path, "a", now=1.0)
    with pytest.raises(TokensError, match="already"):
        tokens.create(path, "a", now=2.0)
    assert len(tokens.read(path)) == 1


def test_what_a_token_may_use_is_kept(path):
    token, _ = tokens.create(
        path, "a", now=1.0, servers=["x", "y"], tools=["get_*"], read_only=True
    )
    assert tokens.read(path) == (token,)
    assert (token.servers, token.tools, token.read_only) == (("x", "y"), ("get_*",), True)


def test_a_revoked_token_is_gone(path):
    tokens.create(path, "a", now=1.0)
    kept, _ = tokens.create(path, "b", now=1.0)
    assert tokens.revoke(path, "a").name == "a"
    assert tokens.read(path) == (kept,)
    with pytest.raises(TokensError, match="no token"):
        tokens.revoke(path, "a")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"version":2,"tokens":[]}',
        b'{"version":1,"tokens":[{"name":"x"}]}',
        b"\xff",
    ],
)
def test_another_file_is_an_error_and_is_never_overwritten(path, content):
    os.makedirs(os.path.dirname(path))
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, 0o600)
    with pytest.raises(TokensError, match=r"tokens\.json"):
        tokens.read(path)
    with pytest.raises(TokensError):
        tokens.create(path, "a", now=1.0)
    with open(path, "rb") as file:
        assert file.read() == content


def test_a_file_that_others_can_read_is_refused(path):
    tokens.create(path, "a", now=1.0)
    os.chmod(path, 0o640)
    with pytest.raises(TokensError, match="others") as raised:
        tokens.read(path)
    assert raised.value.hint == f"chmod 600 {path}"


def test_a_link_is_not_followed(path, tmp_path):
    tokens.create(path, "a", now=1.0)
    other = tmp_path / "link"
    other.symlink_to(path)
    with pytest.raises(TokensError):
        tokens.read(str(other))


def test_changes_at_the_same_time_are_all_made(path):
    script = (
        "import sys; from mcpd import tokens\n"
        "for n in range(5): tokens.create(sys.argv[1], sys.argv[2] + str(n), now=1.0)"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, path, f"{who}-"]) for who in range(4)
    ]
    assert [each.wait() for each in running] == [0, 0, 0, 0]
    assert {token.name for token in tokens.read(path)} == {
        f"{who}-{n}" for who in range(4) for n in range(5)
    }
