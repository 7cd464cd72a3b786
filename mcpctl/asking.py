"""Questions whether a call may run, as people see them, and the keys that answer them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mcpctl import failures, render
from mcpd import visible

if TYPE_CHECKING:
    from mcpd.client.control import Control
    from mcpd.errors import RequestFailed

KEYS = {"y": "once", "s": "session", "h": "1h", "a": "always", "n": "no"}
"""The answer of each key."""

HELP = "y once, s this session, h for 1 h, a always, n no"

EXCERPT = 100
"""Columns of arguments in a list."""


def load(text: str) -> Any:
    """Read what the daemon sent, with numbers as they were written."""
    return visible.load(text)


def number(value: Any) -> float:
    """Return a number that ``load`` has read, or that was decoded otherwise."""
    return float(value)


def who(question: Any) -> str:
    """Return the client that asks, with its process or its token."""
    client = question["client"]
    name = " ".join(filter(None, (client["name"], client["version"]))) or "an unknown client"
    principal = str(question["principal"])
    if principal.startswith("token:"):
        return visible.text(f"{name} ({principal.replace(':', ' ', 1)})")
    pid = client["pid"]
    return visible.text(name if pid is None else f"{name} (pid {pid})")


def what(question: Any) -> str:
    """Return server and tool."""
    return visible.tool(question["server"], question["tool"])


def excerpt(question: Any) -> str:
    """Return the beginning of the arguments, on one line."""
    arguments = question["arguments"]
    if arguments is None and int(question["arguments_bytes"]) > 4:
        return f"({render.size(int(question['arguments_bytes']))})"
    told, room = "", EXCERPT
    for line in visible.lines(arguments):
        told += line.strip() + " "
        if len(told) > room:
            break
    return render.cut(told.strip(), room)


def ending(question: Any) -> str:
    """Return for how long a question is open, and whether a call waits for it."""
    waits = "a call waits" if question["waits"] else "a yes is for the next such call"
    asked = f"{waits}; asked {render.duration(number(question['age_s']))} ago"
    left = question["expires_s"]
    return asked if left is None else f"{asked}, open for {render.duration(number(left))} more"


def block(question: Any) -> list[str]:
    """Return what a person decides by, in a few lines."""
    return [
        f"{question['id']}: may {who(question)} run {what(question)}?",
        f"  why: {visible.text(str(question['reason']))}",
        f"  {excerpt(question)}",
    ]


def whole(question: Any) -> Iterator[str]:
    """Yield everything that there is to know of a question."""
    yield f"{question['id']}: may {who(question)} run {what(question)}?"
    yield f"why: {visible.text(str(question['reason']))}"
    yield f"whose: {visible.text(str(question['principal']))}, session {question['session']}"
    yield ending(question)
    yield ""
    yield "arguments:"
    yield from visible.lines(question["arguments"], 1)
    definition, before = question.get("definition"), question.get("before")
    if definition is not None:
        yield ""
        yield "the tool, as its server lists it:"
        yield from visible.lines(definition, 1)
    if before is not None:
        yield ""
        yield "what has changed since somebody said always:"
        yield from difference(before, definition)


def difference(before: Any, now: Any) -> Iterator[str]:
    """Yield the lines that differ between two definitions, and those around them."""
    import difflib

    old, new = (list(visible.lines({} if each is None else each)) for each in (before, now))
    for line in list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]:
        if not line.startswith("@@"):
            yield f"  {line}"


class Keyboard:
    """Single keys from the terminal; what was typed before a question was drawn does not count."""

    def __init__(self) -> None:
        import termios
        import tty

        self._fd = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        self.forget()

    def forget(self) -> None:
        """Discard what was typed so far."""
        import termios

        termios.tcflush(self._fd, termios.TCIFLUSH)

    def read(self, timeout: float, *others: int) -> str | None:
        """Return a key within ``timeout`` seconds, ``None`` where ``others`` can be read first.

        The end of the input is an empty text.
        """
        import os
        import select

        ready, _, _ = select.select([self._fd, *others], [], [], timeout)
        if self._fd not in ready:
            return None
        return os.read(self._fd, 1).decode("ascii", "replace")

    def close(self) -> None:
        """Give the terminal back as it was."""
        import termios

        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)


def can_ask() -> bool:
    """Return whether a person is at the terminal: keys can be read, and questions be seen."""
    return render.is_terminal(sys.stdin) and render.is_terminal(sys.stderr)


class InPlace:
    """Asks about a call where it was typed, while its answer is waited for."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._keyboard: Keyboard | None = None
        self._ident = ""

    @property
    def is_asking(self) -> bool:
        """Whether a question stands on the terminal."""
        return self._keyboard is not None

    def told(self, notice: Any) -> None:
        """Take an ``mcpd/approval`` notification: draw the question, or take it away."""
        if notice["what"] == "asked" and notice["question"]["waits"]:
            self._ident = notice["question"]["id"]
            sys.stderr.write(render.message(block(notice["question"]), sys.stderr) + "\n")
            sys.stderr.flush()
            self._keyboard = Keyboard()  # older keys are not for it
            sys.stderr.write(f"  {HELP} ")
            sys.stderr.flush()
        elif notice["question"]["id"] == self._ident:
            self.close()

    def look(self) -> None:
        """Answer the question if a key was pressed that does."""
        if self._keyboard is None:
            return
        key = self._keyboard.read(0)
        answer = KEYS.get(key or "", "")
        if answer:
            sys.stderr.write(f"{answer}\n")
            self.close()
            params = {"id": self._ident, "answer": answer}
            self._control.send("mcpd/approve", params, self._refused)

    def _refused(self, error: RequestFailed) -> None:
        text = render.message(failures.lines(error), sys.stderr)
        sys.stderr.write(f"mcpctl: {text}\n")

    def close(self) -> None:
        """Give the terminal back."""
        if self._keyboard is not None:
            self._keyboard.close()
            self._keyboard = None
