"""Checks the HTTP front: who may use it, and whether it is where the configuration says."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime

from mcpd.config.schema import HttpConfig
from mcpd.doctor.facts import Talk, Tokens
from mcpd.doctor.finding import Finding, error, fine, note, warning

HTTP = "http."
"""The beginning of a problem in ``status`` that is about HTTP."""

SOON_S = 7 * 86400.0
"""A token that expires within this time is reported."""


def check(http: HttpConfig, tokens: Tokens | None, talk: Talk | None) -> Iterator[Finding]:
    """Yield the findings about addresses and tokens; none where HTTP is off and has no tokens."""
    if http.listen:
        yield from _addresses(http, talk)
    if tokens is not None:
        yield from _tokens(http, tokens)


def _addresses(http: HttpConfig, talk: Talk | None) -> Iterator[Finding]:
    if http.auth == "none":
        where = ", ".join(http.listen)
        yield warning(
            "http_without_token",
            f"every program of this machine may use the daemon over HTTP at {where}: auth is none",
            "remove `auth` from the table `http`, then: mcpctl token create NAME",
        )
    daemon = {} if talk is None or talk.status is None else talk.status["daemon"]
    opened = daemon.get("http")
    if opened is None:
        return
    problems = [each for each in daemon.get("problems", ()) if each.startswith("http.listen")]
    missing = [address for address in http.listen if address not in opened]
    for problem in problems:
        yield error(
            "http_not_listening", problem, "free the address or choose another: mcpctl http on"
        )
    if missing and not problems:
        text = f"the daemon does not listen on {', '.join(missing)}"
        yield error("http_not_listening", text, "mcpctl reload")
    elif opened:
        yield fine("http", f"the daemon listens for HTTP on {', '.join(opened)}")


def _tokens(http: HttpConfig, tokens: Tokens) -> Iterator[Finding]:
    if tokens.trouble is not None:
        remedy = tokens.remedy or "mend that file: no HTTP client may do anything"
        yield error("tokens_unusable", f"tokens cannot be used: {tokens.trouble}", remedy)
        return
    if http.listen and http.auth == "token" and not tokens.expires:
        yield note(
            "no_tokens", "no client may use the daemon over HTTP yet", "mcpctl token create NAME"
        )
    for name, expires in tokens.expires.items():
        if expires is None or expires > tokens.now + SOON_S:
            continue
        quoted = shlex.quote(name)
        remedy = f"mcpctl token revoke {quoted}; mcpctl token create {quoted}"
        if expires <= tokens.now:
            yield note("token_expired", f"the token {name!r} has expired", remedy)
        else:
            day = datetime.fromtimestamp(expires, UTC).date()
            yield warning("token_expires", f"the token {name!r} expires on {day}", remedy)
