"""Recognises the secret parts of an entry, and masks them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

import msgspec

from mcpd.config.texts import workspace
from mcpd.config.texts.interpolate import Piece, joined
from mcpd.redact import MASK, MIN_SECRET

# The words of a name in camelCase, snake_case, kebab-case or with dots.
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]+")
_WORDS: Final = frozenset({
    "apikey", "bearer", "cookie", "cookies", "credential", "credentials", "creds", "dsn", "jwt",
    "key", "keys", "pass", "passwd", "password", "passwords", "passphrase", "pat", "private", "pw",
    "pwd", "secret", "secrets", "sig", "signature", "token", "tokens",
})  # fmt: skip
"""A name with one of these words names a secret."""

_ENDS: Final = re.compile(
    r"(?:token|secret|passw(?:or)?d|passphrase|cookie|credential|signature|key)s?$"
    r"|auth(?!or(?!i[sz]))"
)
"""Endings of compound words that name a secret: ``PGPASSWORD``, ``authtoken``."""

_OTHERS: Final = frozenset({
    "donkey", "hockey", "hotkey", "hotkeys", "jockey", "monkey", "monkeys", "turkey", "whiskey",
})  # fmt: skip
_PAIRS: Final = frozenset({("connection", "string"), ("conn", "string"), ("conn", "str")})
_COUNTED: Final = frozenset({"token", "tokens", "key", "keys"})
_COUNTS: Final = frozenset({
    "max", "min", "maximum", "minimum", "limit", "limits", "budget", "count", "counts", "num",
    "number", "size", "length", "len", "per", "usage", "window", "total",
})  # fmt: skip
"""Next to these words, tokens are those of a language model and keys those of a table."""

_PASS_ON: Final = frozenset({"through", "thru", "env", "on", "fds"})
_DIRECTORIES: Final = frozenset({"PWD", "OLDPWD"})

# The user's name and directories: they occur in most paths and log lines, and are no secrets.
_PUBLIC = frozenset({
    "HOME", "USER", "LOGNAME", "PWD", "PATH", "SHELL", "LANG", "TMPDIR", "HOSTNAME",
    "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME",
    *workspace.VARIABLES,
})  # fmt: skip

SHAPES: Final = {
    # docs.github.com, "About authentication to GitHub": token formats
    "GitHub": r"gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_[A-Za-z0-9_]{22,255}",
    # docs.gitlab.com, "Token overview": token prefixes
    "GitLab": r"gl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.=-]{20,300}",
    # github.com/gitleaks/gitleaks: openai-api-key; platform.openai.com: sk-, sk-proj-, sk-svcacct-
    # docs.anthropic.com: sk-ant-; openrouter.ai: sk-or-
    "OpenAI, Anthropic": r"sk-(?=[a-z_-]{0,60}[A-Z0-9])[A-Za-z0-9_-]{20,300}",
    # docs.stripe.com/keys: secret and restricted keys; whsec_ of webhooks
    "Stripe": r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,255}|whsec_[A-Za-z0-9+/=]{20,255}",
    # docs.slack.dev/authentication/tokens
    "Slack": r"x(?:ox[abceoprs]|app)-[A-Za-z0-9-]{10,255}",
    # docs.aws.amazon.com/IAM: unique identifiers, AKIA and ASIA
    "AWS": r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}",
    # cloud.google.com/docs/authentication/api-keys; OAuth tokens and client secrets
    "Google": r"AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,2048}|GOCSPX-[A-Za-z0-9_-]{28}",
    # docs.npmjs.com, "About access tokens"; github.blog: new token format
    "npm": r"npm_[A-Za-z0-9]{36}",
    # docs.pypi.org/api: tokens begin with pypi-
    "PyPI": r"pypi-(?=[a-z0-9_-]{0,60}[A-Z])[A-Za-z0-9_-]{16,2048}",
    # huggingface.co/docs/hub/security-tokens
    "Hugging Face": r"(?:hf|api_org)_[A-Za-z]{30,64}",
    # developers.notion.com/changelog: ntn_ since 2024, secret_ before
    "Notion": r"ntn_[A-Za-z0-9]{40,60}|secret_[A-Za-z0-9]{40,60}",
    # developers.figma.com: personal access tokens
    "Figma": r"fig[dour]_[A-Za-z0-9_-]{20,255}",
    # linear.app/developers: personal API keys and OAuth tokens
    "Linear": r"lin_(?:api|oauth)_[A-Za-z0-9]{32,255}",
    # docs.digitalocean.com/reference/api: personal, OAuth and refresh tokens
    "DigitalOcean": r"do[opr]_v1_[a-f0-9]{64}",
    # sendgrid.com/docs: API keys
    "SendGrid": r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}",
    # docs.x.ai, console.groq.com, docs.perplexity.ai, replicate.com/docs, docs.tavily.com
    "xAI and others": r"xai-[A-Za-z0-9]{40,128}|gsk_[A-Za-z0-9]{40,64}|pplx-[A-Za-z0-9]{40,64}"
    r"|r8_[A-Za-z0-9]{37}|tvly-[A-Za-z0-9-]{20,64}",
    # id.atlassian.com: API tokens
    "Atlassian": r"AT(?:ATT|CTT|BB)[A-Za-z0-9_=-]{20,255}",
    # developer.hashicorp.com/vault: service, batch and recovery tokens
    "Vault": r"hv[sbr]\.[A-Za-z0-9_-]{20,300}",
    # docs.docker.com, grafana.com, docs.databricks.com, shopify.dev, supabase.com, sentry.io,
    # airtable.com/developers
    "Docker and others": r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,64}|gl(?:sa|c)_[A-Za-z0-9_=+/]{20,400}"
    r"|dapi[a-f0-9]{32}(?:-\d)?|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|sbp_[a-f0-9]{40}"
    r"|sntry[su]_[A-Za-z0-9_=+/-]{20,400}|pat[A-Za-z0-9]{14}\.[a-f0-9]{64}",
    # core.telegram.org/bots/api, "Authorizing your bot"
    "Telegram": r"\d{8,10}:A[A-Za-z0-9_-]{34}",
    # RFC 7519: three parts in base64url, of which the first two are JSON objects
    "JWT": r"eyJ[A-Za-z0-9_-]{10,8192}\.eyJ[A-Za-z0-9_-]{10,8192}\.[A-Za-z0-9_-]{0,2048}",
    # docs.slack.dev and docs.discord.com: incoming webhooks, whose URL is what allows it
    "webhooks": r"(?<=hooks\.slack\.com/(?:services|triggers)/)[A-Za-z0-9+/]{20,100}"
    r"|(?<=hooks\.slack\.com/workflows/)[A-Za-z0-9+/]{20,100}"
    r"|(?<=discord\.com/api/webhooks/)\d{1,32}/[A-Za-z0-9_-]{30,128}",
}
"""Tokens recognised by their form, by issuer; the source of each is above it.

Compared with config/gitleaks.toml of github.com/gitleaks/gitleaks, whose lengths are exact: these
accept more lengths, so that a token that is cut or that gets longer is still recognised.
"""

_SHAPES: Final = re.compile(
    rf"(?<![A-Za-z0-9_])(?:{'|'.join(SHAPES.values())})(?![A-Za-z0-9_])"
    r"|(?<=Bearer )[A-Za-z0-9._~+/-]{8,8192}=*"
    r"|(?<=Basic )(?=[^\s]{0,60}[0-9=])[A-Za-z0-9+/]{8,8192}=*"
)
_PEM: Final = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----[^-]*"
    r"(?:-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----)?"
)
_SCHEME: Final = re.compile(r"(?:Bearer|Basic|Token)\s+", re.IGNORECASE)

_ASSIGNED: Final = re.compile(r"-{0,2}([A-Za-z_][\w.-]*)=", re.ASCII)  # --key=x, API_KEY=x
_HEADER: Final = re.compile(r"([\w-]+):(?!//)[ \t]*(?=\S)", re.ASCII)
_VALUE: Final = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s&;'"]+)"""
_WITHIN: Final = (  # a name, and the value that is secret if the name is a secret's
    re.compile(r"[?&]([\w.-]+)=([^&#\s\"']+)"),  # a query
    re.compile(rf"(?:^|(?<=[\s;,&?\"'({{]))-{{0,2}}([A-Za-z_][\w.-]*)[ ]?=[ ]?{_VALUE}"),  # key=x
    re.compile(rf"(?<!\S)--?([A-Za-z][\w.-]*)[ ]{{1,4}}(?!-){_VALUE}"),  # --key x
    re.compile(r"(?<![\w-])([\w-]+):(?!//)[ \t]*(?=[^\s\"'])([^\"'\r\n]+)"),  # a header
    re.compile(r'\\{0,3}"([^"\\]+)\\{0,3}"\s{0,4}:\s{0,4}\\{0,3}"(?=((?:[^"\\]|\\[^"])+)\\{0,3}")'),
    re.compile(r"'([^'\\]+)'\s{0,4}:\s{0,4}'((?:[^'\\]|\\.)+)'"),
)
_JSON: Final = re.compile(r'"([^"\\]+)"\s{0,4}:\s{0,4}"((?:[^"\\]|\\.)+)"')
_SEGMENT: Final = re.compile(r"\s*([A-Za-z][\w .-]{0,60}?)\s?=(.*)", re.DOTALL)
_PASSWORD: Final = (
    re.compile(r"://[^/\s:@?#]*:([^/\s?#]+)@"),
    re.compile(r"://[^/\s:@?#]*:(?!\d{1,5}/)([^\s@]{1,200})@"),
)
_RANDOM_PART: Final = re.compile(
    r"(?<=/)(?=[^/?#]*[0-9])(?=[^/?#]*[A-Za-z])"
    r"(?:[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|[A-Za-z0-9_.~=-]{24,})(?=[/?#]|$)"
)
"""A part of a path that nobody would choose as a name. Addresses of hosted MCP servers have their
key there (Zapier ``/api/mcp/s/KEY/mcp``, Make ``/mcp/api/v1/u/KEY/sse``)."""

_USER_OF_WEB: Final = re.compile(r"(?:https?|wss?)://([^/\s:@?#]+)(?::(?:x-oauth-basic)?)?@")


class Shown(msgspec.Struct, frozen=True):
    """A text as it may be shown, and the secret values that it contained."""

    text: str
    secrets: frozenset[str] = frozenset()


def is_secret_name(name: str) -> bool:
    """Return whether a variable, option or header of this name has a secret value.

    Names are compared word by word: ``--pat`` is secret, ``--path`` and ``--max-tokens`` are not.
    """
    if name in _DIRECTORIES:
        return False
    words = [word.lower() for word in _WORD.findall(name)]
    counts = not _COUNTS.isdisjoint(words)
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        if (word, following) in _PAIRS or word in ("connectionstring", "connstr"):
            return True
        if word in _COUNTED and counts:
            continue
        if word == "pass" and following in _PASS_ON:
            continue
        if word in _WORDS or (word not in _OTHERS and _ENDS.search(word)):
            return True
    return False


def show(pieces: tuple[Piece, ...], *, secret: bool = False, is_address: bool = False) -> Shown:
    """Return a resolved text with variables replaced by their names and secrets masked.

    ``secret`` makes the whole text secret, because of the name that it belongs to. In the address
    of a remote server, long random parts of the path are secret too.
    """
    value = joined(pieces)
    inner = sorted(_spans(value))
    if is_address:
        path, _, _ = value.partition("?")
        inner = sorted({*inner, *(found.span() for found in _RANDOM_PART.finditer(path))})
    spans = [(0, len(value))] if secret else _merged(inner)
    text, at = "", 0
    found: set[str] = set()
    for start, end in spans:
        text += _visible(_cut(pieces, at, start))
        text += _reference(_cut(pieces, start, end))
        at = end
    text += _visible(_cut(pieces, at, len(value)))
    for start, end in {*spans, *inner}:
        found.update(_parts(value[start:end]))
    for piece in pieces:
        if not _is_public(piece):
            found.update(_parts(piece.text))
    found = {part for part in found if "\0" not in part}  # no text of a server has a placeholder
    return Shown(text, frozenset(part for part in found if len(part) >= MIN_SECRET))


def secret_parts(value: str) -> frozenset[str]:
    """Return the texts to mask for a value that is secret as a whole."""
    return frozenset(part for part in _parts(value) if len(part) >= MIN_SECRET)


def show_arguments(arguments: list[tuple[Piece, ...]]) -> list[Shown]:
    """Show arguments; a value after an option with a secret name (``--api-key``) is secret."""
    shown = []
    before = ""
    for pieces in arguments:
        value = joined(pieces)
        follows = before.startswith("-") and "=" not in before and is_secret_name(before)
        shown.append(show(pieces, secret=follows and not value.startswith("-")))
        before = value
    return shown


def _is_public(piece: Piece) -> bool:
    return piece.variable is None or piece.variable in _PUBLIC


def _visible(pieces: list[Piece]) -> str:
    return "".join(piece.text if _is_known(piece) else f"${{{piece.variable}}}" for piece in pieces)


def _is_known(piece: Piece) -> bool:
    """Return whether the text of a piece is final and may be shown."""
    return _is_public(piece) and piece.variable not in workspace.VARIABLES


def _reference(pieces: list[Piece]) -> str:
    """Show a secret part: by its variables if it consists of them, otherwise as a mask."""
    if not pieces:
        return ""
    return MASK if any(_is_public(piece) for piece in pieces) else _visible(pieces)


def _spans(value: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each secret in a text."""
    yield from _whole(value)
    if ";" in value:
        yield from _segments(value)
    for pattern in (*_WITHIN, _JSON):
        for found in pattern.finditer(value):
            if is_secret_name(found[1]):
                yield _unquoted(value, *found.span(2))
    passwords = list(_PASSWORD[0].finditer(value)) or list(_PASSWORD[1].finditer(value))
    for found in passwords:
        yield found.span(1)
    for found in _USER_OF_WEB.finditer(value):
        yield found.span(1)
    for pattern in (_SHAPES, _PEM):
        for found in pattern.finditer(value):
            yield found.span()


def _whole(value: str) -> Iterator[tuple[int, int]]:
    """Yield the value if the whole text is an assignment: ``--header=Authorization: Bearer x``."""
    at = 0
    for pattern in (_ASSIGNED, _ASSIGNED, _HEADER):
        found = pattern.match(value, at)
        if found is not None:
            at = found.end()
            if is_secret_name(found[1]) and at < len(value):
                yield at, len(value)
                return


def _segments(value: str) -> Iterator[tuple[int, int]]:
    """Yield the secret values in ``Server=x;Shared Access Key=y``."""
    start = 0
    for segment in value.split(";"):
        found = _SEGMENT.fullmatch(segment)
        if found is not None and is_secret_name(found[1]) and found[2]:
            yield start + found.start(2), start + found.end(2)
        start += len(segment) + 1


def _unquoted(value: str, start: int, end: int) -> tuple[int, int]:
    if end - start > 2 and value[start] == value[end - 1] and value[start] in "'\"":
        return start + 1, end - 1
    return start, end


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _parts(value: str) -> Iterator[str]:
    """Yield the parts of a secret that can occur alone.

    These are the value, its lines, the part after ``Bearer``, and its form decoded from JSON, a URL
    or a list.
    """
    yield value
    for text in dict.fromkeys((value, value.replace("\\n", "\n"))):
        if "\n" in text:
            yield from (line.strip() for line in text.splitlines())
    if scheme := _SCHEME.match(value):
        yield value[scheme.end() :]
    if "%" in value:
        yield unquote(value)
    if "," in value:
        yield value.partition(",")[0]
    if "\\" in value:
        try:
            yield str(json.loads(f'"{value}"'))
        except ValueError:
            return


def _cut(pieces: tuple[Piece, ...], start: int, end: int) -> list[Piece]:
    """Return the pieces of ``joined(pieces)[start:end]``."""
    found = []
    at = 0
    for piece in pieces:
        text = piece.text[max(start - at, 0) : max(end - at, 0)]
        if text:
            found.append(Piece(text, piece.variable))
        at += len(piece.text)
    return found
