"""``mcpctl token``, which needs no daemon, and ``mcpctl http`` where none runs."""

from __future__ import annotations

import json
import re
import stat

from tests.support.daemon import Box


def test_a_token_is_shown_once_and_its_hash_is_kept(box: Box) -> None:
    made = box.ctl("token", "create", "laptop", "--server", "a", "--tool", "r*", "--expires", "2h")
    assert made.returncode == 0
    text = made.stdout.strip()
    assert re.fullmatch(r"mcpd_[A-Za-z0-9_-]{43}", text)
    file = box.state / "tokens.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert text not in file.read_text()
    [listed] = json.loads(box.ctl("token", "list", "--json").stdout)["tokens"]
    assert (listed["name"], listed["servers"], listed["tools"]) == ("laptop", ["a"], ["r*"])
    assert not listed["expired"]
    assert "laptop" in box.ctl("token", "list").stdout


def test_a_name_that_is_taken_or_unknown_is_refused(box: Box) -> None:
    assert box.ctl("token", "create", "laptop").returncode == 0
    again = box.ctl("token", "create", "laptop")
    assert again.returncode == 2
    assert "mcpctl token revoke laptop" in again.stderr
    assert box.ctl("token", "revoke", "laptop").returncode == 0
    assert box.ctl("token", "revoke", "laptop").returncode == 2
    assert "mcpctl token create" in box.ctl("token", "list").stdout


def test_a_time_that_is_none_is_refused(box: Box) -> None:
    for wrong in ("soon", "0d", "-1d", "5", ""):
        assert box.ctl("token", "create", "laptop", "--expires", wrong).returncode == 2
    assert not (box.state / "tokens.json").exists()


def test_http_is_turned_on_for_the_next_daemon(box: Box) -> None:
    box.fake().write()
    done = box.ctl("http", "on", "--json")
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert (told["listen"], told["applied"]) == (["127.0.0.1:6273"], False)
    assert json.loads(box.config.read_text())["http"] == {"listen": "127.0.0.1:6273"}
    url = box.ctl("url", "my files")
    assert url.stdout.strip() == "http://127.0.0.1:6273/mcp/my%20files"
    assert box.ctl("http", "on", "--listen", "6273").returncode == 2
    assert box.ctl("http", "off").returncode == 0
    assert json.loads(box.config.read_text())["http"] == {"listen": ""}
