"""Servers that are known to keep state for each client, by the names of their packages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

STATEFUL: Final = frozenset({
    # browsers: pages, logins, selections
    "@playwright/mcp",
    "@executeautomation/playwright-mcp-server",
    "mcp-playwright",
    "playwright-mcp",
    "playwright-mcp-server",
    "mcr.microsoft.com/playwright/mcp",
    "mcp/playwright",
    "@modelcontextprotocol/server-puppeteer",
    "puppeteer-mcp-server",
    "mcp/puppeteer",
    "chrome-devtools-mcp",
    "@browsermcp/mcp",
    "@agent-infra/mcp-server-browser",
    "@browserbasehq/mcp",
    "@browserbasehq/mcp-server-browserbase",
    "@browserbasehq/mcp-stagehand",
    "browser-use",
    "mcp-server-browser-use",
    "@angiejones/mcp-selenium",
    "mcp-selenium",
    "selenium-mcp-server",
    # devices
    "@mobilenext/mobile-mcp",
    "appium-mcp",
    # a sequence of thoughts
    "@modelcontextprotocol/server-sequential-thinking",
    "mcp/sequentialthinking",
})  # fmt: skip
"""Two clients of one such process would see and change each other's state."""

_VERSION: Final = re.compile(r"(?<=.)(?:@sha256:[^/]*|@[^/]*|[=<>~!]=.*|\[.*|:[^/:]*)$")
_NAME_LENGTH: Final = 1000
"""Longer words are no package names; the version pattern takes minutes for megabytes."""

_PROGRAM: Final = re.compile(r"\.(?:exe|cmd|js|mjs|cjs|py)$")


def known_stateful(command: str, args: Iterable[str]) -> str | None:
    """Return the name of the package in a command line that keeps state for each client.

    A package is found as an argument of a runner (``npx``, ``uvx``, ``docker run``), with or
    without a version, as the name of the program, and in the path of an installed program.
    """
    program = command.rpartition("/")[2]
    for word in (_PROGRAM.sub("", program), *args):
        found = _package(word)
        if found is not None:
            return found
    return None


def _package(word: str) -> str | None:
    if len(word) > _NAME_LENGTH:
        return None
    name = _VERSION.sub("", word)
    if name in STATEFUL:
        return name
    for installed in word.split("/node_modules/")[1:]:
        name = "/".join(installed.split("/")[: 2 if installed.startswith("@") else 1])
        if name in STATEFUL:
            return name
    return None
