"""``mcpctl edit``: the configuration in an editor, checked before it is saved."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import click

from mcpctl import applying, options, questions, render
from mcpd import exits
from mcpd.errors import ConfigError

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.onboarding.editor import Copy

EDITORS = ("VISUAL", "EDITOR")
USUAL = ("sensible-editor", "editor", "nano", "vi")
"""Editors for a person who has not chosen one."""


@options.command("edit", starts=False)
def edit_command(app: App) -> int:
    """Edit your configuration in $EDITOR, and save it once it is right.

    You edit a copy. What is wrong with it is shown with its line, and you can edit it again; your
    configuration changes only when it can be read. A running daemon has the change at once.

    \b
    mcpctl edit
    """
    from mcpd.onboarding import editor

    file, before = editor.begin(app.config)
    with editor.copied(file, before) as copy:
        try:
            after = _edited(app, file, copy)
        except _EditorFailed as error:
            raise ConfigError(f"{error}; {file} is as it was{copy.told()}") from None
        if after is None:
            app.print_line(f"nothing was changed in {file}")
            return exits.DONE
        try:
            editor.save(file, before, after)
        except ConfigError as error:
            raise ConfigError(f"{error.message}{copy.told()}") from None
        copy.forget()
    applied = applying.reload(app)
    if app.as_json:
        app.print_document({"file": file, "applied": applied.is_applied, "errors": applied.errors})
    else:
        app.print_line(f"saved {file}")
        for told in applied.errors:
            app.note(app.with_socket(told))
    return exits.DONE


def _edited(app: App, file: str, copy: Copy) -> bytes | None:
    """Have a person edit a copy until it can be saved; ``None`` if nothing was changed."""
    from mcpd.onboarding import editor

    while True:
        _run_editor(copy.path)
        if not copy.is_changed:
            return None
        errors, warnings = editor.problems(copy.path)
        for warning in warnings:
            app.note(warning)
        if not errors:
            return copy.read()
        app.note("this cannot be saved:", *(f"  {error}" for error in errors))
        if not questions.can_ask(app) or not _again():
            raise ConfigError(f"{file} is as it was{copy.told()}")


class _EditorFailed(Exception):
    """The editor cannot be started, or ended with a failure."""


def _run_editor(path: str) -> None:
    chosen = next(filter(None, map(os.environ.get, EDITORS)), None)
    if chosen is None:
        if not render.is_terminal(sys.stdin):
            raise _EditorFailed("there is no terminal for an editor: set EDITOR")
        found = next(filter(None, map(shutil.which, USUAL)), None)
        if found is None:
            raise _EditorFailed("there is no editor: set EDITOR")
        command = [found]
    else:
        try:
            command = shlex.split(chosen)
        except ValueError as error:
            raise _EditorFailed(f"{chosen!r} is no command: {error}") from None
    # An interrupt is for the editor. A handler, unlike SIG_IGN, is not inherited.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        status = subprocess.run([*command, path], check=False).returncode
    except OSError as error:
        raise _EditorFailed(
            f"the editor {command[0]} cannot be started: {error.strerror}"
        ) from None
    finally:
        signal.signal(signal.SIGINT, before)
    if status:
        raise _EditorFailed(f"the editor ended with status {status}")


def _again() -> bool:
    """Ask what to do with a text that cannot be saved; return whether to edit it again."""
    with contextlib.suppress(click.Abort):
        chosen: str = click.prompt(
            "(e)dit it again, or (q)uit without saving?",
            type=click.Choice(["e", "q"]),
            default="e",
            show_choices=False,
            err=True,
        )
        return chosen == "e"
    return False
