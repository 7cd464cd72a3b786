"""Programs that read servers from a file of their own, and how each shows which tools it lists."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]
Words = tuple[str, ...]

HERE = Path(__file__).parent


def _mcp_servers(**more: Any) -> Callable[[Json], str]:
    def content(entry: Json) -> str:
        return json.dumps({"mcpServers": {"fake": entry}, **more}, indent=2)

    return content


def _claude(entry: Json) -> str:
    return _mcp_servers()({"type": "stdio", **entry, "env": {}})


def _copilot(entry: Json) -> str:
    return _mcp_servers()({"type": "local", **entry, "tools": ["*"]})


def _opencode(entry: Json) -> str:
    command = [entry["command"], *entry["args"]]
    return json.dumps({"mcp": {"fake": {"type": "local", "command": command}}}, indent=2)


def _codex(entry: Json) -> str:
    command, args = json.dumps(entry["command"]), json.dumps(entry["args"])
    return f"# by hand\n[mcp_servers.fake]\ncommand = {command} # mine\nargs = {args}\n"


@dataclass(frozen=True)
class Program:
    """A program as a user has it, without an account.

    ``{home}``, ``{real}``, ``{file}`` and ``{model}`` in its words and variables stand for the home
    directory, what `make real` made, the file, and the address of a model.
    """

    client: str
    """By which it is adopted: its name in mcpctl, or a file."""

    file: str
    """Below the home directory."""

    content: Callable[[Json], str]
    named: tuple[str, ...]
    """What it calls itself in its sessions."""

    shows: Mapping[Words, str] = field(default_factory=dict)
    """Commands that show what it has read, and what each says of a server that it can use."""

    lists: Words = ()
    """Prints the server's tools, as ``{"tools": [{"name"}]}``."""

    asks: Words = ()
    """Has it send the tools that it has to a model."""

    prefix: str = ""
    """What it puts before the name of a tool for the model."""

    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """What it needs else, below the home directory."""

    needs: str = "agents"
    """The fixture without which it is not there."""


PROGRAMS: Final = {
    "claude": Program(
        client="claude-code",
        file=".claude.json",
        content=_claude,
        named=("claude-code",),
        shows={
            ("claude", "mcp", "list"): "✔ Connected",
            ("claude", "mcp", "get", "fake"): "✔ Connected",
        },
        asks=("claude", "-p", "hi"),
        prefix="mcp__fake__",
        env={
            "ANTHROPIC_BASE_URL": "{model}",
            "ANTHROPIC_API_KEY": "fake",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    "codex": Program(
        client="codex",
        file=".codex/config.toml",
        content=_codex,
        named=("codex-mcp-client",),
        shows={
            ("codex", "mcp", "list"): "enabled",
            ("codex", "mcp", "get", "fake"): "enabled: true",
        },
    ),
    "gemini": Program(
        client="gemini-cli",
        file=".gemini/settings.json",
        content=_mcp_servers(security={"auth": {"selectedType": "gemini-api-key"}}),
        named=("gemini-cli-mcp-client", "mcp-test-client"),
        shows={("gemini", "mcp", "list"): "- Connected"},
        asks=("gemini", "--approval-mode", "yolo", "-p", "hi"),
        prefix="mcp_fake_",
        env={"GOOGLE_GEMINI_BASE_URL": "{model}", "GEMINI_API_KEY": "fake"},
        files={".gemini/trustedFolders.json": '{{"{home}": "TRUST_FOLDER"}}'},
    ),
    "qwen": Program(
        client="qwen-code",
        file=".qwen/settings.json",
        content=_mcp_servers(),
        named=("qwen-cli-mcp-client-fake", "mcp-test-client"),
        shows={("qwen", "mcp", "list"): "- Connected"},
        asks=("qwen", "--auth-type", "openai", "-p", "hi"),
        prefix="mcp__fake__",
        env={"OPENAI_BASE_URL": "{model}/v1", "OPENAI_API_KEY": "fake", "OPENAI_MODEL": "fake"},
    ),
    "copilot": Program(
        client="copilot-cli",
        file=".copilot/mcp-config.json",
        content=_copilot,
        named=("copilot-cli",),
        shows={
            ("copilot", "mcp", "list"): "fake (local)",
            ("copilot", "mcp", "get", "fake"): "Status: Enabled",
        },
        asks=("copilot", "-p", "hi", "--allow-all-tools"),
        prefix="fake-",
        env={
            "COPILOT_PROVIDER_BASE_URL": "{model}/v1",
            "COPILOT_PROVIDER_API_KEY": "fake",
            "COPILOT_MODEL": "gpt-4",
        },
    ),
    "opencode": Program(
        client="opencode",
        file=".config/opencode/opencode.json",
        content=_opencode,
        named=("opencode",),
        shows={("opencode", "mcp", "list"): "✓ fake"},
        asks=("opencode", "run", "-m", "fake/m", "hi"),
        prefix="fake_",
        env={
            "OPENCODE_CONFIG_CONTENT": '{{"provider": {{"fake": {{"models": {{"m": {{}}}}, '
            '"npm": "@ai-sdk/openai-compatible", '
            '"options": {{"baseURL": "{model}/v1", "apiKey": "fake"}}}}}}}}'
        },
    ),
    "mcporter": Program(
        client="mcporter",
        file=".mcporter/mcporter.json",
        needs="npm",
        content=_mcp_servers(imports=[]),
        named=("mcporter",),
        shows={("mcporter", "list"): "1 healthy"},
        lists=("mcporter", "list", "fake", "--json"),
    ),
    "inspector": Program(
        client="{file}",
        file="inspector/mcp.json",
        needs="npm",
        content=_mcp_servers(),
        named=("inspector-cli",),
        lists=(
            "mcp-inspector",
            *("--cli", "--config", "{file}", "--server", "fake"),
            *("--method", "tools/list"),
        ),
    ),
    "fastmcp": Program(
        client="{file}",
        file="fastmcp/mcp.json",
        content=_mcp_servers(),
        named=("fastmcp",),
        lists=("{real}/fastmcp/bin/fastmcp", "list", "{file}", "--json"),
        needs="real",
    ),
    "python-1.30": Program(
        client="{file}",
        file="python/mcp.json",
        content=_mcp_servers(),
        named=("mcp",),
        lists=("{real}/sdk1/bin/python", str(HERE / "clients/stripped.py"), "{file}"),
        needs="real",
    ),
}
"""By the name of what is started."""
