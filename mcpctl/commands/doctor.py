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
@click.option("-v", "--verbose", is_flag=True, help="Also print what is in order.")
def doctor_command(app: App, verbose: bool) -> int:
    """Find what is wrong, and print what to type about it.

    Checks the daemon, the configuration, the servers and the machine within 5 seconds. Works
    without a daemon, and starts none. The exit status is 3 if the daemon cannot be used, 1 for
    any other error, else 0.

    \b
    mcpctl doctor
    mcpctl doctor --json
    """
    from mcpd.doctor.examine import UNREACHABLE, examine

    app.status_line.show("checking")
    try:
        found = examine(app.socket_option, app.config)
    finally:
        app.status_line.clear()
    if app.as_json:
        app.print_document({"findings": [_plain(app, each) for each in found]})
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
        app.print_heading(f"{title}:", COLOURS[severity])
        for each in of_it:
            who = f"{each.server}: " if each.server else ""
            app.print(render.paragraph(f"{who}{each.message}", sys.stdout, "  "))
            if each.remedy:  # in one piece, to be copied
                app.print_line(f"    -> {app.with_socket(each.remedy)}")
    counts = {s: sum(each.severity == s for each in found) for s in TITLES}
    if not counts["error"] and not counts["warning"]:
        app.print(
            "nothing is wrong" + ("" if is_verbose else "; --verbose says what was looked at")
        )


def _plain(app: App, finding: Finding) -> dict[str, Any]:
    plain: dict[str, Any] = {"id": finding.id, "severity": finding.severity}
    if finding.server is not None:
        plain["server"] = finding.server
    remedy = None if finding.remedy is None else app.with_socket(finding.remedy)
    return {**plain, "message": finding.message, "remedy": remedy}
