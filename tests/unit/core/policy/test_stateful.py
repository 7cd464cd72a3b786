"""Servers that keep state for each client are known by their packages."""

from __future__ import annotations

import pytest

from mcpd.core.policy.stateful import STATEFUL, known_stateful


@pytest.mark.parametrize(
    ("line", "package"),
    [
        ("npx @playwright/mcp", "@playwright/mcp"),
        ("npx -y @playwright/mcp@latest --headless", "@playwright/mcp"),
        ("npx -y @playwright/mcp@0.0.41", "@playwright/mcp"),
        ("npx chrome-devtools-mcp@0.2.1 --isolated", "chrome-devtools-mcp"),
        ("npx -p @browsermcp/mcp mcp", "@browsermcp/mcp"),
        ("uvx browser-use[cli]==0.3 --mcp", "browser-use"),
        ("uvx --from browser-use browser-use", "browser-use"),
        ("docker run -i --rm mcp/playwright:v1", "mcp/playwright"),
        ("docker run -i --rm mcp/puppeteer@sha256:0a", "mcp/puppeteer"),
        ("docker run mcr.microsoft.com/playwright/mcp", "mcr.microsoft.com/playwright/mcp"),
        ("/opt/bin/mcp-server-browser-use", "mcp-server-browser-use"),
        ("chrome-devtools-mcp.cmd", "chrome-devtools-mcp"),
        ("node /usr/lib/node_modules/@playwright/mcp/cli.js", "@playwright/mcp"),
        ("node /x/node_modules/a/node_modules/mcp-selenium/i.js", "mcp-selenium"),
    ],
)
def test_a_package_is_found_as_its_runner_is_told_of_it(line: str, package: str):
    """
    B084.
    """
    command, *args = line.split()
    assert known_stateful(command, args) == package


@pytest.mark.parametrize(
    "line",
    [
        "npx -y @modelcontextprotocol/server-filesystem /home/ada/playwright-mcp",
        "npx @playwright/mcp-other",
        "npx @playwright/test@1.0",
        "uvx browser-used",
        "python3 server.py --note about:browser-use",
        "node /usr/lib/node_modules/playwright/cli.js",
        "",
    ],
)
def test_nothing_else_is_taken_for_one(line: str):
    command, *args = line.split() or [""]
    assert known_stateful(command, args) is None


def test_each_is_written_without_a_version():
    assert all(known_stateful("npx", [f"{name}@1.2"]) == name for name in STATEFUL)
