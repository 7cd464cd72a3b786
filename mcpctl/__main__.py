"""The entry point of ``mcpctl``, which loads either the bridge or the command line."""

from __future__ import annotations

import os
import sys

WITH_VALUE = ("--socket", "--config")
"""Global options of ``mcpctl`` that ``connect`` accepts as well."""


def main() -> None:
    """Run ``mcpctl`` with the arguments of this process, and exit."""
    argv = sys.argv[1:]
    words = bridge_arguments(argv)
    if words is not None and "_MCPCTL_COMPLETE" not in os.environ:
        from mcpd import bridge

        sys.exit(bridge.main(words))
    try:
        from mcpctl import cli

        status = cli.main(argv)
    except KeyboardInterrupt:  # while loading
        status = 130
    sys.exit(status)


def bridge_arguments(argv: list[str]) -> list[str] | None:
    """Return the arguments of ``connect``, global options first, or ``None`` for other commands.

    A bridge runs as long as its client, so it must not load what the command line needs.
    """
    at = 0
    while at < len(argv) and argv[at].startswith("-"):
        name, _, value = argv[at].partition("=")
        if name not in WITH_VALUE:
            return None
        at += 1 if value else 2
    if at >= len(argv) or argv[at] != "connect":
        return None
    rest = argv[at + 1 :]
    own = rest[: rest.index("--")] if "--" in rest else rest
    return None if {"-h", "--help"} & set(own) else argv[:at] + rest


if __name__ == "__main__":
    main()
