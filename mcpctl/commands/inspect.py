"""``mcpctl inspect``: what is found in the definitions of servers, and what was removed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mcpctl import options, render
from mcpd import exits

if TYPE_CHECKING:
    from mcpctl.context import App

HEADER = ["SERVER", "WEIGHT", "CLASS", "DEFINITION", "EVIDENCE"]
COLOURS = {"hard": "red", "soft": "yellow", "noted": "dim"}


@options.command("inspect", starts=False)
@options.server
def inspect_command(app: App, server: str | None) -> int:
    """Show what looks like an attack in definitions of servers.

    Also what was removed from them. Hard findings have no honest use, soft ones are words that
    attacks use, too; noted ones are quoted or described. Nothing is blocked by them. Exits with 1
    if there is a hard one.

    \b
    mcpctl inspect
    mcpctl inspect files
    """
    params = {} if server is None else {"servers": [server]}
    with app.connect() as control:
        found = control.request("mcpd/inspect", params)["servers"]
    is_hard = any(each["weight"] == "hard" for one in found for each in one["findings"])
    status = exits.FAILED if is_hard else exits.DONE
    if app.as_json:
        app.print_document({"servers": found})
        return status
    rows = [row for each in found for row in _rows(each)]
    if rows:
        app.print_table(HEADER, rows)
    elif any(each["coverage"] != "none" for each in found):
        app.print("nothing found")
    for each in found:
        if each["coverage"] == "none":
            typed = app.with_socket(f"mcpctl start {each['name']}")
            app.note(f"{each['name']} has not listed anything yet; {typed}")
        elif each["coverage"] == "partial":
            app.note(f"{each['name']}: its texts are too long to be searched wholly")
    return status


def _rows(server: dict[str, Any]) -> Iterator[list[render.Cell]]:
    for each in server["findings"]:
        place = f" {each['place']}" if each["place"] else ""
        yield [
            server["name"],
            (each["weight"], COLOURS.get(each["weight"], "dim")),
            each["class"],
            render.revealed(f"{each['kind']} {each['name']}{place}".strip()),
            render.revealed(each["evidence"]),
        ]
    for each in server["sanitised"]:
        what = ", ".join(each["characters"][:6])
        hidden = f": {each['hidden']}" if each["hidden"] else ""
        yield [
            server["name"],
            ("removed", "dim"),
            each["class"],
            render.revealed(f"{each['kind']} {each['name']}".strip()),
            render.revealed(
                f"{each['count']} characters {what}{hidden}".replace("characters :", ":")
            ),
        ]
