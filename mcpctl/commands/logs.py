"""``mcpctl logs`` and ``events``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from mcpctl import options

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.api.results import Event, LogLine

ALWAYS = ("seq", "time", "event", "server")


@options.command("logs", starts=False)
@options.server
@options.follow
@options.lines
def logs_command(app: App, server: str | None, follow: bool, lines: int) -> None:
    """Print the log of a server or of the daemon.

    A server's log is what it wrote to stderr, and the daemon's notes about it.

    \b
    mcpctl logs files -n 20
    mcpctl logs -f
    """
    params: dict[str, Any] = {"lines": lines, "follow": follow}
    if server is not None:
        params["server"] = server
    with app.connect() as control:
        if follow:
            stream = control.stream("mcpd/logs", params, notification="mcpd/log")
            _print(app, stream.result["lines"], _log_text)
            _print(app, stream, _log_text)
        answer = control.exchange("mcpd/logs", params)
    if app.as_json:
        app.print_document(answer.value, answer.text)
    else:
        _print(app, answer.value["lines"], _log_text)


@options.command("events", starts=True)
@options.follow
@click.option("-n", "--lines", type=click.IntRange(min=0), help="Only the last N of those so far.")
def events_command(app: App, follow: bool, lines: int | None) -> None:
    """Print changes of state so far; with -f, new ones as they come.

    \b
    mcpctl events -n 20
    mcpctl events -f --json
    """
    with app.connect() as control:
        stream = control.stream("mcpd/events", {"since": 0}, notification="mcpd/event")
        remembered = stream.so_far()
        first = 0 if lines is None else max(0, len(remembered) - lines)
        _print(app, remembered[first:], _event_text)
        if follow:
            _print(app, stream, _event_text)


def _print(app: App, items: Iterable[Any], text: Callable[[Any], str]) -> None:
    for item in items:
        if app.as_json:
            app.print_item(item)
        else:
            app.print_line(text(item))
            sys.stdout.flush()


def _log_text(line: LogLine) -> str:
    return f"{line['time']} {line['source']:<6} {line['text']}"


def _event_text(event: Event) -> str:
    named = [f"{event['time']} {event['event']:<22}", *filter(None, [event.get("server")])]
    more = [f"{key}={_brief(value)}" for key, value in event.items() if key not in ALWAYS]
    return " ".join([*named, *more])


def _brief(value: Any) -> str:
    is_word = isinstance(value, str) and value.isprintable() and " " not in value
    return value if is_word else json.dumps(value)
