"""Files of MCP clients in a home directory of their own, and how each of them spells a server."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcpd.onboarding.clients import search
from mcpd.onboarding.clients.client import Client
from mcpd.onboarding.clients.table import BY_ID

FILES = Path(__file__).parent.parent / "unit" / "onboarding" / "files"

SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ012345"

WRITTEN = {
    "claude-code": "claude-code/home/.claude.json",
    "claude-desktop": "by-add-mcp/home/.config/Claude/claude_desktop_config.json",
    "cursor": "by-add-mcp/home/.cursor/mcp.json",
    "vscode": "by-add-mcp/home/.config/Code/User/mcp.json",
    "windsurf": "by-add-mcp/home/.codeium/windsurf/mcp_config.json",
    "cline": "by-add-mcp/home/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/"
    "cline_mcp_settings.json",
    "cline-cli": "cline-cli/home/.cline/data/settings/cline_mcp_settings.json",
    "zed": "by-add-mcp/home/.config/zed/settings.json",
    "codex": "codex/home/.codex/config.toml",
    "gemini-cli": "gemini-cli/home/.gemini/settings.json",
    "opencode": "opencode/home/.config/opencode/opencode.jsonc",
    "goose": "by-add-mcp/home/.config/goose/config.yaml",
    "continue": "continue/home/.continue/config.yaml",
    "copilot-cli": "copilot-cli/home/.copilot/mcp-config.json",
    "qwen-code": "qwen-code/home/.qwen/settings.json",
    "kiro": "by-add-mcp/home/.kiro/settings/mcp.json",
    "mcporter": "mcporter/project/config/mcporter.json",
    "droid": "droid/home/.factory/mcp.json",
    "amp": "amp/home/.config/amp/settings.json",
    "kimi-code": "kimi-code/home/.kimi-code/mcp.json",
    "antigravity": "by-add-mcp/home/.gemini/config/mcp_config.json",
}
"""The file that a program wrote, by the client that reads it."""


def entry(command: str = "uvx", *args: str, env: Any = None, **more: Any) -> dict[str, Any]:
    """Return a server as most clients write it; ``spelled`` turns it into a client's spelling."""
    return {"command": command, "args": list(args), **({"env": env} if env else {}), **more}


def spelled(client: Client, name: str, one: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with a command as the client writes it, and others as they are."""
    if "command" not in one or not isinstance(one["command"], str):
        return dict(one)
    rest = {key: value for key, value in one.items() if key not in ("command", "args", "env")}
    env = {client.env: one["env"]} if "env" in one else {}
    if client.list_command:
        return {"type": client.stdio, "command": [one["command"], *one["args"]], **env, **rest}
    launch = {client.command: one["command"], "args": one["args"], **env}
    if client.nested:
        return {client.nested: {"type": client.stdio, **launch}, **rest}
    named = {"name": name} if client.id in ("goose", "continue") else {}
    kind = {"type": client.stdio} if client.needs_type else {}
    return {**named, **kind, **launch, **rest}


def written(client: Client, servers: Mapping[str, Mapping[str, Any]], **more: Any) -> str:
    """Return the text of a client's file with these servers."""
    entries = {name: spelled(client, name, one) for name, one in servers.items()}
    key = client.key[0]
    if client.format == "toml":
        return "".join(
            f"[{key}.{json.dumps(name)}]\n"
            + "".join(f"{part} = {_toml(value)}\n" for part, value in one.items())
            + "\n"
            for name, one in entries.items()
        )
    if client.id == "continue":
        return f"name: Local\n{key}:\n" + "".join(
            f"  - {json.dumps(one)}\n" for one in entries.values()
        )
    if client.format == "yaml":
        return f"{key}:\n" + "".join(
            f"  {json.dumps(name)}: {json.dumps(one)}\n" for name, one in entries.items()
        )
    return json.dumps({**more, key: entries}, indent=2)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        pairs = ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items())
        return f"{{ {pairs} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


class Home:
    """A home directory with files of clients."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.env = {"HOME": str(path)}

    def file(self, client: str) -> Path:
        """Return the path of a client's first file."""
        template = BY_ID[client].user[0].path
        if client == "opencode":
            template = "{cfg}/opencode/opencode.jsonc"
        return Path(search.expanded(template, self.env, "linux"))

    def put(self, where: str | Path, content: bytes | str | Any, mode: int = 0o600) -> Path:
        """Write a file below the home directory; return its path."""
        path = self.path / where
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, (bytes, str)):
            content = json.dumps(content, indent=2)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)
        return path

    def client(
        self, client: str, servers: Mapping[str, Any], mode: int = 0o600, **more: Any
    ) -> Path:
        """Write a client's file with these servers; return its path."""
        return self.put(self.file(client), written(BY_ID[client], servers, **more), mode)

    def original(self, client: str) -> Path:
        """Write the file that a program wrote, with servers that are not ours; return its path."""
        data = (FILES / WRITTEN[client]).read_bytes()
        data = data.replace(b"mcpctl", b"uvx").replace(b"connect", b"run-it")
        return self.put(self.file(client), data)

    def found(self, *projects: Path) -> list[search.ClientFile]:
        """Return what is found."""
        return search.found(self.env, projects=map(str, projects), platform="linux")

    def users(self, client: str) -> list[search.ClientFile]:
        """Return the files of one client."""
        return search.users(BY_ID[client], self.env, platform="linux")

    def entries(self, client: str) -> dict[str, dict[str, Any]]:
        """Return the entries of a client as mcpd has them, by their names."""
        return {each.name: each.entry for file in self.users(client) for each in file.servers}


def expand(text: str, env: Mapping[str, str]) -> str:
    """Return what mcpd makes of a text."""
    from mcpd.config.texts.interpolate import joined, resolve

    return joined(resolve(text, {"HOME": "/nowhere", **env}))


def words(text: str) -> set[str]:
    """Return the words of an output, without punctuation."""
    return set(re.findall(r"[\w./-]+", text))


def tree(path: Path) -> dict[str, tuple[int, bytes | str | None]]:
    """Return everything below a directory: mode, and content or target."""
    found: dict[str, tuple[int, bytes | str | None]] = {}
    for base, folders, files in os.walk(path):
        for name in folders + files:
            each = Path(base) / name
            content: bytes | str | None = None
            if each.is_symlink():
                content = os.readlink(each)
            elif each.is_file():
                content = each.read_bytes()
            found[str(each.relative_to(path))] = (each.lstat().st_mode, content)
    return found
