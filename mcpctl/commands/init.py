"""``mcpctl init``: from what a machine has to servers that every client shares."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from mcpctl import failures, options, questions
from mcpd import exits
from mcpd.errors import McpdError

if TYPE_CHECKING:
    from mcpctl.context import App


@options.command("init", starts=True, no_start_help="Start no daemon, and no service now.")
@click.option("-y", "--yes", is_flag=True, help="Yes to each question that no option answers.")
@click.option(
    "--import/--no-import", "wants_import", default=None, help="Copy the servers of clients."
)
@click.option(
    "--preset", "presets", multiple=True, metavar="PRESET", help="Add this known server, too."
)
@click.option("--adopt/--no-adopt", "wants_adopt", default=None, help="Have the clients use mcpd.")
@click.option(
    "--service/--no-service", "wants_service", default=None, help="Run mcpd from each login on."
)
def init_command(
    app: App,
    yes: bool,
    wants_import: bool | None,
    presets: tuple[str, ...],
    wants_adopt: bool | None,
    wants_service: bool | None,
) -> int:
    """Set mcpd up: import servers, adopt clients, install a service.

    Shows the MCP servers that clients on this machine have, then offers, one after the other: to
    import them, or to add known servers; to have the clients use mcpd; to run mcpd as a service.
    Nothing is written that was not shown and agreed to, and mcpctl release puts the clients' files
    back. What is done already is not done again.

    \b
    mcpctl init
    mcpctl init --yes --no-service
    """
    answers = [wants_import, wants_adopt, wants_service]
    if not (yes or questions.can_ask(app) or None not in answers):
        raise click.UsageError(
            "Without a terminal, say --yes, or answer with --import, --adopt and --service."
        )
    steps = _Steps(app, is_yes=yes)
    app.agrees_by_default = True
    try:
        steps.look()
        steps.take_servers(wants_import, presets)
        steps.adopt(wants_adopt)
    finally:
        app.agrees_by_default = False
    steps.install(wants_service)
    return steps.end()


class _Steps:
    """The steps of one run, each by the command that does it."""

    def __init__(self, app: App, *, is_yes: bool) -> None:
        self._app = app
        self._is_yes = is_yes
        self._is_later = not app.may_start  # each command that runs below sets it
        self._context = click.get_current_context()
        self._status = exits.DONE
        self._done: dict[str, Any] = {"import": None, "adopt": None, "service": None}
        self._is_json = app.as_json

    def look(self) -> None:
        """Show what clients have."""
        if not self._is_json:
            from mcpctl.commands import scan

            self._head("What clients have on this machine")
            scan.show(self._app, is_alone=False)

    def take_servers(self, wanted: bool | None, presets: tuple[str, ...]) -> None:
        """Import the servers of clients, and add known ones."""
        from mcpctl.commands.imports import import_command

        if wanted is not False:
            self._head("Import: copy these servers into your own configuration")
            self._run("import", import_command, yes=bool(wanted or self._is_yes))
        for name in presets:
            if name not in self._servers():
                self._add(name)
        if self._servers() or self._is_json:
            return
        self._app.note(
            "mcpd has no servers yet; known ones, and by hand:",
            "  mcpctl presets",
            "  mcpctl add NAME -- COMMAND",
        )
        if self._is_yes or not questions.can_ask(self._app):
            return
        question = "Add a known server now?"
        while questions.confirmed(question, default=False):
            self._add(questions.answer("Which one? (time, fetch, git, github, …)"))
            question = "Add another one?"

    def adopt(self, wanted: bool | None) -> None:
        """Have the clients use mcpd."""
        from mcpctl.commands.adopt import adopt_command

        if wanted is False:
            return
        self._head("Adopt: have the clients use mcpd for these servers")
        if self._servers() or wanted:
            yes = bool(wanted or self._is_yes)
            self._run("adopt", adopt_command, is_all=True, yes=yes)
        else:
            self._app.note(
                "mcpd has no servers that clients could use; later:", "  mcpctl adopt --all"
            )

    def install(self, wanted: bool | None) -> None:
        """Install the service."""
        from mcpctl.commands.service import install_command, manager

        if wanted is False:
            return
        self._head("Service: have mcpd run from each login on")
        try:
            found = manager(self._app)
            found.check()
            if found.state()["installed"]:
                self._app.note(f"it is installed already, as a service of {found.name}")
                return
        except McpdError as error:
            self._app.note(f"there is no service here: {error.message}; clients start mcpd")
            return
        question = "Install it? Without it, the first client starts mcpd."
        if wanted or self._is_yes or questions.confirmed(question, default=False):
            self._run("service", install_command, no_start=self._is_later)

    def end(self) -> int:
        """Print what can be done next, and return the exit status."""
        if self._is_json:
            self._app.as_json = True
            self._app.print_document(self._done)
        elif self._servers():
            self._head("Next")
            self._app.print("mcpctl tools     what the servers offer\nmcpctl status    what runs")
        return self._status

    # -- inside ------------------------------------------------------------------------------------

    def _servers(self) -> Mapping[str, Any]:
        from mcpd.onboarding import own

        return own.read(self._app.config).entries

    def _add(self, preset: str) -> None:
        from mcpctl.commands.add import add_command

        with self._reported():
            self._context.invoke(add_command, preset=preset, wants_test=False)

    def _run(self, what: str, command: click.Command, **given: Any) -> None:
        """Run a command; keep what it prints as JSON, and the first status that is not 0."""
        out = io.StringIO()
        captured: Callable[[io.StringIO], Any] = contextlib.redirect_stdout
        with self._reported(), captured(out) if self._is_json else contextlib.nullcontext():
            status = self._context.invoke(command, as_json=self._is_json, **given)
            self._status = self._status or status or exits.DONE
        if self._is_json and out.getvalue():
            self._done[what] = json.loads(out.getvalue())

    @contextlib.contextmanager
    def _reported(self) -> Any:
        """Report an error and go on: the other steps do not depend on this one."""
        try:
            yield
        except click.ClickException as error:
            self._app.note(error.format_message())
            self._status = self._status or exits.USAGE
        except McpdError as error:
            self._app.note(*failures.lines(error, self._app.socket_option))
            self._status = self._status or exits.of_error(error)

    def _head(self, text: str) -> None:
        if not self._is_json:
            self._app.print("")
            self._app.print_heading(text, "green")
