"""Questions to the person at the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mcpctl import render

if TYPE_CHECKING:
    from mcpctl.context import App


def can_ask(app: App) -> bool:
    """Return whether a person is there to answer: never where JSON is printed."""
    return not app.as_json and render.is_terminal(sys.stdin) and render.is_terminal(sys.stderr)


def confirmed(question: str, *, default: bool = True) -> bool:
    """Ask a question with the answers yes and no, and return whether it is yes."""
    return click.confirm(question, default=default, err=True)


def answer(question: str, *, is_secret: bool = False, default: str | None = None) -> str:
    """Ask for a text, which is not shown while it is typed if it ``is_secret``."""
    found: str = click.prompt(
        question,
        hide_input=is_secret,
        default=default,
        show_default=default != "",
        err=True,
    )
    return found.strip()
