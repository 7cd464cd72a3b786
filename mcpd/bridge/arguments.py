"""The command line of ``mcpctl connect``."""

from __future__ import annotations

import math

LINGER_S = 2.0

USAGE = """\
Usage: mcpctl connect [OPTIONS] [SERVER | -- COMMAND ARG...]

Bridge stdin and stdout to a server: the command that an MCP client runs. Without SERVER:
all enabled servers as one. With -- COMMAND: a server that no configuration names, shared
by all who run the same command in the same directory and environment.

The session outlives the daemon: when the connection is lost, the bridge attaches to the
next daemon, which it starts if need be; see docs/operations.md, "Restarts and upgrades".

Options:
  --linger S     Seconds to wait for answers when stdin ends, counted from when the
                 server is ready (default 2). Unanswered requests are then cancelled,
                 and the exit status is 5.
  --profile NAME Only what this profile of the configuration lets through.
  --no-start     Start no daemon: exit with 3 if none runs; later on, wait for one.
  --socket PATH  The daemon's socket (default: MCPD_SOCKET, else that of the user's daemon).
  --config FILE  The configuration for a daemon that is started.
  -h, --help     Show this and exit.
"""


class UsageError(Exception):
    """A command line that cannot be parsed; the message is for people."""


class Arguments:
    """The parsed command line."""

    def __init__(self) -> None:
        self.server: str | None = None
        self.command: list[str] | None = None
        self.linger = LINGER_S
        self.may_start = True
        self.profile: str | None = None
        self.socket: str | None = None
        self.config: str | None = None
        self.wants_help = False


def parse(argv: list[str]) -> Arguments:
    """Parse the words after ``connect``; the last of several equal options counts."""
    parsed = Arguments()
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--":
            parsed.command, words = words, []
        elif not word.startswith("-") or word == "-":
            if parsed.server is not None:
                raise UsageError(f"one server at most: {parsed.server}, {word}")
            parsed.server = word
        else:
            _option(parsed, word, words)
    if parsed.command is not None and not parsed.command:
        raise UsageError("a command is expected after --")
    if parsed.command and parsed.server is not None:
        raise UsageError("either a server or -- COMMAND, not both")
    return parsed


def _option(parsed: Arguments, word: str, rest: list[str]) -> None:
    name, equals, value = word.partition("=")
    match name, equals:
        case (("-h" | "--help"), ""):
            parsed.wants_help = True
        case "--no-start", "":
            parsed.may_start = False
        case (("--linger" | "--socket" | "--config" | "--profile"), _):
            if not equals:
                if not rest:
                    raise UsageError(f"{name} expects a value")
                value = rest.pop(0)
            if not value:
                raise UsageError(f"{name} expects a value")
            if name == "--linger":
                parsed.linger = _seconds(value)
            elif name == "--socket":
                parsed.socket = value
            elif name == "--profile":
                parsed.profile = value
            else:
                parsed.config = value
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
