"""``mcpctl presets``: the servers that ``mcpctl add --preset`` knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mcpctl import options

if TYPE_CHECKING:
    from mcpctl.context import App

HEADER = ["PRESET", "NEEDS", "DESCRIPTION"]


@options.command("presets", starts=False)
@click.argument("text", required=False, metavar="[TEXT]")
def presets_command(app: App, text: str | None) -> None:
    """List known servers, which add --preset adds.

    With TEXT: those that have it in their name or description.

    \b
    mcpctl presets
    mcpctl presets git
    mcpctl add --preset github
    """
    from mcpd.onboarding import presets

    found = presets.read()
    if text is not None:
        found = presets.matching(found, text)
    if app.as_json:
        rows = [{"name": name, "description": one.description} for name, one in found.items()]
        app.print_document({"presets": rows})
    elif found:
        app.print_table(
            HEADER,
            [
                [
                    name,
                    ", ".join(one.needs) or ("a sign-in" if one.signs_in else "-"),
                    one.description,
                ]
                for name, one in found.items()
            ],
        )
    else:
        app.note(f"no preset has {text!r} in its name or description", "mcpctl presets")
