"""A text with servers, in any client's format."""

from __future__ import annotations

import pytest

from mcpd.errors import ConfigError
from mcpd.onboarding.clients import snippet
from mcpd.onboarding.clients.table import CLIENTS
from tests.support.clients import FILES, WRITTEN, entry, written

UVX = {"command": "uvx", "args": ["x"]}


@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.id)
def test_a_whole_file_of_any_client_is_read(client) -> None:
    (found,) = snippet.read(written(client, {"x": entry("uvx", "x")}))
    assert (found.name, found.entry) == ("x", UVX)


@pytest.mark.parametrize("client", WRITTEN)
def test_a_file_that_a_program_wrote_is_read(client: str) -> None:
    names = {each.name for each in snippet.read((FILES / WRITTEN[client]).read_text())}
    assert names & {"notes", "clock"}


@pytest.mark.parametrize(
    "text",
    [
        '{"x": {"command": "uvx", "args": ["x"]}}',
        '"mcpServers": {"x": {"command": "uvx", "args": ["x"]}},',
        '"x": {"command": "uvx", "args": ["x"]}',
        '// paste this\n{"mcpServers": {"x": {"command": "uvx", "args": ["x"],},}}',
        '[mcp_servers.x]\ncommand = "uvx"\nargs = ["x"]\n',
        "mcpServers:\n  x:\n    command: uvx\n    args: [x]\n",
        "mcpServers:\n  - name: x\n    command: uvx\n    args:\n      - x\n",
        '{"context_servers": {"x": {"command": {"path": "uvx", "args": ["x"]}}}}',
        '{"mcp": {"servers": {"x": {"type": "local", "command": ["uvx", "x"]}}}}',
    ],
)
def test_a_part_of_a_file_is_read(text: str) -> None:
    (found,) = snippet.read(text)
    assert (found.name, found.entry) == ("x", UVX)


def test_a_bare_entry_has_no_name() -> None:
    (found,) = snippet.read('{"command": "uvx", "args": ["x"]}')
    assert (found.name, found.entry) == ("", UVX)


def test_a_text_for_no_client_means_what_it_means_to_mcpd() -> None:
    (found,) = snippet.read('{"mcpServers": {"x": {"command": "uvx", "env": {"A": "$B"}}}}')
    assert found.entry["env"] == {"A": "$B"}
    (found,) = snippet.read('[mcp_servers.x]\ncommand = "uvx"\nenv = { A = "$B" }\n')
    assert found.entry["env"] == {"A": "$$B"}


@pytest.mark.parametrize("text", ["", "5", "[]", '{"mcpServers": 5', "a = [\n", "a: [\n"])
def test_other_texts_are_errors(text: str) -> None:
    with pytest.raises(ConfigError):
        snippet.read(text)
