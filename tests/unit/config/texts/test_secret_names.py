"""What names a secret, what looks like one, and what only seems to."""

from __future__ import annotations

import time

import pytest

from mcpd.config.texts.interpolate import Piece
from mcpd.config.texts.secrets import SHAPES, is_secret_name, show, show_arguments

SECRET = [
    "TOKEN",
    "github_token",
    "apiKey",
    "APIKEY",
    "X-API-KEY",
    "X-Goog-Api-Key",
    "OPENAI_API_KEY",
    "API_KEYS",
    "PGPASSWORD",
    "CLIENT_SECRET",
    "clientSecret",
    "Authorization",
    "Proxy-Authorization",
    "Cookie",
    "Set-Cookie",
    "AWS_CREDENTIALS",
    "AWS_SECRET_ACCESS_KEY",
    "AccountKey",
    "SharedAccessKey",
    "SharedAccessSignature",
    "--pat",
    "GITHUB_PAT",
    "AZURE_DEVOPS_EXT_PAT",
    "--passwd",
    "DB_PASSWD",
    "--pwd",
    "DB_PWD",
    "Pwd",
    "--passphrase",
    "SMTP_PASS",
    "--pass",
    "--bearer",
    "bearerToken",
    "--private-key",
    "PRIVATE_KEY",
    "--private",
    "signature",
    "X-Amz-Signature",
    "sig",
    "--dsn",
    "SENTRY_DSN",
    "--connection-string",
    "ConnectionString",
    "CONNECTION_STRING",
    "connectionstring",
    "--conn-str",
    "NPM_AUTHTOKEN",
    "authtoken",
    "--auth",
    "oauth",
    "OAUTH2_TOKEN",
    "access_token",
    "ACCESSTOKEN",
    "refreshToken",
    "id_token",
    "jwt",
    "MAX_TOKEN_SECRET",
    "secretkey",
    "db.password",
    "user-password",
    "passkey",
]
HARMLESS = [
    "PATH",
    "--path",
    "--patch",
    "--pattern",
    "PORT",
    "LOG_LEVEL",
    "https",
    "author",
    "--author",
    "AUTHORS",
    "authority",
    "XAUTHORITY",
    "keyboard",
    "--keyboard",
    "keyword",
    "KEYWORDS",
    "monkey",
    "--hotkey",
    "--max-tokens",
    "MAX_TOKENS",
    "maxTokens",
    "max_output_tokens",
    "token-budget",
    "TOKEN_LIMIT",
    "tokens-per-minute",
    "compass",
    "passive",
    "--pass-through",
    "--pass-env",
    "passport",
    "--signal",
    "--design",
    "PWD",
    "OLDPWD",
    "spatial",
    "company",
    "bypassed",
    "secretary",
    "--cookbook",
    "tokenizer",
    "TOKENIZERS_PARALLELISM",
    "keyring",
]


@pytest.mark.parametrize("name", SECRET)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["", *HARMLESS])
def test_names_that_only_hold_the_letters_of_such_a_word(name: str) -> None:
    """
    What is masked without need helps nobody: the command line cannot be read any more.
    """
    assert not is_secret_name(name)


X = "Xy0-Xy0-Xy0"


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ([f"--header=Authorization: Bearer {X}"], ["--header=Authorization: ***"]),
        (["--header", f"Authorization: Bearer {X}"], ["--header", "Authorization: ***"]),
        (["--header", f"X-Trace: Bearer {X}"], ["--header", "X-Trace: Bearer ***"]),
        (["-H", f"X-Api-Key:{X}"], ["-H", "X-Api-Key:***"]),
        ([f"-HX-Api-Key: {X}"], ["-HX-Api-Key: ***"]),
        ([f"--env=API_KEY={X}"], ["--env=API_KEY=***"]),
        (["-e", f"API_KEY={X}"], ["-e", "API_KEY=***"]),
        ([f"-eAPI_KEY={X}"], ["-eAPI_KEY=***"]),
        (["--pat", X], ["--pat", "***"]),
        ([f"--pat={X}"], ["--pat=***"]),
        ([f"--dsn=postgres://u:{X}@h/db"], ["--dsn=***"]),
        ([f"postgres://u:{X}@h/db"], ["postgres://u:***@h/db"]),
        (["postgres://u:a@b/c"], ["postgres://u:***@b/c"]),
        ([f"--db=redis://:{X}/{X}@h/0"], ["--db=redis://:***@h/0"]),
        (["--dsn", f"host=h password={X}"], ["--dsn", "***"]),
        (["--db", f"host=h password={X} user=u"], ["--db", "host=h password=*** user=u"]),
        (["--db", f"host=h password='{X} x' user=u"], ["--db", "host=h password='***' user=u"]),
        (["--connection-string", f"Server=h;Password={X};User=u"], ["--connection-string", "***"]),
        ([f"Server=h;Password={X} x;User Id=u"], ["Server=h;Password=***;User Id=u"]),
        (
            [f"AccountName=a;AccountKey={X}==;Suffix=x"],
            ["AccountName=a;AccountKey=***;Suffix=x"],
        ),
        ([f"https://{X}@example.org/x"], ["https://***@example.org/x"]),
        ([f"git+https://{X}:x-oauth-basic@h/x"], ["git+https://***:***@h/x"]),
        ([f"https://h/p?sig={X}&x=1#f"], ["https://h/p?sig=***&x=1#f"]),
        ([f'{{"a": {{"token": "{X}", "b": "c"}}}}'], ['{"a": {"token": "***", "b": "c"}}']),
        ([f"{{'token': '{X}'}}"], ["{'token': '***'}"]),
        ([f'{{"a": "{{\\"token\\": \\"{X}\\"}}"}}'], ['{"a": "{\\"token\\": \\"***\\"}"}']),
        (["-c", f"export TOKEN={X}; run --api-key {X} --port 80"],
         ["-c", "export TOKEN=***; run --api-key *** --port 80"]),
        (["-c", f"curl -H 'Authorization: Bearer {X}' http://h"],
         ["-c", "curl -H 'Authorization: ***' http://h"]),
    ],
)  # fmt: skip
def test_a_secret_in_arguments_is_masked_and_looked_for(
    arguments: list[str], seen: list[str]
) -> None:
    shown = show_arguments([(Piece(argument),) for argument in arguments])
    assert [each.text for each in shown] == seen
    found = frozenset().union(*(each.secrets for each in shown))
    if any(X in argument for argument in arguments):
        assert any(X in secret for secret in found)


@pytest.mark.parametrize(
    "argument",
    [
        "--path=/a/b", "--pattern=x", "--max-tokens=100", "--author=Ada <ada@example.org>",
        "http://localhost:8080/@scope/package", "http://localhost:8080/a@1.2", "npm:@scope/x@1.0",
        "ssh://git@github.com/x/y", "postgres://ada@db/x", "--url=https://example.org/?page=2",
        "--mode=Basic authentication", "C:\\Users\\ada", "a=b,c=d", "@modelcontextprotocol/server-x",
        "sk-some-package-name-in-lower-case", "pypi-query-mcp-server", "task-0123456789abcdefghijkl",
        "src=/home/ada,dst=/work,ro", "type=bind;a=b", "--format={{.Name}}: {{.Key}}",
    ],
)  # fmt: skip
def test_an_argument_without_a_secret_is_shown_as_it_is(argument: str) -> None:
    (shown,) = show_arguments([(Piece(argument),)])
    assert (shown.text, shown.secrets) == (argument, frozenset())


LETTERS = "aB3dE5gH7jK9mN1pQ2sT4vW6yZ8cF0hJ"
TOKENS = {
    "GitHub": ["ghp_" + LETTERS + "abcd", "gho_" + LETTERS + "abcd", "github_pat_" + LETTERS],
    "GitLab": ["glpat-" + LETTERS[:20]],
    "OpenAI, Anthropic": ["sk-" + LETTERS, "sk-proj-" + LETTERS, "sk-ant-api03-" + LETTERS],
    "Stripe": ["sk_live_" + LETTERS, "rk_test_" + LETTERS, "whsec_" + LETTERS],
    "Slack": ["xoxb-1234567890-" + LETTERS, "xapp-1-" + LETTERS],
    "AWS": ["AKIAIOSFODNN7EXAMPLE"],
    "Google": ["AIza" + LETTERS + "abc", "ya29." + LETTERS, "GOCSPX-" + LETTERS[:28]],
    "npm": ["npm_" + LETTERS + "abcd"],
    "PyPI": ["pypi-AgEIcHlwaS5vcmc" + LETTERS],
    "Hugging Face": ["hf_" + "abCd" * 8 + "ab"],
    "Notion": ["ntn_" + LETTERS + "0123456789abcd", "secret_" + LETTERS + "0123456789a"],
    "Figma": ["figd_" + LETTERS],
    "Linear": ["lin_api_" + LETTERS + "abcdefgh"],
    "DigitalOcean": ["dop_v1_" + "0a" * 32],
    "SendGrid": ["SG." + LETTERS[:22] + "." + LETTERS + "abcdefghijk"],
    "xAI and others": ["xai-" + LETTERS * 2, "gsk_" + LETTERS + "abcdefghijkl"],
    "Atlassian": ["ATATT3" + LETTERS],
    "Vault": ["hvs." + LETTERS],
    "Docker and others": ["dckr_pat_" + LETTERS, "glsa_" + LETTERS + "_0a0a0a0a"],
    "Telegram": ["123456789:AAE" + LETTERS],
    "JWT": ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9Pl"],
    "webhooks": [],
}


def test_every_shape_has_an_example() -> None:
    assert TOKENS.keys() == SHAPES.keys()


@pytest.mark.parametrize("token", [token for tokens in TOKENS.values() for token in tokens])
def test_a_bare_token_of_a_known_shape_is_masked(token: str) -> None:
    """
    No name says what it is: it is the argument, or somewhere in it.
    """
    for text in ("{}", "x={}", "/{}?x", "a {} b", '"{}"'):
        shown = show((Piece(text.format(token)),))
        assert shown.text == text.format("***")
        assert token in shown.secrets


def test_what_makes_a_webhook_secret_is_masked() -> None:
    for before, secret in (
        ("https://hooks.slack.com/services/", "T00000000/B00000000/" + LETTERS[:24]),
        ("https://discord.com/api/webhooks/", "123456789012345678/" + LETTERS * 2),
    ):
        shown = show((Piece(before + secret),))
        assert (shown.text, shown.secrets) == (before + "***", {secret})


@pytest.mark.parametrize("newline", ["\n", "\\n"])
@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_a_private_key_is_masked_as_a_whole_and_line_by_line(kind: str, newline: str) -> None:
    lines = [
        f"-----BEGIN {kind}PRIVATE KEY-----",
        "MIIEpAIBAAKCAQEA",
        f"-----END {kind}PRIVATE KEY-----",
    ]
    shown = show((Piece(f"x {newline.join(lines)} y"),))
    assert shown.text == "x *** y"
    assert {newline.join(lines), lines[1]} <= shown.secrets


@pytest.mark.parametrize(
    "text",
    [
        "://x:y" * 50000, "?a=" * 90000, "a:" * 120000, "--a " * 60000, '"a' * 120000, "a;" * 120000,
        "password=" * 30000, "'a'" * 90000, "-----BEGIN PRIVATE KEY-----" * 9000, "eyJ" + "a" * 250000,
        "eyJaaaaaaaaaaaa." * 15000, "a b " * 60000, "\\" * 250000, '\\"a' * 90000, "sk-" * 90000,
        "A" * 250000, "Basic " + "a" * 250000, "a-" * 120000,
    ],
)  # fmt: skip
def test_no_argument_takes_long_to_look_at(text: str) -> None:
    """
    Clients bring command lines, and the daemon looks at them in its loop.
    """
    began = time.perf_counter()
    show((Piece(text),))
    assert time.perf_counter() - began < 20
