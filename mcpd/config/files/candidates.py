"""Where the configuration files are, and where their servers stand."""

from __future__ import annotations

import os
from collections.abc import Mapping

from mcpd import paths

SYSTEM_DIRECTORY = "/etc/mcpd"
FILE_NAMES = ("mcp.json", "config.toml")
"""In one directory the entries of the later one win."""

SERVER_TABLES = ("mcpServers", "servers", "mcp_servers")
"""Names of the table of servers."""


def candidates(
    explicit: str | None, env: Mapping[str, str], *, system: str = SYSTEM_DIRECTORY
) -> tuple[str, ...]:
    """Return the absolute paths of the configuration files, the least important first.

    ``explicit`` is ``--config``. Without it and without ``MCPD_CONFIG``, these are the files of the
    system and of the user.
    """
    if alone := explicit or env.get("MCPD_CONFIG"):
        return (os.path.abspath(alone),)
    directories = (system, paths.config_home(env))
    return tuple(os.path.join(place, name) for place in directories for name in FILE_NAMES)
