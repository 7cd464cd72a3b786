"""What is said of the HTTP front, from what was found."""

from __future__ import annotations

from typing import Any

from mcpd.config.schema import HttpConfig
from mcpd.doctor.check.http import check
from mcpd.doctor.facts import Talk, Tokens
from mcpd.doctor.finding import Finding

DAY_S = 86400.0
ADDRESS = "127.0.0.1:6273"


def findings(
    http: HttpConfig | None = None, daemon: dict[str, Any] | None = None, **tokens: Any
) -> dict[str, Finding]:
    talk = None if daemon is None else Talk(status={"daemon": daemon})
    found = check(http or HttpConfig(), Tokens(now=100 * DAY_S, **tokens), talk)
    return {each.id: each for each in found}


def test_of_http_that_is_off_nothing_is_said() -> None:
    assert not findings()


def test_an_address_that_is_open() -> None:
    daemon = {"http": [ADDRESS], "problems": []}
    found = findings(HttpConfig(listen=(ADDRESS,)), daemon, expires={"a": None})
    assert {ident: each.severity for ident, each in found.items()} == {"http": "ok"}


def test_an_address_that_is_not_open_is_reported_with_the_reason() -> None:
    why = f"http.listen: cannot listen on {ADDRESS}: in use"
    daemon = {"http": [], "problems": [why, "the disk is full"]}
    found = findings(HttpConfig(listen=(ADDRESS,)), daemon, expires={"a": None})
    assert [*found] == ["http_not_listening"]
    assert found["http_not_listening"].message == why


def test_that_everybody_may_is_a_warning() -> None:
    found = findings(HttpConfig(listen=(ADDRESS,), auth="none"))
    assert found["http_without_token"].severity == "warning"


def test_that_nobody_may_is_a_note() -> None:
    assert findings(HttpConfig(listen=(ADDRESS,)))["no_tokens"].severity == "note"


def test_a_token_that_expires() -> None:
    found = findings(expires={"new": 200 * DAY_S, "soon": 103 * DAY_S, "old": 99 * DAY_S})
    assert {ident: each.severity for ident, each in found.items()} == {
        "token_expires": "warning",
        "token_expired": "note",
    }
    assert "1970-04-14" in found["token_expires"].message


def test_a_file_that_others_can_read() -> None:
    found = findings(trouble="others can read it", remedy="chmod 600 x")["tokens_unusable"]
    assert (found.severity, found.remedy) == ("error", "chmod 600 x")
