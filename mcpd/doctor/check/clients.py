"""Checks the entries that MCP clients have in their own files."""

from __future__ import annotations

from collections.abc import Iterator

from mcpd.doctor.facts import ClientEntry, Clients
from mcpd.doctor.finding import Finding, error, fine, warning


def check(found: Clients | None) -> Iterator[Finding]:
    """Yield the findings; none for clients that have nothing to do with mcpd."""
    if found is None:
        return
    in_order = []
    for entry in found.entries:
        who = f"{entry.name} of {entry.title} ({entry.path})"
        if entry.program is None:
            yield warning(
                "client_copy",
                f"{who} is a copy of the server {entry.server}: it runs beside the one that mcpd "
                "runs",
                f"mcpctl adopt {entry.client} --server {_word(entry.name)}",
            )
        elif entry.is_gone:
            yield error(
                "client_mcpctl_gone",
                f"{who} runs {entry.program}, which is not there",
                f"mcpctl adopt {entry.client}",
            )
        elif entry.is_missing:
            yield error(
                "client_server_gone",
                f"{who} connects to the server {entry.server}, which mcpd does not have",
                f"mcpctl release {entry.client}",
            )
        else:
            in_order.append(entry)
    if in_order:
        yield fine("clients", f"connected to mcpd: {_told(in_order)}")


def _told(entries: list[ClientEntry]) -> str:
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry.title] = counts.get(entry.title, 0) + 1
    return ", ".join(f"{count} of {title}" for title, count in counts.items())


def _word(name: str) -> str:
    import shlex

    return shlex.quote(name)
