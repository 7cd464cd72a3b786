"""``mcpctl call``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from mcpctl import arguments, asking, completion, content, failures, options
from mcpd.errors import DaemonUnavailable, RequestFailed

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.client.control import Answer, Control

ANSWER_GRACE_S = 5.0
"""Seconds to wait after ``--timeout`` for the daemon to report that the time is over."""


@options.command("call", starts=True, cls=options.WithArguments)
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="SERVER TOOL [KEY=VALUE]...",
    shell_complete=completion.call,
)
@click.option("--args", "base", metavar="JSON", help="All arguments as an object; - reads stdin.")
@click.option("--timeout", type=options.seconds, metavar="S", help="Seconds for the whole call.")
def call_command(app: App, words: tuple[str, ...], base: str | None, timeout: float | None) -> int:
    """Call a tool and print the text of its result.

    SERVER.TOOL works, too. KEY=VALUE takes its type from the tool's schema, KEY:=JSON is
    literal, KEY=@FILE reads a file, KEY=@@x is the text "@x".

    \b
    mcpctl call files.read_file path=README.md
    mcpctl call git git_log repo_path=. max_count=3
    mcpctl call notes add --args '{"title": "x"}' tags:='["a", "b"]' body=@body.md
    """
    targets, rest = divide(words)
    if not targets:
        raise _without_tool(app, words[0])
    pairs = [arguments.parse_word(word) for word in rest]
    start = {} if base is None else arguments.parse_json(_base(base), "--args")
    with app.connect() as control:
        server, tool = _choose(control, targets)
        is_schema_needed = arguments.need_schema(pairs) or not isinstance(start, dict)
        schema = _schema(control, server, tool) if is_schema_needed else None
        params: dict[str, Any] = {
            "server": server,
            "tool": tool,
            "arguments": _collect(server, pairs, schema, start),
        }
        if timeout is not None:
            params["timeout"] = timeout
        answer = _call(app, control, params, timeout)
    return content.show_result(app, f"{server}.{tool}", answer)


def divide(words: tuple[str, ...]) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """Return the possible pairs of server and tool, the shortest server first, and the arguments.

    A second word without ``=`` can only be a tool: then the first is the server, dots included.
    The list is empty if no tool is named.
    """
    first = words[0]
    if len(words) > 1 and "=" not in words[1]:
        return [(first, words[1])], words[2:]
    dots = [at for at, c in enumerate(first) if c == "."]
    return [(first[:at], first[at + 1 :]) for at in dots], words[1:]


def _without_tool(app: App, server: str) -> RequestFailed:
    """Return the error for a call without a tool; raise if there is no such server."""
    try:
        with app.connect(start=False) as control:
            control.request("mcpd/status", {"servers": [server]})
    except DaemonUnavailable:
        pass  # without a daemon, whether the server exists is not known
    return failures.usage(f"which tool of {server}? to see them: mcpctl tools {server}")


def _choose(control: Control, targets: list[tuple[str, str]]) -> tuple[str, str]:
    """Return the pair with the longest server that exists, else the first.

    ``SERVER.TOOL WORD`` looks like a server and a tool: the error is then about the word.
    """
    server, tool = targets[0]
    if len(targets) == 1 and "." not in server:
        return server, tool
    known = {one["name"] for one in control.request("mcpd/status", {})["servers"]}
    found = next((one for one in reversed(targets) if one[0] in known), None)
    if found is None and len(targets) == 1:
        dotted, _ = divide((server,))
        if any(each in known for each, _ in dotted):
            arguments.parse_word(tool)
    return found or targets[0]


def _schema(control: Control, server: str, tool: str) -> Any:
    """Return the tool's schema, ``None`` for an unknown tool: the daemon suggests similar ones."""
    for listed in control.request("mcpd/tools", {"server": server})["tools"]:
        if listed.get("name") == tool:
            return listed.get("inputSchema")
    return None


def _collect(server: str, words: list[arguments.Word], schema: Any, start: Any) -> Any:
    """Return the arguments; raise ``RequestFailed`` as the daemon would for what does not fit."""
    try:
        if not isinstance(start, dict):
            return arguments.non_object(start, words, schema)
        return arguments.collect(words, schema, _read_file, start)
    except RequestFailed as error:
        if "path" in error.data:
            hint = f"mcpctl tools {server} --schema shows what it takes"
            error.data.update(server=server, hint=hint)
        raise


def _call(app: App, control: Control, params: dict[str, Any], timeout: float | None) -> Answer:
    is_watched = app.status_line.is_on
    prompt = asking.InPlace(control) if asking.can_ask() else None
    title = f"{params['server']}.{params['tool']}"
    shown = title

    def on_notification(method: str, told: Any) -> None:
        nonlocal shown
        if method == "mcpd/progress" and isinstance(told, dict):
            shown = f"{title}: {progress_text(told)}"
            app.status_line.show(shown)
        elif method == "mcpd/approval" and prompt is not None:
            app.status_line.clear()
            prompt.told(told)

    if is_watched:
        params = {**params, "progress": True}
    if prompt is not None:
        params = {**params, "approvals": True}
    with app.waiting(lambda: shown) as show, failures.reported_by(title):

        def on_wait(waited_s: float) -> None:
            if prompt is not None and prompt.is_asking:
                prompt.look()
            elif show is not None:
                show(waited_s)

        try:
            return control.exchange(
                "mcpd/call",
                params,
                timeout=None if timeout is None else timeout + ANSWER_GRACE_S,
                on_notification=on_notification,
                on_wait=None if show is None and prompt is None else on_wait,
            )
        finally:
            if prompt is not None:
                prompt.close()


def progress_text(told: dict[str, Any]) -> str:
    """Return a progress notification as text for people."""
    done, total, message = told.get("progress"), told.get("total"), told.get("message")
    amount = str(done) if isinstance(done, (int, float)) else ""
    if isinstance(done, (int, float)) and isinstance(total, (int, float)) and total > 0:
        amount = f"{100 * done / total:.0f} %"
    return f"{amount} {message}".strip() if isinstance(message, str) else amount


def _base(told: str) -> str:
    return _decoded(sys.stdin.buffer.read(), "stdin") if told == "-" else told


def _read_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return _decoded(file.read(), path)
    except OSError as error:
        raise failures.usage(f"cannot read {path}: {error.strerror}") from None


def _decoded(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise failures.usage(f"{where} is not text in UTF-8") from None
