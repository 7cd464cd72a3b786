"""``mcpctl audit``: what ran, and what was decided."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from mcpctl import completion, options, render
from mcpd.audit.record import GROUPS, OUTCOMES
from mcpd.errors import McpdError

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.audit.reader import Filter, Reader, Row

POLL_S: Final = 0.25
"""Seconds between two looks of ``-f``."""

HEADER: Final = [
    "ID", "AT", "WHO", "CLIENT", "CALL", "OUTCOME", "MS", "WAITED", "IN", "OUT",
]  # fmt: skip
LAST: Final = 50

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_AGO: Final = re.compile(r"([0-9]{1,9})([smhdw])")


def instant(text: str) -> int:
    """Return an instant in milliseconds since the epoch: ``2h`` ago, a date, a date with a time.

    One without an offset is in UTC. Raises ``BadParameter``.
    """
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            seconds = int(ago[1]) * _UNITS[ago[2]]
            moment = datetime.now(UTC) - timedelta(seconds=seconds)
        else:
            moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text}: expected 30m, 2h, 7d or 2026-11-29T10:00") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _filtered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose calls."""
    for option in (
        click.option("--slow", type=options.seconds, metavar="S", help="Took so many seconds."),
        click.option("--outcome", type=click.Choice(OUTCOMES), help="Ended like this."),
        click.option("--token", metavar="T", help="Made with this token."),
        click.option("--client", metavar="C", help="Of clients with this name; a pattern."),
        click.option("--tool", metavar="GLOB", help="Of tools with this name; a pattern."),
        click.option(
            "--server", metavar="S", shell_complete=completion.servers, help="To this server."
        ),
        click.option(
            "--since", type=instant, metavar="TIME", help="Ended since: 2h ago, or a date."
        ),
    ):
        function = option(function)
    return function


_count = click.option(
    "-n", "--lines", "count", type=click.IntRange(min=0), default=LAST, show_default=True,
    help="The last N.",
)  # fmt: skip


@options.command("audit", starts=False, cls=click.Group)
@_filtered
@_count
@options.follow
def audit_command(app: App, *, count: int, follow: bool, **wanted: Any) -> None:
    """Show which calls ran, whose, when, and how each ended.

    No daemon is needed. Arguments and results are not in it, unless an
    entry's `record` says so.

    \b
    mcpctl audit --since 2h --outcome error
    mcpctl audit -f --server files
    mcpctl audit show 17
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    chosen = _chosen(**wanted)
    with _reading(app) as reader:
        rows = [] if reader is None else reader.newest(chosen, count)
    if follow:
        _follow(app, chosen, rows)
    elif app.as_json:
        app.print_document({"calls": rows})
    elif rows:
        app.print_table(HEADER, [_cells(row) for row in rows])


assert isinstance(audit_command, click.Group)
audit_command.invoke_without_command = True
audit_command.no_args_is_help = False


@options.command("show", starts=False)
@click.argument("ident", metavar="ID", type=click.IntRange(min=1))
def show_command(app: App, ident: int) -> None:
    """Show one call, with its approval and hashes.

    \b
    mcpctl audit show 17
    """
    with _reading(app) as reader:
        call = None if reader is None else reader.show(ident)
    if call is None:
        raise _refused(f"there is no call {ident} in the audit", "mcpctl audit")
    if app.as_json:
        app.print_document(call)
        return
    for name, value in call.items():
        if name not in {"arguments", "result", "events"} and value not in (None, []):
            shown = ", ".join(value) if isinstance(value, list) else value
            app.print_line(f"{name:<10} {shown}")
    for event in call.get("events", ()):
        app.print_line(f"{'':<10} {_event_text(event)}")
    for name in ("arguments", "result"):
        if call.get(name) is not None:
            app.print_line(f"{name:<10} {call[name]}")


@options.command("stats", starts=False)
@_filtered
@click.option(
    "--by", type=click.Choice(GROUPS), default="server", show_default=True, help="One row for each."
)
def stats_command(app: App, by: str, **wanted: Any) -> None:
    """Count calls, and how they ended.

    \b
    mcpctl audit stats --by tool --since 7d
    """
    with _reading(app) as reader:
        rows = [] if reader is None else reader.stats(_chosen(**wanted), by)
    if app.as_json:
        app.print_document({"stats": rows})
    elif rows:
        ends = [name for name in OUTCOMES if any(row[name] for row in rows)]
        header = [by.upper(), "CALLS", *map(str.upper, ends), "MEAN MS", "MOST MS", "OUT"]
        app.print_table(
            header,
            [
                [
                    row[by] or "-",
                    str(row["calls"]),
                    *(str(row[end]) for end in ends),
                    f"{row['mean_ms']:g}",
                    str(row["most_ms"]),
                    render.size(row["out_bytes"]),
                ]
                for row in rows
            ],
        )


@options.command("events", starts=False)
@click.option("--since", type=instant, metavar="TIME", help="Since: 2h ago, or a date.")
@click.option("--what", metavar="GLOB", help="Events with this name; a pattern.")
@_count
def events_command(app: App, since: int | None, what: str | None, count: int) -> None:
    """Show what happened besides calls.

    Approvals, rules, pins, tokens, reloads of the configuration, sessions, questions of servers.

    \b
    mcpctl audit events --since 1d --what 'approval.*'
    """
    with _reading(app) as reader:
        rows = [] if reader is None else reader.events(since_ms=since, what=what, count=count)
    if app.as_json:
        app.print_document({"events": rows})
    else:
        for row in rows:
            app.print_line(_event_text(row))


@options.command("export", starts=False)
@_filtered
def export_command(app: App, **wanted: Any) -> None:
    """Print calls and then events, each as a line of JSON.

    \b
    mcpctl audit export --since 30d > audit.jsonl
    """
    chosen = _chosen(**wanted)
    with _reading(app) as reader:
        if reader is None:
            return
        for call in reader.after(chosen, 0):
            app.print_item({"type": "call", **call})
        if chosen == chosen.only_since():
            for event in reader.events_after(0, since_ms=chosen.since_ms):
                app.print_item({"type": "event", **event})


@options.command("prune", starts=False)
@click.option(
    "--before",
    type=instant,
    required=True,
    metavar="TIME",
    help="Ended before: 30d ago, or a date.",
)
def prune_command(app: App, before: int) -> None:
    """Remove old calls and events.

    An event says how many there were.

    \b
    mcpctl audit prune --before 7d
    """
    from mcpd.audit.prune import prune

    now = round(datetime.now(UTC).timestamp() * 1000)
    removed = prune(app.state_dir, before, now)
    if app.as_json:
        app.print_document({"removed": removed})
    else:
        app.print_line(f"removed {removed} rows")


@options.command("hash", starts=False)
@click.argument("file", type=click.File("rb"))
def hash_command(app: App, file: Any) -> None:
    """Find the calls that had the JSON in FILE.

    They had it as arguments, or as a result; - is stdin. White space around it does not matter,
    every byte within it does.

    \b
    mcpctl audit hash arguments.json
    """
    from mcpd.audit import hashes

    try:
        key = hashes.read_key(app.state_dir)
    except OSError as error:
        reason = f"cannot read the key of the audit: {error.strerror or error}"
        raise _refused(reason, "mcpctl doctor") from None
    digest = hashes.digest(key, file.read().strip())
    with _reading(app) as reader:
        rows = [] if reader is None else reader.with_hash(digest)
    if app.as_json:
        app.print_document({"hash": digest.hex(), "calls": rows})
        return
    app.print_line(digest.hex())
    if rows:
        app.print_table(HEADER, [_cells(row) for row in rows])
    else:
        app.note("no call in the audit has it")


for each in (
    show_command, stats_command, events_command, export_command, prune_command, hash_command,
):  # fmt: skip
    audit_command.add_command(each)


# -- inside ----------------------------------------------------------------------------------------


@contextmanager
def _reading(app: App) -> Iterator[Reader | None]:
    """Open the audit; yield ``None`` where there is none yet."""
    from mcpd.audit.reader import Reader
    from mcpd.audit.schema import NoAudit

    _flush(app)
    try:
        reader = Reader(app.state_dir)
    except NoAudit as error:
        app.note(error.message)
        yield None
        return
    try:
        yield reader
    finally:
        reader.close()


def _flush(app: App) -> None:
    """Have a daemon that runs write what it has not written yet."""
    with contextlib.suppress(McpdError), app.connect(start=False) as control:
        control.request("mcpd/audit", {"lines": 0})


def _follow(app: App, chosen: Filter, rows: list[Row]) -> None:
    """Print rows, then each that comes. The file is opened each time: it may be another one."""
    from mcpd.audit.reader import Reader
    from mcpd.audit.schema import NoAudit

    last = 0
    _print(app, rows)
    if rows:
        last = rows[-1]["id"]
    is_first = not rows
    while True:
        time.sleep(POLL_S)
        try:
            reader = Reader(app.state_dir)
        except NoAudit:
            is_first = False
            continue
        try:
            newest = reader.last_id()
            if is_first or newest < last:
                last = newest if is_first else 0
                is_first = False
            _print(app, reader.after(chosen, last))
            last = max(newest, last)
        finally:
            reader.close()


def _print(app: App, rows: Iterable[Row]) -> None:
    for row in rows:
        if app.as_json:
            app.print_item(row)
        else:
            app.print_line("  ".join(_cells(row)))
            sys.stdout.flush()


def _cells(row: Row) -> list[Any]:
    call = row["tool"] or row["method"]
    kind = f" ({row['kind']})" if row["kind"] else ""
    flags = f" [{', '.join(row['flags'])}]" if row["flags"] else ""
    return [
        str(row["id"]),
        row["at"],
        row["principal"] or "-",
        row["client"] or "-",
        f"{row['server']}.{call}" if row["server"] else call,
        f"{row['outcome']}{kind}{flags}",
        str(row["ms"]),
        str(row["wait_ms"]),
        render.size(row["in_bytes"]),
        render.size(row["out_bytes"]),
    ]


def _event_text(event: Row) -> str:
    named = filter(None, (event["principal"], event["server"], event["subject"]))
    more = (f"{name}={_brief(value)}" for name, value in event["detail"].items())
    return " ".join([event["at"], f"{event['what']:<18}", *named, *more])


def _brief(value: Any) -> str:
    is_word = isinstance(value, str) and value.isprintable() and " " not in value
    return value if is_word else json.dumps(value)


def _chosen(**wanted: Any) -> Filter:
    from mcpd.audit.reader import Filter

    slow = wanted["slow"]
    return Filter(
        since_ms=wanted["since"],
        server=wanted["server"],
        tool=wanted["tool"],
        client=wanted["client"],
        token=wanted["token"],
        outcome=wanted["outcome"],
        slow_ms=None if slow is None else round(slow * 1000),
    )


def _refused(message: str, hint: str) -> McpdError:
    from mcpd.audit.schema import AuditError

    return AuditError(message, hint=hint)
