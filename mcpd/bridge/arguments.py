"""The command line of ``mcpctl connect``."""

from __future__ import annotations

import math

LINGER_S = 2.0

USAGE = """\
Usage: mcpctl connect [OPTIONS] [SERVER | -- COMMAND ARG...]

Bridge stdin and stdout to a server: what an MCP client runs. Without a server: all
enabled ones as one. With -- COMMAND: a server that is in no configuration, shared with
everyone who runs the same command in the same directory and environment.

It outlives the daemon: when the connection is lost it attaches to the next one, which it
starts if need be, and goes on; see docs/operations.md, "Restarts and upgrades".

Options:
  --linger S     Seconds for answers still on their way when stdin ends, counted from
                 when the server is ready (default 2); what is missing then is
                 cancelled, and the exit status is 5.
  --no-start     Start no daemon: where none runs, end with 3; later, wait for one.
  --socket PATH  The daemon's socket (default: MCPD_SOCKET, else the user's own).
  --config FILE  The configuration for a daemon that has to be started.
  -h, --help     Show this and exit.
"""


class UsageError(Exception):
    """A command line that means nothing; the message is for people."""


class Arguments:
    """What was asked for."""

    def __init__(self) -> None:
        self.server: str | None = None
        self.command: list[str] | None = None
        self.linger = LINGER_S
        self.may_start = True
        self.socket: str | None = None
        self.config: str | None = None
        self.wants_help = False


def parse(argv: list[str]) -> Arguments:
    """Read the words after ``connect``, of whom the last option of a name counts."""
    asked = Arguments()
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--":
            asked.command, words = words, []
        elif not word.startswith("-") or word == "-":
            if asked.server is not None:
                raise UsageError(f"one server at most: {asked.server}, {word}")
            asked.server = word
        else:
            _option(asked, word, words)
    if asked.command is not None and not asked.command:
        raise UsageError("a command is expected after --")
    if asked.command and asked.server is not None:
        raise UsageError("either a server or -- COMMAND, not both")
    return asked


def _option(asked: Arguments, word: str, rest: list[str]) -> None:
    name, equals, value = word.partition("=")
    match name, equals:
        case (("-h" | "--help"), ""):
            asked.wants_help = True
        case "--no-start", "":
            asked.may_start = False
        case (("--linger" | "--socket" | "--config"), _):
            if not equals:
                if not rest:
                    raise UsageError(f"{name} expects a value")
                value = rest.pop(0)
            if not value:
                raise UsageError(f"{name} expects a value")
            if name == "--linger":
                asked.linger = _seconds(value)
            elif name == "--socket":
                asked.socket = value
            else:
                asked.config = value
        case _:
            raise UsageError(f"no such option: {name}")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise UsageError(f"--linger expects seconds, 0 or more: {text}")
    return value
