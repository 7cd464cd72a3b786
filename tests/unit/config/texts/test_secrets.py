"""What is secret in an entry, and how it looks without."""

from __future__ import annotations

import pytest

from mcpd.config.texts.interpolate import Piece, resolve
from mcpd.config.texts.secrets import Shown, is_secret_name, show, show_arguments

ENV = {
    "HOME": "/home/ada",
    "T": "hunter2-hunter2",
    "SHORT": "abc",
    "LINES": "first-line\nsecond-line",
}


def shown(text: str, *, secret: bool = False) -> Shown:
    return show(resolve(text, ENV), secret=secret)


@pytest.mark.parametrize(
    "name",
    [
        "TOKEN",
        "github_token",
        "apiKey",
        "X-API-KEY",
        "CLIENT_SECRET",
        "PGPASSWORD",
        "Authorization",
        "Cookie",
        "AWS_CREDENTIALS",
    ],
)
def test_a_name_says_that_what_stands_under_it_is_secret(name: str) -> None:
    assert is_secret_name(name)


def test_other_names_do_not() -> None:
    assert not any(map(is_secret_name, ("PATH", "PORT", "LOG_LEVEL", "https", "")))


def test_a_variable_is_shown_by_its_name() -> None:
    assert shown("a${T}b") == Shown("a${T}b", frozenset({"hunter2-hunter2"}))
    assert shown("$SHORT") == Shown("${SHORT}")


def test_where_the_user_lives_is_no_secret() -> None:
    """
    It is in most paths, and a log without them helps nobody.
    """
    assert shown("${HOME}/src") == shown("~/src") == Shown("/home/ada/src")


def test_a_literal_under_a_secret_name_is_masked_however_short() -> None:
    assert shown("literal-value", secret=True) == Shown("***", frozenset({"literal-value"}))
    assert shown("lit", secret=True) == Shown("***")
    assert shown("", secret=True) == Shown("")


def test_a_reference_alone_under_a_secret_name_stays_readable() -> None:
    assert shown("${T}", secret=True) == Shown("${T}", frozenset({"hunter2-hunter2"}))
    assert shown("pre-${T}", secret=True).text == "***"


@pytest.mark.parametrize(
    ("text", "seen", "secrets"),
    [
        ("--api-key=literal-value", "--api-key=***", {"literal-value"}),
        ("--api-key=${T}", "--api-key=${T}", {"hunter2-hunter2"}),
        ("API_KEY=literal-value", "API_KEY=***", {"literal-value"}),
        ("--port=8080", "--port=8080", set()),
        (
            "Authorization: Bearer abcdefghij",
            "Authorization: ***",
            {"Bearer abcdefghij", "abcdefghij"},
        ),
        ("Authorization:${T}", "Authorization:${T}", {"hunter2-hunter2"}),
        (
            "https://h/p?api_key=literal-value&x=1#f",
            "https://h/p?api_key=***&x=1#f",
            {"literal-value"},
        ),
        ("postgres://ada:literal-value@db/x", "postgres://ada:***@db/x", {"literal-value"}),
        (
            '{"Authorization": "Bearer abcdefghij", "Version": "2022"}',
            '{"Authorization": "***", "Version": "2022"}',
            {"Bearer abcdefghij", "abcdefghij"},
        ),
        ("?token=aaaaaaaa&key=bbbbbbbb", "?token=***&key=***", {"aaaaaaaa", "bbbbbbbb"}),
    ],
)
def test_a_secret_within_a_text_is_masked_and_the_rest_is_not(
    text: str, seen: str, secrets: set[str]
) -> None:
    """
    B139: secrets hide in options, headers, queries and JSON in a variable.
    """
    assert shown(text) == Shown(seen, frozenset(secrets))


def test_what_follows_a_secret_option_is_masked() -> None:
    arguments = ["--api-key", "literal-value", "--use-auth", "--verbose", "--port", "8080"]
    seen = show_arguments([(Piece(argument),) for argument in arguments])
    assert [each.text for each in seen] == [
        "--api-key",
        "***",
        "--use-auth",
        "--verbose",
        "--port",
        "8080",
    ]
    assert seen[1].secrets == {"literal-value"}


def test_each_line_of_a_secret_is_one() -> None:
    """
    A server's output is masked line by line, so a private key would slip through whole.
    """
    assert shown("$LINES").secrets == {"first-line\nsecond-line", "first-line", "second-line"}
