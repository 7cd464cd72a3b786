"""``mcpctl edit``: the configuration in an editor, checked before it is saved."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING

import click

from mcpctl import applying, options, questions
from mcpd import exits
from mcpd.errors import ConfigError

if TYPE_CHECKING:
    from mcpctl.context import App

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
    folder = tempfile.mkdtemp(prefix="mcpctl-edit-")
    copy = os.path.join(folder, os.path.basename(file))
    _write(copy, before)
    is_kept = False
    try:
        with open(copy, "rb") as opened:
            shown = opened.read()
        while True:
            _run_editor(copy)
            with open(copy, "rb") as opened:
                after = opened.read()
            if after == shown:
                app.print_line(f"nothing was changed in {file}")
                return exits.DONE
            is_kept = True
            errors, warnings = editor.problems(copy)
            for warning in warnings:
                app.note(warning)
            if not errors:
                break
            app.note("this cannot be saved:", *(f"  {error}" for error in errors))
            if not questions.can_ask(app) or not _again():
                raise ConfigError(f"{file} is as it was; what you typed is in {copy}")
        try:
            editor.save(file, before, after)
        except ConfigError as error:
            raise ConfigError(f"{error.message}; what you typed is in {copy}") from None
        is_kept = False
    except _EditorFailed as error:
        hint = f"; what you typed is in {copy}" if is_kept else ""
        raise ConfigError(f"{error}; {file} is as it was{hint}") from None
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)
    applied = applying.reload(app)
    if app.as_json:
        app.print_document({"file": file, "applied": applied.is_applied, "errors": applied.errors})
    else:
        app.print_line(f"saved {file}")
        for told in applied.errors:
            app.note(app.with_socket(told))
    return exits.DONE


class _EditorFailed(Exception):
    """The editor cannot be started, or ended with a failure."""


def _run_editor(path: str) -> None:
    chosen = next(filter(None, map(os.environ.get, EDITORS)), None)
    if chosen is None:
        found = next(filter(None, map(shutil.which, USUAL)), None)
        if found is None:
            raise _EditorFailed("there is no editor: set EDITOR")
        command = [found]
    else:
        try:
            command = shlex.split(chosen)
        except ValueError as error:
            raise _EditorFailed(f"the editor {chosen!r} cannot be read: {error}") from None
    try:
        status = subprocess.run([*command, path], check=False).returncode
    except OSError as error:
        raise _EditorFailed(
            f"the editor {command[0]} cannot be started: {error.strerror}"
        ) from None
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


def _write(path: str, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as opened:
        opened.write(content)
