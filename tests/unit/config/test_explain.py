"""The report of ``mcpd --check``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcpd.config.explain import report

if TYPE_CHECKING:
    from tests.unit.config.conftest import Place


def test_a_newcomer_is_shown_where_to_begin(place: Place) -> None:
    text, status = report(place.load())
    assert status == 0
    assert f"{place.user / 'mcp.json'}: not there" in text
    assert '"mcpServers"' in text
    assert "No errors." in text


def test_every_entry_is_shown_with_what_it_comes_to(place: Place) -> None:
    place.env["FILES_TOKEN"] = "hunter2-hunter2"
    place.write(
        "config.toml",
        """[servers.files]
command = "npx"
args = ["-y", "some server", "~/src", "--api-key", "literal-key"]
env = { TOKEN = "${FILES_TOKEN}" }
start = "eager"
call_timeout = "2m"
restart = { policy = "never" }
[servers.off]
command = "x"
enabled = false
""",
    )
    text, status = report(place.load())
    assert status == 0
    assert "files: starts with the daemon" in text
    assert f"from     {place.user / 'config.toml'}, line 1" in text
    assert f"command  npx -y 'some server' {place.env['HOME']}/src --api-key ***" in text
    assert "env      TOKEN=${FILES_TOKEN}" in text
    assert f"cwd      {place.env['HOME']}" in text
    assert "call_timeout = 120 s" in text
    assert 'restart.policy = "never"' in text
    assert "off: disabled" in text
    assert "hunter2" not in text
    assert "literal-key" not in text


def test_a_replaced_entry_is_said_to_be(place: Place) -> None:
    old = place.write("mcp.json", {"servers": {"a": {"command": "x"}}})
    new = place.write("config.toml", '[servers.a]\ncommand = "y"')
    text, status = report(place.load())
    assert status == 0
    assert f"a: {old}, line 1, by {new}, line 1" in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"mcpServers": {"fake": {"command": 5}}}', ["fake", "command"]),
        ('{"mcpServers": {"fake": {}}}', ["fake", "command"]),
        ('{"mcpServers": {"fake": {"command": "x", "args": "y"}}}', ["fake", "args"]),
        ('{"mcpServers": {"fake": {"command": "x", "call_timeout": -1}}}', ["call_timeout"]),
        ('{"mcpServers": {"fake": {"command": "x", "sharing": "sometimes"}}}', ["session"]),
        ('{"mcpServers": \n {"fake": {"command": "x" "y"}}}', ["line 2", "none could be read"]),
        ('{"mcpServers": {\n// c\n"fake": {\n  "command": 5}}}', ["fake", "command", "line 4"]),
        (
            '{"mcpServers": {"fake": {"command": "$NO"}}}',
            ["fake.command", "NO", "mcpctl restart --daemon"],
        ),
    ],
)
def test_an_error_is_status_2_and_names_the_place(place: Place, text: str, says: list[str]) -> None:
    given = place.write("given.json", text)
    shown, status = report(place.load(given))
    assert status == 2
    assert str(given) in shown
    for word in says:
        assert word in shown


def test_a_warning_is_status_0(place: Place) -> None:
    given = place.write("given.json", {"servers": {"a": {"command": "x", "startup_timout": 3}}})
    text, status = report(place.load(given))
    assert status == 0
    assert (
        "startup_timout: unknown key, which changes nothing; did you mean startup_timeout?" in text
    )
    assert "0 errors, 1 warning." in text


def test_a_file_acts_on_no_terminal(place: Place) -> None:
    content = {"servers": {"a": {"command": "\x1b[31mx", "env": {"\x1b]0;x": "\x9b"}, "\x07": 1}}}
    text, _ = report(place.load(place.write("given.json", content)))
    assert all(char == "\n" or char.isprintable() for char in text)


def test_a_remote_server_is_shown_with_what_is_sent_and_no_secret(place: Place) -> None:
    place.env["TEAM"] = "blue-blue-blue"
    place.write(
        "config.toml",
        """[servers.far]
url = "https://x.example/mcp?key=hunter2-hunter2"
headers = { X-Team = "${TEAM}", X-Key = "hunter2-hunter2" }
auth = { type = "bearer", token = "hunter2-hunter2" }
ping_interval = 30
""",
    )
    text, status = report(place.load())
    assert status == 0
    assert "    url      https://x.example/mcp?key=***\n" in text
    assert "    header   X-Team: ${TEAM}\n" in text
    assert "    header   X-Key: ***\n" in text
    assert '    auth     bearer, token = "***"\n' in text
    assert "    setting  ping_interval = 30 s\n" in text
    assert "hunter2" not in text
    assert "blue" not in text
    assert text.count("setting") == 1
