"""``mcpctl approvals``, ``approve`` and ``deny``: who may run what, and what is remembered."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from mcpctl import asking, completion, failures, options, render
from mcpd import visible

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.client.control import Control, Stream

HEADER = ["ID", "AGE", "CLIENT", "TOOL", "WAITS", "ARGUMENTS"]
RULES = ["N", "SERVER", "TOOL", "WHOSE", "ANSWER", "SINCE", "BY", "USES", "LAST"]
AGAIN_S = 5.0
"""Seconds between two looks at what was drawn: times in it go on."""


class _ListsAlone(click.Group):
    """A group that does something by itself where no command of it is named."""

    def __init__(self, name: str | None = None, **more: Any) -> None:
        super().__init__(name, **{**more, "invoke_without_command": True})


@options.command("approvals", starts=False, cls=_ListsAlone)
@click.option("-w", "--watch", is_flag=True, help="Keep watching; on a terminal, answer by key.")
def approvals_command(app: App, watch: bool) -> None:
    """List the calls that wait for a yes, or watch and answer them.

    \b
    mcpctl approvals
    mcpctl approvals -w
    mcpctl approve a3 --session
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    with app.connect() as control:
        if watch:
            _watch(app, control)
            return
        answer = control.exchange("mcpd/approvals", {})
    if app.as_json:
        app.print_document(answer.value, answer.text)
        return
    found = asking.load(answer.text)["open"]
    if not found:
        app.print("nothing is asked")
        return
    app.print_table(HEADER, [_row(question) for question in found])
    app.print(
        app.with_socket("\nto see all of one: mcpctl approvals show ID; then approve or deny")
    )


def _row(question: Any) -> list[render.Cell]:
    return [
        question["id"],
        render.duration(asking.number(question["age_s"])),
        asking.who(question),
        asking.what(question),
        "yes" if question["waits"] else "no",
        asking.excerpt(question),
    ]


@options.command("show", starts=False)
@click.argument("ident", metavar="ID", shell_complete=completion.approvals)
def show_command(app: App, ident: str) -> None:
    """Show all of a question: the call with its arguments, the tool, what has changed in it.

    Characters that cannot be seen are written as ⟨U+202E⟩.

    \b
    mcpctl approvals show a3
    """
    with app.connect() as control:
        answer = control.exchange("mcpd/approvals", {"id": ident})
    if not answer.value["open"]:
        raise failures.usage(f"no question {ident} is open: mcpctl approvals", "approval_over")
    if app.as_json:
        app.print_document(answer.value, answer.text)
        return
    for line in asking.whole(asking.load(answer.text)["open"][0]):
        app.print(line)
    app.print(app.with_socket(f"\nmcpctl approve {ident}, or mcpctl deny {ident}"))


@options.command("rules", starts=False)
def rules_command(app: App) -> None:
    """List the answers that are remembered, and how often each was used.

    \b
    mcpctl approvals rules
    mcpctl approvals forget 2
    """
    with app.connect() as control:
        answer = control.exchange("mcpd/rules", {})
    if app.as_json:
        app.print_document(answer.value, answer.text)
    elif not answer.value["rules"]:
        app.print("nothing is remembered")
    else:
        app.print_table(RULES, [_rule(rule) for rule in answer.value["rules"]])


def _rule(rule: Any) -> list[render.Cell]:
    answer = rule["answer"]
    if "lapsed" in rule:
        answer = (f"{answer}, lapsed: {rule['lapsed']}", "yellow")
    elif "ends_s" in rule:
        answer = f"{answer}, {render.duration(rule['ends_s'])} left"
    whose = rule["principal"]
    if rule["session"] is not None:
        whose += f", session {rule['session']}"
    return [
        str(rule["id"]),
        visible.text(rule["server"]),
        visible.text(rule["tool"]),
        visible.text(whose),
        answer,
        render.moment(rule["since"]),
        visible.text(rule["by"]),
        str(rule["uses"]),
        "-" if rule["last"] is None else render.moment(rule["last"]),
    ]


@options.command("forget", starts=False)
@click.argument("what", required=False, metavar="N|SERVER[.TOOL]")
@click.option("--all", "is_all", is_flag=True, help="Everything that is remembered.")
def forget_command(app: App, what: str | None, is_all: bool) -> None:
    """Take back answers that are remembered: the next call is asked about again.

    \b
    mcpctl approvals forget 2
    mcpctl approvals forget files.write_file
    mcpctl approvals forget --all
    """
    if (what is None) != is_all:
        raise failures.usage("say what to forget: a number, SERVER, SERVER.TOOL or --all")
    with app.connect() as control:
        rules = control.request("mcpd/rules", {})["rules"]
        answer = control.exchange("mcpd/forget", _forgotten(what, rules))
    if app.as_json:
        app.print_document(answer.value, answer.text)
        return
    count = answer.value["forgotten"]
    app.print_line("1 answer forgotten" if count == 1 else f"{count} answers forgotten")


def _forgotten(what: str | None, rules: list[Any]) -> dict[str, Any]:
    if what is None:
        return {"all": True}
    if what.isdecimal():
        if int(what) not in [rule["id"] for rule in rules]:
            raise failures.usage(f"no answer {what} is remembered: mcpctl approvals rules")
        return {"ids": [int(what)]}
    matching = [
        rule for rule in rules if what in (rule["server"], f"{rule['server']}.{rule['tool']}")
    ]
    if not matching:
        raise failures.usage(f"nothing is remembered of {what}: mcpctl approvals rules")
    return {"ids": [rule["id"] for rule in matching]}


@options.command("approve", starts=False)
@click.argument("ident", metavar="ID", shell_complete=completion.approvals)
@click.option("--session", "of_session", is_flag=True, help="All calls of the tool, this session.")
@click.option("--for", "lifetime", type=click.Choice(["1h"]), help="All calls, for an hour.")
@click.option("--always", is_flag=True, help="All calls, until the tool changes.")
@click.option("--server", "all_tools", is_flag=True, help="So for all tools the server has now.")
def approve_command(
    app: App, ident: str, of_session: bool, lifetime: str | None, always: bool, all_tools: bool
) -> None:
    """Let a call run that waits for a yes.

    If it does not wait any more, the same call runs when it is made again.

    \b
    mcpctl approve a3
    mcpctl approve a3 --always --server
    """
    given = [
        each
        for each, is_given in (
            ("session", of_session),
            ("1h", lifetime is not None),
            ("always", always),
        )
        if is_given
    ]
    if len(given) > 1:
        raise failures.usage("--session, --for and --always are three answers: give one")
    if all_tools and not given:
        raise failures.usage("--server needs --session, --for or --always")
    params = {"id": ident, "answer": given[0] if given else "once", "all_tools": all_tools}
    _answer(app, params)


@options.command("deny", starts=False)
@click.argument("ident", metavar="ID", shell_complete=completion.approvals)
@click.option("--session", "of_session", is_flag=True, help="All calls of the tool, this session.")
def deny_command(app: App, ident: str, of_session: bool) -> None:
    """Refuse a call that waits for a yes, and for 10 minutes the same.

    \b
    mcpctl deny a3
    mcpctl deny a3 --session
    """
    _answer(app, {"id": ident, "answer": "no", "session": of_session})


def _answer(app: App, params: dict[str, Any]) -> None:
    with app.connect() as control:
        found = control.request("mcpd/approvals", {"id": params["id"]})["open"]
        answer = control.exchange("mcpd/approve", params)
    if app.as_json:
        app.print_document(answer.value, answer.text)
    else:
        app.print_line(_said(answer.value, found[0] if found else None))


def _said(answer: Any, question: Any) -> str:
    what = "" if question is None else f": {asking.what(question)}"
    if answer["answer"] == "no":
        return f"{answer['id']} denied{what}"
    how = {"once": "", "1h": " for 1 h", "session": " for the session", "always": " for good"}
    then = "it runs now" if answer["applies"] == "now" else "the next such call runs"
    return f"{answer['id']} approved{how[answer['answer']]}{what}; {then}"


for each in (show_command, rules_command, forget_command):
    approvals_command.add_command(each)  # type: ignore[attr-defined]


# -- watching --------------------------------------------------------------------------------------


def _watch(app: App, control: Control) -> None:
    stream = control.stream("mcpd/approvals", {"follow": True}, notification="mcpd/approval")
    if app.as_json or not (asking.can_ask() and render.is_terminal(sys.stdout)):
        _print_all(app, stream)
        return
    _Watch(app, control, stream).run()


def _print_all(app: App, stream: Stream) -> None:
    for question in stream.result["open"]:
        _print_one(app, {"what": "asked", "question": question})
    for notice in stream:
        _print_one(app, notice)


def _print_one(app: App, notice: Any) -> None:
    if app.as_json:
        app.print_item(notice)
        return
    question = notice["question"]
    more = notice.get("answer") or notice.get("how") or asking.excerpt(question)
    words = (question["id"], notice["what"], asking.who(question), asking.what(question))
    app.print_line("  ".join((*words, visible.text(more))))
    sys.stdout.flush()


class _Watch:
    """Questions on a terminal, one after the other, answered by key."""

    def __init__(self, app: App, control: Control, stream: Stream) -> None:
        self._app = app
        self._control = control
        self._stream = stream
        self._open = {each["id"]: each for each in stream.result["open"]}
        self._shown: str | None = None
        self._keyboard = asking.Keyboard()

    def run(self) -> None:
        """Watch until ``q`` is pressed, or the input ends."""
        try:
            self._app.print("waiting for questions; q ends this")
            while True:
                self._draw()
                key = self._keyboard.read(AGAIN_S, self._control.fileno())
                if key in ("q", "", "\x04"):
                    return
                if key is None:
                    self._hear(self._stream.so_far())
                else:
                    self._pressed(key)
        finally:
            self._keyboard.close()

    def _draw(self) -> None:
        """Draw the question that is next, if it is another one; older keys are not for it."""
        if self._shown not in self._open:
            self._shown = None
        if self._shown is not None or not self._open:
            return
        waiting = [ident for ident, each in self._open.items() if each["waits"]]
        self._show(waiting[0] if waiting else next(iter(self._open)))

    def _show(self, ident: str) -> None:
        self._shown = ident
        question = self._open[ident]
        others = len(self._open) - 1
        self._app.print("")
        for line in asking.block(question):
            self._app.print_line(line)
        sys.stdout.flush()
        self._keyboard.forget()
        more = f"; 1-{min(9, others + 1)} of {others + 1}" if others else ""
        self._app.print_line(f"  {asking.HELP}, v view{more}, q quit")
        sys.stdout.flush()

    def _hear(self, notices: list[Any]) -> None:
        for notice in notices:
            question = notice["question"]
            ident = question["id"]
            if notice["what"] == "asked":
                self._open[ident] = question
            elif self._open.pop(ident, None) is not None:
                told = notice.get("answer") or notice.get("how") or notice["what"]
                self._app.print_line(f"{ident} is over: {visible.text(told)}")

    def _pressed(self, key: str) -> None:
        if key.isdecimal() and 0 < int(key) <= len(self._open):
            self._show([*self._open][int(key) - 1])
        elif self._shown is None:
            return
        elif key == "v":
            self._view(self._shown)
        elif key in asking.KEYS:
            self._decide(self._shown, asking.KEYS[key])

    def _view(self, ident: str) -> None:
        answer = self._asked("mcpd/approvals", {"id": ident})
        for question in asking.load(answer.text)["open"] if answer is not None else ():
            for line in asking.whole(question):
                self._app.print(line)
        self._show(ident)

    def _decide(self, ident: str, said: str) -> None:
        question = self._open[ident]
        answer = self._asked("mcpd/approve", {"id": ident, "answer": said})
        self._open.pop(ident, None)
        if answer is not None:
            self._app.print_line(_said(answer.value, question))

    def _asked(self, method: str, params: dict[str, Any]) -> Any:
        """Ask on a connection of its own: this one brings what happens."""
        from mcpd.errors import RequestFailed

        try:
            with self._app.connect() as control:
                return control.exchange(method, params)
        except RequestFailed as error:
            self._app.note(*failures.lines(error, self._app.socket_option))
            return None
