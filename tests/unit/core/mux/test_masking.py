"""What the mux tells of what a server said: without its secrets, also where that is cut."""

from __future__ import annotations

import json

import msgspec
import pytest

from mcpd.core.interface import commands as cmd
from mcpd.core.interface import events as ev
from mcpd.core.mcp.versions import Era
from mcpd.core.upstream.era_detection import EraDetection, Refuse
from mcpd.redact import Redactor
from tests.unit.core.mux.world import World

SECRET = "Zqj0-Sentinel/12345-jqZ"
REDACTOR = Redactor([SECRET])
AROUND = range(-2, len(SECRET) + 3)
"""Characters of the secret that stand before the cut."""


def world() -> World:
    made = World()
    made.run("!! server echo", "!! start echo", "!! join 1 echo", "!! join 2 echo")
    made.entries["echo"] = msgspec.structs.replace(made.entries["echo"], redactor=REDACTOR)
    made.handle(ev.EntriesChanged(tuple(made.entries.values())))
    return made


def texts(commands: list[cmd.Command]) -> list[str]:
    return [each.fact.text for each in commands if isinstance(each, cmd.Tell)]  # type: ignore[union-attr]


def assert_hidden(text: str) -> None:
    assert not any(SECRET[at : at + 3] in text for at in range(len(SECRET) - 2)), text


@pytest.mark.parametrize("before", AROUND)
def test_noise_is_masked_before_it_is_cut(before: int):
    said = "." * (2000 - before) + SECRET + "." * 500
    (text,) = texts(world().say("echo", said.encode()))
    assert_hidden(text)
    assert text.startswith("." * 1900)
    assert len(text) <= 2000


@pytest.mark.parametrize("before", AROUND)
def test_a_log_message_for_no_session_is_masked_before_it_is_cut(before: int):
    made = world()
    made.call(1, 1)
    made.call(2, 2)
    data = "." * (2000 - len('{"level":"error","data":"') - before) + SECRET + "." * 500
    line = (
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"%s"}}'
    )
    (text,) = texts(made.say("echo", (line % data).encode()))
    assert_hidden(text)
    assert text.startswith('{"level":"error","data":"...')


@pytest.mark.parametrize("before", AROUND)
def test_the_error_of_a_list_is_masked_before_it_is_cut(before: int):
    made = world()
    done = made.run(
        '>> echo {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}', "!! +1"
    )
    ident = json.loads(next(line for line in done if "tools/list" in line).split(" ", 2)[2])["id"]
    message = "." * (300 - len('{"code":-1,"message":"') - before) + SECRET + "." * 500
    error = {"code": -1, "message": message}
    line = json.dumps({"jsonrpc": "2.0", "id": ident, "error": error}, separators=(",", ":"))
    (text,) = texts(made.say("echo", line.encode()))
    assert_hidden(text)
    assert "tools/list failed: {" in text and text.endswith("; the previous list stays")


@pytest.mark.parametrize("before", AROUND)
def test_the_error_of_a_handshake_is_masked_before_it_is_cut(before: int):
    opening = EraDetection("echo", Era.LEGACY, None, {}, REDACTOR)
    opening.up()
    error = f'{{"code":-1,"message":"{"." * (500 - 22 - before)}{SECRET}{"." * 500}"}}'
    move = opening.answered(None, error.encode())
    assert isinstance(move, Refuse)
    assert_hidden(move.message)
    assert "..." in move.message
