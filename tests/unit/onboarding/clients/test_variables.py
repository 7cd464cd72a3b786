"""What the same text means in a client, and in mcpd."""

from __future__ import annotations

import pytest

from mcpd.onboarding.clients.client import Part
from mcpd.onboarding.clients.table import BY_ID, CLIENTS
from mcpd.onboarding.clients.variables import Unmovable, normal, translated
from tests.support.clients import expand

ENV = {"FOO": "bar", "EMPTY": ""}

ROWS: list[tuple[str, Part, str, str]] = [
    ("claude-code", "env", "${FOO}/$FOO", "bar/$FOO"),
    ("claude-code", "args", "${NOPE:-d}", "d"),
    ("claude-code", "url", "https://${NOPE:-h}/$x", "https://h/$x"),
    ("claude-code", "env", "${NOPE:-$FOO}", "$FOO"),
    ("claude-code", "args", "a${/}b", "a${/}b"),
    ("claude-desktop", "env", "${FOO} $$ {env:FOO} %FOO%", "${FOO} $$ {env:FOO} %FOO%"),
    ("cursor", "headers", "${env:FOO}-$FOO-${FOO}", "bar-$FOO-${FOO}"),
    ("cursor", "args", "a${pathSeparator}b${/}c", "a/b/c"),
    ("cursor", "args", "${userHome}/x", "/nowhere/x"),
    ("vscode", "env", "${env:FOO}", "bar"),
    ("windsurf", "url", "https://${env:FOO}", "https://bar"),
    ("cline", "env", "${FOO}$FOO", "${FOO}$FOO"),
    ("cline-cli", "env", "${env:FOO}", "${env:FOO}"),
    ("roo-code", "cwd", "x${env:NOPE}", "x"),
    ("zed", "env", "$FOO ${FOO}", "$FOO ${FOO}"),
    ("codex", "env", "pa$$word$FOO${FOO}", "pa$$word$FOO${FOO}"),
    ("gemini-cli", "args", "$FOO ${FOO} ${NOPE:-d}", "bar bar d"),
    ("gemini-cli", "env", "x$NOPE%FOO%", "xbar"),
    ("gemini-cli", "args", "%FOO%", "%FOO%"),
    ("qwen-code", "env", "$FOO ${NOPE:-d}", "bar ${NOPE:-d}"),
    ("opencode", "env", "{env:FOO}$FOO", "bar$FOO"),
    ("opencode", "args", "x{env:NOPE}", "x"),
    ("goose", "env", "$FOO", "$FOO"),
    ("continue", "env", "$FOO", "$FOO"),
    ("copilot-cli", "headers", "$FOO ${NOPE:-d}", "bar d"),
    ("copilot-cli", "command", "$FOO", "$FOO"),
    ("crush", "env", "$FOO ${FOO}", "bar bar"),
    ("kiro", "env", "${FOO}", "bar"),
    ("kiro", "args", "${FOO}", "${FOO}"),
    ("amazon-q", "env", "${env:FOO}", "bar"),
    ("amazon-q", "args", "${env:FOO}", "${env:FOO}"),
    ("mcporter", "env", "${FOO}x${NOPE}${env:FOO}", "barxbar"),
    ("mcporter", "args", "${env:FOO}", "${env:FOO}"),
    ("droid", "env", "${FOO}${NOPE:-d}", "bard"),
    ("droid", "args", "${FOO}", "${FOO}"),
    ("amp", "args", "${FOO}$FOO", "bar$FOO"),
    ("kimi-code", "env", "${FOO}", "${FOO}"),
    ("junie", "env", "${FOO}", "${FOO}"),
    ("lm-studio", "env", "${FOO}", "${FOO}"),
    ("antigravity", "env", "${env:FOO}", "${env:FOO}"),
]


@pytest.mark.parametrize(("client", "part", "text", "meant"), ROWS)
def test_a_text_means_what_it_meant_in_the_client(
    client: str, part: Part, text: str, meant: str
) -> None:
    assert expand(translated(text, BY_ID[client].variables, part), ENV) == meant


def test_every_client_has_a_row() -> None:
    assert {client.id for client in CLIENTS} == {row[0] for row in ROWS}


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("vscode", "${input:api-key}"),
        ("vscode", "${workspaceFolder}"),
        ("vscode", "${config:editor.fontSize}"),
        ("vscode", "${anything}"),
        ("cursor", "${workspaceFolder}/src"),
        ("cursor", "${workspaceFolderBasename}"),
        ("roo-code", "${workspaceFolder}"),
        ("windsurf", "${file:/etc/key}"),
        ("opencode", "{file:~/.key}"),
        ("continue", "${{ secrets.MY_KEY }}"),
        ("crush", "$(cat key)"),
        ("crush", "`cat key`"),
        ("crush", "${FOO%x}"),
        ("claude-code", "${CLAUDE_PROJECT_DIR}"),
    ],
)
def test_what_only_the_client_can_resolve_is_named(client: str, text: str) -> None:
    with pytest.raises(Unmovable) as why:
        translated(f"a {text} b", BY_ID[client].variables, "env")
    assert text.removesuffix("/src") in str(why.value)


def test_a_default_with_a_variable_in_it_is_not_guessed() -> None:
    """Claude Code ends it at the first brace, and mcpd at the one that belongs to it."""
    with pytest.raises(Unmovable, match="default"):
        translated("${A:-${B}/x}", BY_ID["claude-code"].variables, "env")


def test_a_name_that_no_variable_of_ours_can_have_is_named() -> None:
    with pytest.raises(Unmovable, match=r"\$\{env:a-b\} is not the name"):
        translated("${env:a-b}", BY_ID["vscode"].variables, "env")


def test_an_answer_takes_the_place_of_the_question() -> None:
    text = translated("key=${input:k}$x", BY_ID["vscode"].variables, "args", {"${input:k}": "a$b"})
    assert expand(text, {}) == "key=a$b$x"


@pytest.mark.parametrize(
    ("text", "same"),
    [("$A/${env:B}", "${A}/${B}"), ("${A:-d}", "${A:-d}"), ("$$A", "$$A"), ("$$$A", "$$${A}")],
)
def test_texts_are_compared_in_one_spelling(text: str, same: str) -> None:
    assert normal(text) == same
