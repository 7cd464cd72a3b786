"""``mcpctl doctor``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from mcpctl import options, render
from mcpd import exits

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.doctor.finding import Finding

TITLES = {"error": "Errors", "warning": "Warnings", "note": "Notes", "ok": "In order"}
COLOURS = {"error": "red", "warning": "yellow", "note": "dim", "ok": "green"}


@options.command("doctor", starts=False)
@click.option("-v", "--verbose", is_flag=True, help="Also say what is in order.")
def doctor_command(app: App, verbose: bool) -> int:
    """Say what is wrong, and what to type about it.

    It looks at the daemon, the configuration, the servers and the machine, works without a
    daemon, starts none, and takes 5 seconds at most. It ends with 0 unless there are errors: with 3
    when the daemon cannot be used, with 1 for any other.

    \b
    mcpctl doctor
    mcpctl doctor --json
    """
    from mcpd.doctor.examine import UNREACHABLE, examine

    app.status_line.show("looking around")
    try:
        found = examine(app.asked_socket, app.config)
    finally:
        app.status_line.clear()
    if app.as_json:
        app.document({"findings": [_plain(app, each) for each in found]})
    else:
        _show(app, found, verbose)
    errors = {each.id for each in found if each.severity == "error"}
    if errors & UNREACHABLE:
        return exits.NO_DAEMON
    return exits.FAILED if errors else exits.DONE


def _show(app: App, found: list[Finding], is_verbose: bool) -> None:
    shown = [each for each in found if is_verbose or each.severity != "ok"]
    for severity, title in TITLES.items():
        of_it = [each for each in shown if each.severity == severity]
        if not of_it:
            continue
        app.heading(f"{title}:", COLOURS[severity])
        for each in of_it:
            who = f"{each.server}: " if each.server else ""
            app.say(render.paragraph(f"{who}{each.message}", sys.stdout, "  "))
            if each.remedy:  # in one piece, to be copied
                app.line(f"    -> {app.addressed(each.remedy)}")
    counts = {s: sum(each.severity == s for each in found) for s in TITLES}
    if not counts["error"] and not counts["warning"]:
        app.say("nothing is wrong" + ("" if is_verbose else "; --verbose says what was looked at"))


def _plain(app: App, finding: Finding) -> dict[str, Any]:
    plain: dict[str, Any] = {"id": finding.id, "severity": finding.severity}
    if finding.server is not None:
        plain["server"] = finding.server
    remedy = None if finding.remedy is None else app.addressed(finding.remedy)
    return {**plain, "message": finding.message, "remedy": remedy}
