"""What ``import``, ``adopt`` and ``release`` share: which files, what is shown, the question."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from mcpctl import render
from mcpd import exits
from mcpd.errors import ConfigError

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.onboarding.clients.search import ClientFile
    from mcpd.onboarding.plan import Left, Plan

REMOVED, ADDED = "-", "+"


def clients(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a client."""
    from mcpd.onboarding.clients.table import BY_ID

    return [name for name in BY_ID if name.startswith(incomplete)]


def options(function: Any) -> Any:
    """Add the options that all three have."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing."),
        click.option("-y", "--yes", is_flag=True, help="Do it without a question."),
        click.argument("which", nargs=-1, metavar="[CLIENT|FILE]...", shell_complete=clients),
    ):
        function = option(function)
    return function


servers = click.option(
    "--server",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only this server, by its name in the client; can be given several times.",
)
"""The option of those that read clients' files."""


def is_file(word: str) -> bool:
    """Return whether an argument is a path, and not the name of a client."""
    from mcpd.onboarding.clients.table import BY_ID

    return word not in BY_ID and ("/" in word or "." in word)


def check(words: Iterable[str]) -> None:
    """Refuse a word that is neither a client nor a file."""
    from difflib import get_close_matches

    from mcpd.onboarding.clients.table import BY_ID

    for word in words:
        if word not in BY_ID and not is_file(word):
            near = get_close_matches(word, BY_ID, n=2)
            meant = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(BY_ID)}."
            raise click.UsageError(
                f"There is no client {word!r}. {meant} A file is written with its directory: "
                f"./{word}"
            )


def files(words: Sequence[str]) -> tuple[list[ClientFile], list[Left]]:
    """Return the files that the words name, all of the user's without any, in their order."""
    from mcpd.onboarding.clients import search
    from mcpd.onboarding.clients.table import CLIENTS
    from mcpd.onboarding.plan import Left

    check(words)
    found: list[ClientFile] = []
    missing: list[Left] = []
    for client in CLIENTS:
        if words and client.id not in words:
            continue
        own = [each for each in search.users(client) if each.servers or each.scope == "user"]
        if not own and words:
            missing.append(
                Left(client=client.id, path=None, name=None, why="it has no file on this machine")
            )
        found += own
    for word in words:
        if is_file(word):
            try:
                found += search.at(word)
            except ConfigError as error:
                raise click.UsageError(error.message) from None
    return found, missing


def answered(app: App, files: list[ClientFile], *, may_ask: bool) -> list[ClientFile]:
    """Ask on a terminal for what VS Code asks its user for, and return the files with it."""
    from mcpd.onboarding.clients import search

    if not may_ask or app.as_json or not sys.stdin.isatty():
        return files
    found = []
    for file in files:
        reasons = [each.why_not for each in file.servers if each.why_not is not None]
        answers: dict[str, str] = {}
        for asked, about in file.inputs.items():
            if any(asked in why for why in reasons):
                app.print_line(f"{file.client.title} asks for {asked}: {about.about}")
                answer = click.prompt(
                    "Its value (nothing: the server stays with the client)",
                    default="",
                    show_default=False,
                    hide_input=about.is_password,
                )
                if answer:
                    answers[asked] = answer
                if answer and about.is_password:
                    app.hidden |= {answer, answer.replace("$", "$$")}
        found.append(search.answered(file, answers) if answers else file)
    return found


def without_running(files: list[ClientFile]) -> tuple[list[ClientFile], list[Left]]:
    """Return the files that can be rewritten, without those of clients that run and write them."""
    from mcpd.onboarding.plan import Left
    from mcpd.onboarding.running import process_of

    clients = {file.client.id: file.client for file in files}
    running = {name: pid for name, each in clients.items() if (pid := process_of(each)) is not None}
    left = [
        Left(
            client=file.client.id,
            path=file.path,
            name=None,
            why=busy(file.client.title, running[file.client.id]),
        )
        for file in files
        if file.client.id in running and any(each.connects is None for each in file.servers)
    ]
    return [file for file in files if file.client.id not in running], left


def busy(title: str, pid: int) -> str:
    """Say why a file is not rewritten now."""
    return (
        f"{title} runs (process {pid}) and may write this file from memory: close it first, or say "
        "--force"
    )


def lines(app: App, entry: Any, name: str, sign: str) -> Iterator[str]:
    """Yield an entry as lines of a difference, its secrets masked."""
    from mcpd.onboarding import shown

    text = json.dumps(shown.masked(entry, hidden=app.hidden), ensure_ascii=False, indent=2)
    for line in f"{json.dumps(name, ensure_ascii=False)}: {text}".splitlines():
        yield f"{sign}   {line}"


def masked(text: str) -> str:
    """Return a text that may quote an entry, its secrets masked."""
    from mcpd.onboarding import shown

    return str(shown.masked(text))


def show_difference(app: App, path: str, changes: Iterable[str]) -> None:
    """Print what changes in a file."""
    app.print_line(f"{path}:")
    for line in changes:
        colour = "red" if line.startswith(REMOVED) else "green"
        if render.has_colour(sys.stdout):
            told = f"{render.COLOURS[colour]}{render.escaped(line)}{render.RESET}"
            sys.stdout.write(f"{told}\n")
        else:
            app.print(line)
    app.print("")


def show_rest(app: App, left: Iterable[Left], warnings: Iterable[str]) -> None:
    """Print what stays as it is, and what to know."""
    for each in left:
        who = " of ".join(filter(None, (each.name, each.client)))
        where = f" ({each.path})" if each.path and each.path not in each.why else ""
        app.print_line(f"left: {who}{where}: {masked(each.why)}")
    for warning in warnings:
        app.print_line(f"note: {warning}")


def may_go_on(app: App, question: str, *, is_yes: bool) -> bool | None:
    """Ask whether to write; ``None`` if nobody can be asked, which is said then."""
    if is_yes:
        return True
    if app.as_json or not sys.stdin.isatty():
        app.note("nothing was written: without a terminal, say --yes")
        return None
    return click.confirm(question, default=app.agrees_by_default)


def document(
    done: Iterable[dict[str, Any]], left: Iterable[Left], warnings: Iterable[str]
) -> dict[str, Any]:
    """Return the result as JSON."""
    return {
        "done": list(done),
        "left": [
            {"client": each.client, "path": each.path, "name": each.name, "why": masked(each.why)}
            for each in left
        ],
        "warnings": list(warnings),
    }


def done_of(plan: Plan) -> list[dict[str, Any]]:
    """Return the servers that a plan moves."""
    return [
        {
            "client": move.file.client.id,
            "path": move.file.path,
            "name": move.found.name,
            "server": move.server,
        }
        for move in plan.moves
    ]


def status(left: Iterable[Left]) -> int:
    """Return the exit status."""
    left = list(left)
    if any(each.is_broken for each in left):
        return exits.USAGE
    return exits.FAILED if left else exits.DONE
