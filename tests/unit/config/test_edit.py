"""Setting the addresses of the HTTP front in a file that somebody wrote by hand."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from mcpd.config import edit
from mcpd.errors import ConfigError

ON = ("127.0.0.1:1",)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[http]\nlisten = "127.0.0.1:1"\n'),
        ("# mine\n[daemon]\n", '# mine\n[daemon]\n\n[http]\nlisten = "127.0.0.1:1"\n'),
        (
            "[http] # here\nauth = 'none'\n[a]\n",
            "[http] # here\nauth = 'none'\nlisten = \"127.0.0.1:1\"\n[a]\n",
        ),
        (
            "[http]\nlisten = [ # two\n  'a]', \"b\" ] # end\n",
            '[http]\nlisten = "127.0.0.1:1" # end\n',
        ),
        ("http.listen = '' # off\n", 'http.listen = "127.0.0.1:1" # off\n'),
        (
            "http = { keepalive = 3 }\n",
            'http = { keepalive = 3, listen = "127.0.0.1:1" }\n',
        ),
        ("http.keepalive = 3\n", 'http.keepalive = 3\nhttp.listen = "127.0.0.1:1"\n'),
    ],
)
def test_toml(before: str, after: str) -> None:
    assert edit.edited(before.encode(), "toml", ON) == after.encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "http": {\n    "listen": "127.0.0.1:1"\n  }\n}\n'),
        (
            '{ // mine\n "a": 1,\n}\n',
            '{ // mine\n "a": 1,\n "http": {\n  "listen": "127.0.0.1:1"\n },\n}\n',
        ),
        ('{"http": {/* x */}}', '{"http": {"listen": "127.0.0.1:1"/* x */}}'),
        (
            '{"http": {"listen": ["a", /* ] */ "b"], "auth": "none"}}',
            '{"http": {"listen": "127.0.0.1:1", "auth": "none"}}',
        ),
        ('{"http": {"auth": "none"}}', '{"http": {"auth": "none", "listen": "127.0.0.1:1"}}'),
    ],
)
def test_json(before: str, after: str) -> None:
    assert edit.edited(before.encode(), "jsonc", ON) == after.encode()


def test_off_is_an_empty_text_and_several_are_a_list() -> None:
    assert edit.edited(b"[http]\nlisten = 'a'\n", "toml", ()) == b'[http]\nlisten = ""\n'
    several = edit.edited(b"[http]\nlisten = 'a'\n", "toml", ("a", "b"))
    assert several == b'[http]\nlisten = ["a", "b"]\n'


def test_a_form_that_cannot_be_edited_is_refused() -> None:
    with pytest.raises(ConfigError):
        edit.edited(b"http = 3\n", "toml", ON)


def test_the_file_that_has_the_table_is_edited_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MCPD_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("MCPD_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "mcpd").mkdir()
    file = tmp_path / "mcpd" / "mcp.json"
    file.write_text('{"http": {}}')
    file.chmod(0o640)
    (tmp_path / "mcpd" / "config.toml").write_text("")
    assert edit.set_listen(None, ON) == str(file)
    assert edit.listening(None) == ON
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_first_file_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MCPD_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("MCPD_STATE_DIR", str(tmp_path / "state"))
    assert edit.set_listen(None, ON) == str(tmp_path / "mcpd" / "config.toml")
    assert edit.listening(None) == ON
