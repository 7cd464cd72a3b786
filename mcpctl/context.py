"""What every command needs: which socket, what output, and a connection when it wants one."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcpctl import render
from mcpd import paths
from mcpd.daemon_start.hints import with_socket

if TYPE_CHECKING:
    from mcpd.client.control import Control


class App:
    """One run of ``mcpctl``."""

    def __init__(self, socket: str | None, config: str | None) -> None:
        self.asked_socket = socket
        self.socket = paths.socket_path(socket)
        self.is_socket_named = socket is not None
        """Whether the command line says which, and not the environment or nobody."""
        self.config = config
        self.as_json = False
        self.may_start = False
        self.status_line = render.StatusLine(sys.stderr)

    def connect(self, *, start: bool | None = None) -> Control:
        """Return a connection; it starts a daemon if the command does and the user lets it."""
        from mcpd.client.control import Control

        try:
            control = Control.open(
                self.socket,
                start=self.may_start if start is None else start,
                config=self.config,
                progress=self.status_line.show,
            )
        finally:
            self.status_line.clear()
        if start is None:
            self.compare_config(control)
        return control

    def compare_config(self, control: Control) -> None:
        """Say so where the daemon does not read the file that the command line names."""
        if self.config is None or "config" not in control.hello:
            return
        asked, read = os.path.abspath(self.config), control.hello["config"]
        if read is not None and os.path.realpath(read) == os.path.realpath(asked):
            return
        files = control.request("mcpd/list")["files"] if read is None else [read]
        told = f"the daemon that runs reads {', '.join(files)}, and not {asked}"
        if not os.path.exists(asked):
            self.note(f"{told}, which does not exist")
            return
        socket = ["--socket", self.socket] if self.is_socket_named else []
        typed = shlex.join(["mcpctl", *socket, "--config", asked, "restart", "--daemon"])
        self.note(f"{told}; to have it read that: {typed}")

    def addressed(self, text: str) -> str:
        """Return a text whose commands go to the socket that the command line names."""
        return with_socket(text, self.asked_socket)

    @contextmanager
    def waiting(self, text: str | Callable[[], str]) -> Iterator[Callable[[float], None] | None]:
        """Show ``text`` and the time while a request runs; what it gives is an ``on_wait``.

        It gives ``None``, so that nobody wakes up for it, where nobody looks.
        """
        if not self.status_line.is_on:
            yield None
            return

        def show(waited_s: float) -> None:
            if waited_s >= 1:
                told = text if isinstance(text, str) else text()
                self.status_line.show(f"{told}, {render.duration(waited_s)}")

        try:
            yield show
        finally:
            self.status_line.clear()

    def say(self, text: str, *, end: str = "\n") -> None:
        """Print what was asked for; on a terminal nothing in it controls that terminal."""
        sys.stdout.write((render.escaped(text) if render.is_terminal(sys.stdout) else text) + end)

    def line(self, text: str) -> None:
        """Print one line of ours, whatever a server has put into it."""
        self.say(render.one_line(text))

    def heading(self, text: str, colour: str) -> None:
        """Print a line that others belong to."""
        is_coloured = render.has_colour(sys.stdout)
        sys.stdout.write(
            f"{render.COLOURS[colour]}{text}{render.RESET}\n" if is_coloured else f"{text}\n"
        )

    def note(self, *lines: str) -> None:
        """Tell the person something that is not what was asked for."""
        sys.stderr.write(f"mcpctl: {render.message(lines, sys.stderr)}\n")

    def document(self, value: Any, text: str | None = None) -> None:
        """Print one JSON document; ``text`` is how its sender spelled it."""
        sys.stdout.write(render.document(value, text, sys.stdout))

    def item(self, value: Any) -> None:
        """Print one line of a stream of JSON documents."""
        import json

        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()

    def table(self, header: list[str], rows: list[list[render.Cell]]) -> None:
        """Print a table."""
        sys.stdout.write(render.table(header, rows, sys.stdout))
