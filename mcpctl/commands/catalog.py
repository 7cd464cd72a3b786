"""``mcpctl tools``, ``resources`` and ``prompts``: what servers offer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mcpctl import options, providers, render
from mcpctl.commands.status import state_text

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.api.status import Status

Item = dict[str, Any]


@options.command("tools", starts=True)
@options.server
@options.schema
@options.search
@click.option(
    "--format",
    "form",
    type=click.Choice(providers.FORMATS),
    help="As the member tools of a request to a model provider.",
)
@click.option(
    "--names", is_flag=True, help="With --format: the server and the tool behind each name."
)
def tools_command(
    app: App,
    server: str | None,
    schema: bool,
    search: str | None,
    form: str | None,
    names: bool,
) -> None:
    """List the tools of one server or of all.

    --format prints a JSON array for the APIs of OpenAI (Chat Completions) or Anthropic (Messages).
    Its names are those of the aggregate, SERVER__TOOL, which both take; --names prints an object
    that says which tool of which server each one is.

    \b
    mcpctl tools files
    mcpctl tools --search commit --schema
    mcpctl tools --format anthropic > tools.json
    """
    if names and form is None:
        raise click.UsageError("--names is of --format")
    result = _fetch(app, "tools", server, search, ("tools",))
    if form is not None:
        tools = result["tools"]
        app.print_document(providers.names(tools) if names else providers.formatted(tools, form))
        if not names and (refused := providers.refused(tools)):
            app.note(f"providers may refuse a choice of schemas (anyOf …): {', '.join(refused)}")
    elif app.as_json:
        app.print_document(result)
    elif schema:
        for tool in result["tools"]:
            app.print_line(f"{_call_name(tool)}: {_summary(tool)}")
            app.print(render.indented_json(tool.get("inputSchema")) + "\n")
    else:
        _table(app, "TOOL", result["tools"], _call_name)


@options.command("prompts", starts=True)
@options.server
@options.schema
@options.search
def prompts_command(app: App, server: str | None, schema: bool, search: str | None) -> None:
    """List the prompts of one server or of all.

    \b
    mcpctl prompts notes --schema
    """
    result = _fetch(app, "prompts", server, search, ("prompts",))
    if app.as_json:
        app.print_document(result)
    elif schema:
        for prompt in result["prompts"]:
            app.print_line(f"{_call_name(prompt)}: {_summary(prompt)}")
            for argument in _arguments(prompt):
                need = ", required" if argument.get("required") else ""
                app.print_line(
                    f"  {argument.get('name') or '(no name)'}{need}: {_summary(argument)}"
                )
    else:
        _table(app, "PROMPT", result["prompts"], _call_name)


@options.command("resources", starts=True)
@options.server
@options.search
def resources_command(app: App, server: str | None, search: str | None) -> None:
    """List resources and resource templates.

    \b
    mcpctl resources files
    """
    result = _fetch(app, "resources", server, search, ("resources", "resourceTemplates"))
    if app.as_json:
        app.print_document(result)
    else:
        found = [*result["resources"], *result["resourceTemplates"]]
        _table(app, "RESOURCE", found, _address)


def _fetch(
    app: App, what: str, server: str | None, search: str | None, members: tuple[str, ...]
) -> dict[str, Any]:
    with app.connect() as control, app.waiting("waiting for the list") as on_wait:
        params = {"server": server} if server is not None else {}
        result: dict[str, Any] = control.request(f"mcpd/{what}", params, on_wait=on_wait)
        missing = result.pop("missing", ())
        status: Status | None = control.request("mcpd/status", {}) if missing else None
    if status is not None:
        states = {one["name"]: state_text(one) for one in status["servers"]}
        named = ", ".join(f"{name} ({states.get(name, 'removed')})" for name in missing)
        why = app.with_socket("to see why: mcpctl status")
        app.note(f"without the {what} of {named}; {why}")
    if search is not None:
        for member in members:
            result[member] = [item for item in result[member] if _matches(item, search)]
    return result


def _table(app: App, title: str, items: list[Item], name: Callable[[Item], str]) -> None:
    if not items:
        app.note("nothing found")
        return
    rows: list[list[render.Cell]] = [[name(item), _summary(item)] for item in items]
    app.print_table([title, "DESCRIPTION"], rows)


def _matches(item: Item, text: str) -> bool:
    members = ("server", "name", "title", "description", "uri", "uriTemplate")
    return any(text.lower() in str(item.get(member) or "").lower() for member in members)


def _call_name(item: Item) -> str:
    return f"{item.get('server')}.{item.get('name')}"


def _address(item: Item) -> str:
    return str(item.get("uri") or item.get("uriTemplate"))


def _arguments(prompt: Item) -> list[Item]:
    found = prompt.get("arguments")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _summary(item: Item) -> str:
    """Return the first line of the description, or the title."""
    text = item.get("description") or item.get("title")
    lines = text.strip().splitlines() if isinstance(text, str) else []
    return lines[0] if lines else ""
