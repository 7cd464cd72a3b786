"""What every command needs: the socket, the output, and a connection to the daemon."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mcpctl import render
from mcpd import paths
from mcpd.daemon_start.hints import with_socket
from mcpd.daemon_start.place import locate

if TYPE_CHECKING:
    from mcpd.client.control import Control


class App:
    """One run of ``mcpctl``."""

    def __init__(self, socket: str | None, config: str | None) -> None:
        self.socket_option = socket
        self.is_socket_named = socket is not None
        """Whether the command line has ``--socket``."""
        self.config = config
        self.as_json = False
        self.may_start = False
        self.hidden: set[str] = set()
        """Passwords that were typed, which are shown nowhere."""
        self.agrees_by_default = False
        """Whether Enter means yes where a command asks whether to write what it has shown."""
        self.status_line = render.StatusLine(sys.stderr)

    @cached_property
    def _place(self) -> tuple[str, dict[str, str]]:
        return locate(self.socket_option, self.config)

    @property
    def socket(self) -> str:
        """The path of the daemon's socket."""
        return self._place[0]

    @property
    def variables(self) -> dict[str, str]:
        """What a daemon that is started there has in its environment besides ours."""
        return self._place[1]

    @property
    def state_dir(self) -> str:
        """The state directory of the daemon."""
        return paths.state_dir({**os.environ, **self.variables})

    def connect(self, *, start: bool | None = None) -> Control:
        """Return a connection; ``start`` a daemon if none runs (default: ``may_start``)."""
        from mcpd.client.control import Control

        try:
            control = Control.open(
                self.socket,
                start=self.may_start if start is None else start,
                config=self.config,
                variables=self.variables,
                progress=self.status_line.show,
            )
        finally:
            self.status_line.clear()
        if start is None:
            self.compare_config(control)
        return control

    def compare_config(self, control: Control) -> None:
        """Note on stderr if the daemon does not read the file of ``--config``."""
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

    def with_socket(self, text: str) -> str:
        """Return ``text`` with the ``--socket`` of this command line in its commands."""
        return with_socket(text, self.socket_option)

    @contextmanager
    def waiting(self, text: str | Callable[[], str]) -> Iterator[Callable[[float], None] | None]:
        """Show ``text`` and the time waited on a terminal while a request runs.

        Yields the request's ``on_wait``; ``None`` if stderr is not a terminal.
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

    def print(self, text: str, *, end: str = "\n") -> None:
        """Print output; on a terminal, escape its control characters."""
        sys.stdout.write((render.escaped(text) if render.is_terminal(sys.stdout) else text) + end)

    def print_line(self, text: str) -> None:
        """Print one line, with any line breaks in it replaced by spaces."""
        self.print(render.one_line(text))

    def print_heading(self, text: str, colour: str) -> None:
        """Print a heading in a colour."""
        is_coloured = render.has_colour(sys.stdout)
        sys.stdout.write(
            f"{render.COLOURS[colour]}{text}{render.RESET}\n" if is_coloured else f"{text}\n"
        )

    def note(self, *lines: str) -> None:
        """Write a message to stderr."""
        sys.stderr.write(f"mcpctl: {render.message(lines, sys.stderr)}\n")

    def print_document(self, value: Any, text: str | None = None) -> None:
        """Print one JSON document; ``text`` is the document as its sender wrote it."""
        sys.stdout.write(render.document(value, text, sys.stdout))

    def print_item(self, value: Any) -> None:
        """Print one line of a stream of JSON documents."""
        import json

        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()

    def print_table(self, header: list[str], rows: list[list[render.Cell]]) -> None:
        """Print a table."""
        sys.stdout.write(render.table(header, rows, sys.stdout))
