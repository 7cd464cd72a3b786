"""What ``record`` keeps."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

import pytest

from mcpd.audit import payloads
from mcpd.audit.payloads import MOST_BYTES, Mode, Recorded, kept
from mcpd.audit.settings import Settings
from mcpd.redact import Redactor
from tests.unit.audit.support import MIB, Audit, call, read

OURS = "s3ntinel/of-the-server"


def text_of(data: object) -> str:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return zlib.decompress(kept(raw, Redactor([OURS]))).decode()


@pytest.mark.parametrize(
    "given",
    [
        {"text": f"it is {OURS}."},
        {"text": base64.b64encode(f"user:{OURS}".encode()).decode()},
        {"text": json.dumps({"deep": OURS})},
        {"password": "hunter2hunter2"},
        {"Authorization": "Bearer abcdefghijkl"},
        {"api_key": 123456789},
        {"tokens": ["one-of-them", "another"]},
        {"text": json.dumps({"password": "hunter2hunter2"})},
        {"text": "ghp_" + "a1B2c3D4" * 5},
    ],
)
def test_what_is_secret_is_masked(given: dict[str, object]) -> None:
    found = text_of(given)
    for secret in (OURS, "hunter2", "abcdefghijkl", "123456789", "one-of-them", "ghp_a1"):
        assert secret not in found
    for offset in range(3):
        assert base64.b64encode(OURS.encode()[offset:])[4:16].decode() not in found
    assert "***" in found


def test_the_rest_is_there() -> None:
    assert text_of({"path": "/tmp/x", "max_tokens": 5}) == '{"path": "/tmp/x", "max_tokens": 5}'


def test_it_is_bounded() -> None:
    assert len(text_of({"text": "word " * 100_000})) == MOST_BYTES
    assert text_of(b"\xff\xfe{").endswith("{")


@pytest.mark.parametrize("mode", ["none", "arguments", "full"])
def test_a_server_says_what_is_recorded(place: Path, mode: Mode) -> None:
    recorded = {} if mode == "none" else {"fake": Recorded(mode, Redactor([OURS]))}
    audit = Audit(place, Settings(30, 256 * MIB, recorded))
    audit.writer.add_call(call(arguments=b'{"a":"mine"}', result=b'{"b":"theirs"}'))
    audit.writer.add_call(call(server="other"))
    audit.writer.close()
    first, second = read(place, lambda reader: [reader.show(1), reader.show(2)])
    assert first.get("arguments") == (None if mode == "none" else '{"a":"mine"}')
    assert first.get("result") == ('{"b":"theirs"}' if mode == "full" else None)
    assert "arguments" not in second


def test_payloads_go_before_their_calls(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.waiting import wait_until
    from tests.unit.audit.test_writer import days_ago

    recorded = {"fake": Recorded("full", Redactor.NONE)}
    audit = Audit(place, Settings(30, 256 * MIB, recorded))
    audit.writer.add_call(call())
    audit.writer.close()
    days_ago(place, 8)
    again = Audit(place, Settings(30, 256 * MIB, recorded))
    again.writer.add_call(call())
    count = "SELECT count(*) FROM payload"
    wait_until(lambda: len(again.rows()) == 2)
    wait_until(lambda: read(place, lambda r: r._rows(count, ())[0][0]) == 1)
    again.writer.close()
    assert "arguments" not in read(place, lambda reader: reader.show(1))
    assert read(place, lambda reader: reader.show(2))["arguments"] == '{"a":1}'
    assert payloads.MOST_BYTES == MOST_BYTES
