"""Servers that many people use: how each is started, and calls that need no network.

What they fetch is fetched from the tests' own site, and no browser is found: what they say then is
theirs as any result is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tests.real.ground import Ground
from tests.real.servers import Call, Server, masking

Json = dict[str, Any]

NPM: Final = {
    "playwright": "@playwright/mcp/cli.js",
    "sequential-thinking": "@modelcontextprotocol/server-sequential-thinking/dist/index.js",
    "context7": "@upstash/context7-mcp/dist/index.js",
    "chrome-devtools": "chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js",
    "notion": "@notionhq/notion-mcp-server/bin/cli.mjs",
    "firecrawl": "firecrawl-mcp/dist/index.js",
    "desktop-commander": "@wonderwhy-er/desktop-commander/dist/index.js",
}
"""Name to script, below ``node_modules``."""

PYPI: Final = {
    "markitdown": "markitdown-mcp",
    "duckduckgo": "duckduckgo-mcp-server",
    "aws-documentation": "awslabs.aws-documentation-mcp-server",
}
"""Name to program."""

STATEFUL: Final = ("playwright", "sequential-thinking", "chrome-devtools")
"""Each session gets a process of its own, without being configured so."""

NO_BROWSER: Final = "/no/such/browser"


def popular(name: str, real: Path, ground: Ground, site: str) -> Server:
    """Return the popular server of that name, of those installed below ``real``."""
    if name in NPM:
        script = str(real / "node_modules" / NPM[name])
        entry: Json = {"command": str(real / "node_modules/.bin/node"), "args": [script]}
    else:
        script = str(real / "servers/bin" / PYPI[name])
        entry = {"command": script, "args": []}
    more, environment, calls, requests = _rows(ground, site)[name]
    entry["args"] += more
    missing = ("tools/call", {"name": "no-such-tool", "arguments": {}})
    # Refused by the server: `mcpctl` refuses by itself to call a tool without what it requires.
    bare = ("tools/call", {"name": calls[-1].tool, "arguments": {}})
    entry |= {"env": environment, "stop_grace": 1}
    return Server(script, entry, calls, (missing, bare, *requests))


Row = tuple[list[str], dict[str, str], tuple[Call, ...], tuple[tuple[str, Json], ...]]


def _rows(ground: Ground, site: str) -> dict[str, Row]:
    """Return further arguments, environment, calls, and requests, by name."""
    page, still, files = f"{site}/page.txt", str(ground.still / "fixed.txt"), str(ground.files)
    notes = f"{files}/below/notes.txt"
    thought = {"thought": "naïve ☃", "thoughtNumber": 1, "totalThoughts": 2}
    aws = "https://docs.aws.amazon.com/lambda/latest/dg/welcome.html"
    return {
        "playwright": (
            ["--executable-path", NO_BROWSER],
            {},
            (
                Call("browser_tabs", {"action": "list"}),
                Call("browser_close"),
                Call("browser_navigate", {"url": page}),
            ),
            (),
        ),
        "sequential-thinking": (
            [],
            {},
            (Call("sequentialthinking", {**thought, "nextThoughtNeeded": True}),),
            (),
        ),
        "context7": (
            [],
            {"CONTEXT7_API_URL": site},
            (
                Call("query-docs", {"libraryId": "/a/library", "query": "of what use it is"}),
                Call("resolve-library-id", {"libraryName": "a library", "query": "ünïcode"}),
            ),
            (),
        ),
        "chrome-devtools": (
            ["--executablePath", NO_BROWSER, "--no-usage-statistics"],
            {},
            (
                Call("list_pages"),
                Call("new_page", {"url": page}),
            ),
            (),
        ),
        "notion": (
            [],
            {"BASE_URL": site, "NOTION_TOKEN": "ntn_none", "NO_PROXY": "127.0.0.1"},
            (
                Call("API-get-self"),
                Call("API-post-search", {"query": "ünïcode"}),
                Call("API-retrieve-a-page", {"page_id": "none"}),
            ),
            (),
        ),
        "firecrawl": (
            [],
            {"FIRECRAWL_API_URL": site, "NO_PROXY": "127.0.0.1"},
            (
                Call("firecrawl_check_crawl_status", {"id": "none"}),
                Call("firecrawl_scrape", {"url": page}),
            ),
            (),
        ),
        "desktop-commander": (
            [],
            {
                "HOME": str(ground.home),
                "DC_FLAG_URL": page,
                "DESKTOP_COMMANDER_DISABLE_TELEMETRY": "1",
            },
            (
                Call("list_searches"),
                Call("read_file", {"path": still}),
                Call("read_multiple_files", {"paths": [still, notes, f"{files}/missing"]}),
                Call("write_file", {"path": f"{files}/written.txt", "content": "naïve ☃\n"}),
                Call("edit_block", {"file_path": notes, "old_string": "two", "new_string": "2"}),
                Call("list_directory", {"path": files}),
                Call(
                    "start_process",
                    {"command": "echo naïve", "timeout_ms": 5000},
                    mask=masking(r"PID \d+", "PID"),
                ),
                Call("get_prompts", {"action": "get_prompt", "promptId": "none"}),
            ),
            (
                ("resources/read", {"uri": "ui://desktop-commander/file-preview"}),
                ("resources/read", {"uri": "ui://desktop-commander/config-editor"}),
                ("resources/read", {"uri": "ui://no/such"}),
            ),
        ),
        "markitdown": (
            [],
            {"NO_PROXY": "127.0.0.1"},
            (
                Call("convert_to_markdown", {"uri": "data:text/html,<h1>A</h1><p>n%C3%A4ive"}),
                Call("convert_to_markdown", {"uri": page}),
                Call("convert_to_markdown", {"uri": f"file://{ground.files}/missing"}),
            ),
            (),
        ),
        "duckduckgo": (
            [],
            {"DDG_ALLOW_PRIVATE_URLS": "1", "NO_PROXY": "127.0.0.1"},
            (
                Call("expand_link", {"token": "ref://none"}),
                Call("fetch_content", {"url": page}, mask=masking(r"cache=\w+", "cache")),
            ),
            (),
        ),
        "aws-documentation": (
            [],
            {"FASTMCP_LOG_LEVEL": "ERROR"},
            (
                Call("read_documentation", {"url": page}),
                Call("read_sections", {"url": aws, "section_titles": []}),
                Call("search_table", {"url": aws, "query": ""}),
            ),
            (),
        ),
    }
