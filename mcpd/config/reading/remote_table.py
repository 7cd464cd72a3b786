"""Reads how a server is reached by URL; knows every spelling of those keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcpd.config.reading.findings import Table
from mcpd.config.reading.values import (
    Expected,
    Reader,
    authorize_params,
    count,
    filled,
    flag,
    header_name,
    headers,
    kind,
    one_of,
    port,
    positive_seconds,
    scopes,
    seconds,
    text,
    variable,
    variables,
)
from mcpd.config.remote import OF_KIND, AuthConfig, RemoteConfig
from mcpd.formats.document import KeyPath

URLS: Final = ("url", "serverUrl", "httpUrl", "uri")
"""Names of the address."""

TRANSPORTS: Final[Mapping[str, str]] = {
    "auto": "auto",
    "remote": "auto",
    "http": "http",
    "streamable-http": "http",
    "streamablehttp": "http",
    "sse": "sse",
}
"""What carries the messages, by its name in lower case, with ``-`` for ``_``."""

ABSENT: Final[Sequence[object]] = (None, "", [], {})
"""Values that some clients write for a missing one."""

KEYS: Final[Mapping[str, Reader]] = {
    "connect_timeout": positive_seconds,
    "ping_interval": seconds,
    "retry_attempts": count,
    "proxy": filled,
    "ca_file": text,
    "client_cert": text,
    "client_key": text,
    "allow_insecure": flag,
}
OAUTH: Final[Mapping[str, Reader]] = {
    "client_id": filled,
    "client_secret": filled,
    "client_metadata_url": filled,
    "scopes": scopes,
    "redirect_port": port,
    "callback_host": one_of("127.0.0.1", "localhost"),
    "authorize_params": authorize_params,
    "grant": one_of("authorization_code", "client_credentials"),
    "key_file": filled,
    "key_algorithm": one_of(
        *("ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "EdDSA"
    ),
}
AUTH: Final[Mapping[str, Reader]] = {
    "token": filled,
    "key": filled,
    "header": header_name,
    "username": filled,
    "password": filled,
    **OAUTH,
}
REQUIRED: Final[Mapping[str, Sequence[str]]] = {
    "bearer": ("token",),
    "api-key": ("key",),
    "basic": ("username", "password"),
}
"""What each kind of ``auth`` cannot do without."""

_KINDS: Final = ("auto", "none", "bearer", "api-key", "basic", "oauth")
_ALIASES: Final[Mapping[str, Sequence[str]]] = {
    "retry_attempts": ("retryAttempts",),
    "client_id": ("clientId", "CLIENT_ID"),
    "client_secret": ("clientSecret", "CLIENT_SECRET"),
    "client_metadata_url": ("clientMetadataUrl",),
    "scopes": ("scope",),
    "redirect_port": ("callbackPort", "callback_port"),
    "callback_host": ("callbackHost", "redirect_host"),
    "authorize_params": ("authorizeParams",),
    "grant": ("grantType", "grant_type"),
}
"""Other names of a key."""

_AUTHS: Final = ("auth", "authentication")
_TOKEN_VARIABLES: Final = ("bearer_token_env_var", "bearerTokenEnvVar", "bearerTokenEnv")
_HEADERS: Final = ("headers", "http_headers")
_HEADERS_WITHIN: Final = ("requestInit", "requestOptions")
_HEADER_VARIABLES: Final = "env_http_headers"
_BEARER: Final = re.compile(r"Bearer +", re.IGNORECASE)

ALL: Final = (
    *KEYS,
    *_ALIASES["retry_attempts"],
    *_AUTHS,
    *_TOKEN_VARIABLES,
    *_HEADERS,
    *_HEADERS_WITHIN,
    _HEADER_VARIABLES,
    "oauth",
    "scopes",
)
"""All keys that only a remote server has, except its address."""

_OURS: Final = frozenset({
    "accept", "connection", "content-length", "content-type", "last-event-id", "mcp-method",
    "mcp-name", "mcp-protocol-version", "mcp-session-id", "transfer-encoding",
})  # fmt: skip
"""Headers that belong to the transport."""

Spelled = dict[KeyPath, KeyPath]
"""Where a text is written in its entry, by its place in ``RemoteConfig``."""


def remote(table: Table, transport: str) -> tuple[RemoteConfig | None, Spelled]:
    """Read the keys of a server with an address, and record their problems.

    Returns the values, ``None`` if any is invalid, and where they are written.
    """
    return _Reading(table).run(transport)


def given(content: Mapping[str, object], keys: Sequence[str]) -> list[str]:
    """Return those keys that a table has, without values that mean a missing one."""
    return [key for key in keys if key in content and content[key] not in ABSENT]


class _Reading:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._spelled: Spelled = {}
        self._headers: dict[str, str] = {}

    def run(self, transport: str) -> tuple[RemoteConfig | None, Spelled]:
        table = self._table
        found = {"url": self._first(table, (), "url", URLS, filled)}
        for key, reader in KEYS.items():
            found[key] = self._first(table, (), key, (key, *_ALIASES.get(key, ())), reader)
        self._read_headers()
        auth = self._auth()
        if found["url"] is None or auth is None:
            return None, self._spelled
        values: dict[str, Any] = {key: value for key, value in found.items() if value is not None}
        values |= {"transport": transport, "headers": self._headers, "auth": auth}
        return RemoteConfig(**values), self._spelled

    def _first(
        self, table: Table, place: KeyPath, key: str, names: Sequence[str], reader: Reader
    ) -> object | None:
        """Read the first of the names of a key; ``place`` is that of its table."""
        found = given(table.content, names)
        if not found:
            return None
        for other in found[1:]:
            table.warning(other, f"means {key}, which is given too; {found[0]} counts")
        where = table.path[len(self._table.path) :]
        self._spelled[*place, key] = (*where, found[0])
        return table.read(found[0], reader)

    # -- headers -----------------------------------------------------------------------------------

    def _read_headers(self) -> None:
        table = self._table
        for key in given(table.content, _HEADERS):
            self._add_headers(table, key, headers)
        for outer in given(table.content, _HEADERS_WITHIN):
            inner = table.within(outer)
            inner.warn_of_unknown(("headers",))
            if given(inner.content, ("headers",)):
                self._add_headers(inner, "headers", headers)
        if given(table.content, (_HEADER_VARIABLES,)):
            self._add_headers(table, _HEADER_VARIABLES, variables)

    def _add_headers(self, table: Table, key: str, reader: Reader) -> None:
        found = table.read(key, reader)
        if not isinstance(found, dict):
            return
        where = table.within(key)
        known = {name.lower() for name in self._headers}
        for name, value in found.items():
            if name.lower() in _OURS:
                where.warning(name, "changes nothing: this header is set for each request")
            elif name.lower() in known:
                where.warning(name, "this header is given twice; the first one counts")
            else:
                known.add(name.lower())
                self._headers[name] = value
                place = where.path[len(self._table.path) :]
                self._spelled["headers", name] = (*place, name)

    # -- auth --------------------------------------------------------------------------------------

    def _auth(self) -> AuthConfig | None:
        """Return how requests are authorised, or ``None`` if that is invalid (then recorded)."""
        found = self._written_auth()
        if found is None:
            return None
        scopes_ = self._first(self._table, ("auth",), "scopes", ("scopes",), scopes)
        if scopes_ is not None and found.get("kind", "auto") in ("auto", "oauth"):
            found.setdefault("scopes", scopes_)
        auth = AuthConfig(**found)
        return self._with_header(auth)

    def _written_auth(self) -> dict[str, Any] | None:
        table = self._table
        names = given(table.content, _AUTHS)
        for other in names[1:]:
            table.warning(other, f"means auth, which is given too; {names[0]} counts")
        tokens = given(table.content, _TOKEN_VARIABLES)
        others = [*tokens, *given(table.content, ("oauth",))]
        if not names:
            return self._of_other_clients(is_token=bool(tokens))
        key = names[0]
        value = table.content[key]
        if value == "oauth" and others == ["oauth"]:
            return self._of_other_clients(is_token=False)
        for other in others:
            table.warning(other, f"changes nothing, because {key} is given too")
        if isinstance(value, dict):
            return self._auth_table(table.within(key))
        self._spelled["auth", "token"] = (key,)
        return _known(table.read(key, _auth_text))

    def _of_other_clients(self, *, is_token: bool) -> dict[str, Any] | None:
        """Read the keys that other clients have in place of ``auth``: a token, else ``oauth``."""
        table = self._table
        if is_token:
            token = self._first(table, ("auth",), "token", _TOKEN_VARIABLES, variable)
            return None if token is None else {"kind": "bearer", "token": token}
        if "oauth" not in table.content or table.content["oauth"] in (None, ""):
            return {}
        written = table.content["oauth"]
        if isinstance(written, bool):
            return {"kind": "oauth" if written else "none"}
        inner = table.within("oauth")
        if inner.content.get("enabled") is False:
            return {"kind": "none"}
        return self._of_kind(inner, "oauth", ("enabled",))

    def _auth_table(self, table: Table) -> dict[str, Any] | None:
        named = table.content.get("type")
        if named is None and given(table.content, _names("client_id")):
            return self._of_kind(table, "oauth", ())
        if named is None:
            table.error(None, f"type is missing: expected one of {', '.join(_KINDS)}")
            return None
        which = table.read("type", _kind)
        return None if which is None else self._of_kind(table, str(which), ("type",))

    def _of_kind(self, table: Table, which: str, more: Sequence[str]) -> dict[str, Any] | None:
        """Read what a kind of ``auth`` has, and record what it lacks."""
        keys = OF_KIND[which]
        names = {key: _names(key) for key in keys}
        found = {
            key: self._first(table, ("auth",), key, names[key], AUTH[key])
            for key in keys
            if given(table.content, names[key])
        }
        table.warn_of_unknown((*more, *(name for each in names.values() for name in each)))
        required = list(REQUIRED.get(which, ()))
        if found.get("grant") == "client_credentials":
            required.append("client_id")
            if not {"client_secret", "key_file"} & found.keys():
                required.append("client_secret")
        lacking = [key for key in required if key not in found]
        for key in lacking:
            table.error(None, f"{key} is missing, which {which} needs")
        if lacking or None in found.values():
            return None
        return {"kind": which, **found}

    def _with_header(self, auth: AuthConfig) -> AuthConfig | None:
        """Return ``auth`` with what a header ``Authorization`` says in its place."""
        sent = {"bearer": "authorization", "basic": "authorization", "oauth": "authorization"}
        sent["api-key"] = auth.header.lower()
        for name, value in list(self._headers.items()):
            key = self._spelled["headers", name]
            if name.lower() == sent.get(auth.kind):
                self._table.error_within(key, "auth sets this header too: leave one of them out")
                return None
            if name.lower() != "authorization" or auth.kind != "auto":
                continue
            begins = _BEARER.match(value)
            if begins is None or begins.end() == len(value):
                return AuthConfig(kind="none")
            del self._headers[name]
            self._spelled["auth", "token"] = key
            return AuthConfig(kind="bearer", token=value[begins.end() :])
        return auth


def _names(key: str) -> tuple[str, ...]:
    return (key, *_ALIASES.get(key, ()))


def _known(found: object) -> dict[str, Any] | None:
    return found if isinstance(found, dict) else None


def _kind(value: object) -> str:
    """Read the name of a kind of ``auth``."""
    word = text(value).lower().replace("_", "-")
    return str(one_of(*_KINDS)("api-key" if word == "apikey" else word))


def _auth_text(value: object) -> dict[str, str]:
    """Read an ``auth`` that is no table."""
    if isinstance(value, str):
        if value in ("auto", "none", "oauth"):
            return {"kind": value}
        begins = _BEARER.match(value)
        if begins is not None and begins.end() < len(value):
            return {"kind": "bearer", "token": text(value)[begins.end() :]}
    raise Expected(
        'auto, none, oauth, text that begins with "Bearer ", or a table such as '
        f'{{ type = "bearer", token = "${{TOKEN}}" }}, not {_other(value)}'
    )


def _other(value: object) -> str:
    return "other text" if isinstance(value, str) else kind(value)
