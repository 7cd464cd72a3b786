"""The table of the clients, in the order in which they are imported.

Sources: the clients themselves, their documentation and source, as of November 2026. See
docs/clients.md for what ``adopt`` does in each.
"""

from __future__ import annotations

from typing import Final

from mcpd.onboarding.clients.client import (
    CALL_MS,
    CALL_S,
    EVERYWHERE,
    Client,
    Place,
    Time,
    Variables,
)


def _at(*paths: str) -> tuple[Place, ...]:
    return tuple(Place(path=path) for path in paths)


_EDITORS: Final = ("${workspaceFolder", "${input:", "${config:", "${command:", "${file")

CLIENTS: Final = (
    Client(
        id="claude-code",
        title="Claude Code",
        user=_at("{CLAUDE_CONFIG_DIR:~}/.claude.json"),
        project=_at(".mcp.json"),
        format="json",
        cwd=None,
        variables=Variables(
            forms=("${VAR}", "${VAR:-d}"),
            own=("${CLAUDE_PROJECT_DIR", "${CLAUDE_PLUGIN_ROOT"),
        ),
        times=CALL_MS,
        stdio="stdio",
        rewrites=("claude",),
        of_projects=("projects", "mcpServers"),
    ),
    Client(
        id="claude-desktop",
        title="Claude Desktop",
        user=_at("{app}/Claude/claude_desktop_config.json"),
        format="json",
        cwd=None,
        rewrites=("Claude", "claude-desktop"),
    ),
    Client(
        id="cursor",
        title="Cursor",
        user=_at("~/.cursor/mcp.json"),
        project=_at(".cursor/mcp.json"),
        variables=Variables(forms=("${env:VAR}", "${userHome}", "${pathSeparator}"), own=_EDITORS),
        stdio="stdio",
    ),
    Client(
        id="vscode",
        title="VS Code",
        user=(
            *_at(
                "{app}/Code/User/mcp.json",
                "{app}/Code/User/profiles/*/mcp.json",
                "{app}/Code - Insiders/User/mcp.json",
                "{app}/VSCodium/User/mcp.json",
            ),
            Place(path="{app}/Code/User/settings.json", key=("mcp", "servers"), is_side=True),
        ),
        project=_at(".vscode/mcp.json"),
        key=("servers",),
        variables=Variables(forms=("${env:VAR}", "${userHome}", "${pathSeparator}"), own=("${",)),
        stdio="stdio",
    ),
    Client(
        id="windsurf",
        title="Windsurf",
        user=_at("~/.codeium/windsurf/mcp_config.json", "~/.codeium/mcp_config.json"),
        cwd=None,
        variables=Variables(forms=("${env:VAR}",), own=("${file:",)),
    ),
    Client(
        id="cline",
        title="Cline",
        user=_at(
            "{app}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
        ),
        format="json",
        times=CALL_S,
        stdio="stdio",
        untyped_url_is_sse=True,
    ),
    Client(
        id="cline-cli",
        title="Cline CLI",
        user=_at("{CLINE_DIR:~/.cline}/data/settings/cline_mcp_settings.json"),
        format="json",
        times=CALL_S,
        stdio="stdio",
        nested="transport",
        untyped_url_is_sse=True,
    ),
    Client(
        id="roo-code",
        title="Roo Code",
        user=_at(
            "{app}/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"
        ),
        project=_at(".roo/mcp.json"),
        variables=Variables(
            forms=("${env:VAR}",), unset_is_empty=EVERYWHERE, own=("${workspaceFolder",)
        ),
        times=CALL_S,
        stdio="stdio",
        untyped_url_is_sse=True,
    ),
    Client(
        id="zed",
        title="Zed",
        user=_at("{cfg}/zed/settings.json"),
        project=_at(".zed/settings.json"),
        key=("context_servers",),
        cwd=None,
        stdio="stdio",
    ),
    Client(
        id="codex",
        title="Codex",
        user=_at("{CODEX_HOME:~/.codex}/config.toml"),
        project=_at(".codex/config.toml"),
        key=("mcp_servers",),
        format="toml",
        times={
            "startup_timeout_sec": Time("startup_timeout", 1),
            "startup_timeout_ms": Time("startup_timeout", 0.001),
            "tool_timeout_sec": Time("call_timeout", 1),
        },
        rewrites=("Codex", "codex-desktop"),
    ),
    Client(
        id="gemini-cli",
        title="Gemini CLI",
        user=_at("{GEMINI_CLI_HOME:~}/.gemini/settings.json"),
        project=_at(".gemini/settings.json"),
        format="json with comments",
        variables=Variables(
            forms=("$VAR", "${VAR}", "${VAR:-d}"), in_env=("%VAR%",), unset_is_empty=("env",)
        ),
        times=CALL_MS,
        stdio="stdio",
        switches=(("", ("mcp", "excluded")), ("", ("mcp", "allowed"))),
    ),
    Client(
        id="opencode",
        title="opencode",
        user=(
            *_at("{OPENCODE_CONFIG:}"),
            *_at("{OPENCODE_CONFIG_DIR:}/opencode.jsonc", "{OPENCODE_CONFIG_DIR:}/opencode.json"),
            *_at("{cfg}/opencode/opencode.jsonc", "{cfg}/opencode/opencode.json"),
        ),
        project=_at(
            "opencode.jsonc",
            "opencode.json",
            ".opencode/opencode.jsonc",
            ".opencode/opencode.json",
        ),
        key=("mcp",),
        env="environment",
        variables=Variables(forms=("{env:VAR}",), unset_is_empty=EVERYWHERE, own=("{file:",)),
        times=CALL_MS,
        stdio="local",
        needs_type=True,
        list_command=True,
        first_wins=True,
        deeper="servers",  # of opencode 2
        wants={"enabled": True},
    ),
    Client(
        id="goose",
        title="Goose",
        user=_at("{cfg}/goose/config.yaml"),
        key=("extensions",),
        format="yaml",
        command="cmd",
        env="envs",
        cwd=None,
        times=CALL_S,
        stdio="stdio",
        needs_type=True,
        has_name=True,
        wants={"description": "", "enabled": True, "timeout": 300},
    ),
    Client(
        id="continue",
        title="Continue",
        user=(
            Place(path="~/.continue/config.yaml"),
            Place(path="~/.continue/mcpServers/*.yaml", is_side=True),
            Place(path="~/.continue/mcpServers/*.json", format="jsonc", is_side=True),
        ),
        project=(
            Place(path=".continue/mcpServers/*.yaml"),
            Place(path=".continue/mcpServers/*.json", format="jsonc"),
        ),
        format="yaml",
        variables=Variables(own=("${{",)),
        stdio="stdio",
        has_name=True,
    ),
    Client(
        id="lm-studio",
        title="LM Studio",
        user=_at("~/.lmstudio/mcp.json", "~/.cache/lm-studio/mcp.json"),
        cwd=None,
        first_wins=True,
    ),
    Client(
        id="copilot-cli",
        title="Copilot CLI",
        user=_at("{COPILOT_HOME:~/.copilot}/mcp-config.json"),
        project=(Place(path=".github/mcp.json", format="json"),),
        variables=Variables(
            forms=("$VAR", "${VAR}", "${VAR:-d}"), where=("args", "env", "headers")
        ),
        times=CALL_MS,
        stdio="local",
        switches=(("settings.json", ("disabledMcpServers",)),),
        wants={"tools": ["*"]},
    ),
    Client(
        id="crush",
        title="Crush",
        user=_at(
            "{CRUSH_GLOBAL_CONFIG:{cfg}/crush}/crush.json",
            "{XDG_DATA_HOME:~/.local/share}/crush/crush.json",
        ),
        project=_at(".crush.json", "crush.json"),
        key=("mcp",),
        cwd=None,
        variables=Variables(forms=("$VAR", "${VAR}", "${VAR:-d}"), own=("${", "$(", "`")),
        times=CALL_S,
        stdio="stdio",
        needs_type=True,
    ),
    Client(
        id="qwen-code",
        title="Qwen Code",
        user=_at("~/.qwen/settings.json"),
        project=_at(".qwen/settings.json", ".qwen/settings.local.json"),
        format="json with comments",
        variables=Variables(forms=("$VAR", "${VAR}")),
        times=CALL_MS,
        stdio="stdio",
        untyped_url_is_sse=True,
        switches=(("", ("mcp", "excluded")), ("", ("mcp", "allowed"))),
        rewrites=("qwen",),
    ),
    Client(
        id="kiro",
        title="Kiro",
        user=_at("~/.kiro/settings/mcp.json"),
        project=_at(".kiro/settings/mcp.json"),
        cwd=None,
        variables=Variables(forms=("${VAR}",), where=("env", "headers")),
    ),
    Client(
        id="amazon-q",
        title="Amazon Q CLI",
        user=_at("~/.aws/amazonq/mcp.json", "~/.aws/amazonq/cli-agents/*.json"),
        project=_at(".amazonq/mcp.json", ".amazonq/cli-agents/*.json"),
        format="json",
        cwd=None,
        variables=Variables(forms=("${env:VAR}",), where=("env",)),
        times=CALL_MS,
        stdio="stdio",
    ),
    Client(
        id="junie",
        title="Junie",
        user=_at("~/.junie/mcp/mcp.json"),
        project=_at(".junie/mcp/mcp.json"),
        cwd=None,
    ),
    Client(
        id="mcporter",
        title="mcporter",
        user=_at("~/.mcporter/mcporter.json", "~/.mcporter/mcporter.jsonc"),
        project=_at("config/mcporter.json"),
        variables=Variables(
            forms=("${VAR}", "${VAR:-d}"),
            in_env=("${env:VAR}",),
            where=("args", "env"),
            unset_is_empty=("args", "env"),
        ),
        stdio="stdio",
        first_wins=True,
    ),
    Client(
        id="droid",
        title="droid",
        user=_at("~/.factory/mcp.json"),
        project=_at(".factory/mcp.json"),
        format="json with comments",
        cwd=None,
        variables=Variables(forms=("${VAR}", "${VAR:-d}"), where=("env",)),
        stdio="stdio",
        needs_type=True,
    ),
    Client(
        id="amp",
        title="Amp",
        user=_at("{cfg}/amp/settings.json", "{cfg}/amp/settings.jsonc"),
        project=_at(".amp/settings.json"),
        key=("amp.mcpServers",),
        cwd=None,
        variables=Variables(forms=("${VAR}",)),
    ),
    Client(
        id="kimi-code",
        title="Kimi Code",
        user=_at("~/.kimi-code/mcp.json"),
        project=_at(".kimi-code/mcp.json"),
        times={
            "startupTimeoutMs": Time("startup_timeout", 0.001),
            "toolTimeoutMs": Time("call_timeout", 0.001),
        },
        stdio="stdio",
    ),
    Client(
        id="antigravity",
        title="Antigravity",
        user=_at("~/.gemini/config/mcp_config.json", "~/.gemini/antigravity/mcp_config.json"),
        cwd=None,
        first_wins=True,
    ),
)

BY_ID: Final = {client.id: client for client in CLIENTS}

MCPD: Final = Client(id="file", title="mcpd", is_mcpds=True)
"""How mcpd reads an entry itself: for a snippet, or a file of no client."""
