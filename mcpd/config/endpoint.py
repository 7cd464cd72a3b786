"""Resolves how a server is reached by URL, and checks what it says and the files that it names."""

from __future__ import annotations

import base64
from typing import Final

import msgspec

from mcpd.config import urls
from mcpd.config.files import trust
from mcpd.config.reading.findings import Findings
from mcpd.config.reading.remote_table import Spelled
from mcpd.config.reading.values import header_fault
from mcpd.config.remote import OF_KIND, AuthConfig, RemoteConfig
from mcpd.config.texts import secretnames, workspace
from mcpd.config.texts.interpolate import Piece, joined
from mcpd.config.texts.resolving import Resolving, Surroundings
from mcpd.config.texts.secrets import is_secret_name, secret_parts, show
from mcpd.errors import ConfigError
from mcpd.formats.document import KeyPath
from mcpd.redact import Redactor

_TEXTS: Final = (
    "token", "key", "username", "password", "client_id", "client_secret", "client_metadata_url",
)  # fmt: skip
"""The texts of ``auth`` that may have variables, except the path of its key."""

_SECRET: Final = frozenset({"token", "key", "password", "client_secret"})
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_KEY: Final = b"PRIVATE KEY-----"
_ENCRYPTED: Final = (b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED")


class Endpoint(Resolving):
    """Resolves the keys of a remote server."""

    def __init__(
        self,
        config: RemoteConfig,
        spelled: Spelled,
        path: KeyPath,
        name: str,
        findings: Findings,
        around: Surroundings,
        *,
        is_enabled: bool,
    ) -> None:
        """``spelled`` says where a text is written that is not where ``config`` has it."""
        super().__init__(path, name, findings, around, is_enabled=is_enabled)
        self._config = config
        self._spelled = spelled
        self._secrets: set[str] = set()

    def run(self) -> tuple[RemoteConfig | None, RemoteConfig, frozenset[str]]:
        """Return it resolved, ``None`` if something is wrong; as it may be shown; its secrets."""
        config = self._config
        url, shown_url = self._text(("url",), config.url)
        proxy, shown_proxy = self._text(("proxy",), config.proxy)
        headers = {}
        shown_headers = {}
        for name, value in config.headers.items():
            key: KeyPath = ("headers", name)
            headers[name], shown_headers[name] = self._text(
                key, value, is_secret=is_secret_name(name), takes_secrets=True
            )
            self._check_header(key, headers[name])
        auth, shown_auth = self._auth()
        if self.is_whole:
            self._check_urls(url, proxy, auth)
        files = self._files()
        redactor = Redactor(self._secrets)
        shown = msgspec.structs.replace(
            config,
            url=redactor.mask(shown_url),
            proxy=redactor.mask(shown_proxy),
            headers={name: redactor.mask(value) for name, value in shown_headers.items()},
            auth=shown_auth,
        )
        secrets = frozenset(self._secrets)
        if not self.is_whole:
            return None, shown, secrets
        key_file = files.pop("auth.key_file", "")
        resolved = msgspec.structs.replace(
            config,
            url=url,
            proxy=proxy,
            headers=headers,
            auth=msgspec.structs.replace(auth, key_file=key_file),
            **files,
        )
        return resolved, shown, secrets

    def _auth(self) -> tuple[AuthConfig, AuthConfig]:
        config = self._config.auth
        values, shown = {}, {}
        for field in _TEXTS:
            if field in OF_KIND[config.kind] and (template := getattr(config, field)):
                key: KeyPath = ("auth", field)
                values[field], shown[field] = self._text(
                    key,
                    template,
                    is_secret=field in _SECRET,
                    takes_secrets=field != "client_metadata_url",  # everybody can read it
                )
                if not values[field]:
                    self._fault(key, "resolves to nothing")
                if field != "password":
                    self._check_header(key, values[field])
        params, shown_params = self._authorize_params()
        auth = msgspec.structs.replace(config, **values, authorize_params=params)
        if auth.kind == "basic":
            if ":" in secretnames.without(auth.username):
                self._fault(("auth", "username"), 'expected a name without ":" (RFC 7617)')
            pair = f"{auth.username}:{auth.password}".encode("utf-8", "surrogateescape")
            if b"\0" not in pair:
                self._secrets |= secret_parts(base64.b64encode(pair).decode())
        return auth, msgspec.structs.replace(config, **shown, authorize_params=shown_params)

    def _authorize_params(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return these parameters resolved, and as they may be shown."""
        table: KeyPath = ("auth", "authorize_params")
        values, shown = {}, {}
        for name, template in self._config.auth.authorize_params.items():
            key: KeyPath = (*self._spelled.get(table, table), name)
            values[name], shown[name] = self._text(key, template, is_secret=is_secret_name(name))
            if not values[name]:
                self._fault(key, "resolves to nothing")
            self._check_header(key, values[name])
        return values, shown

    def _text(
        self, key: KeyPath, template: str, *, is_secret: bool = False, takes_secrets: bool = False
    ) -> tuple[str, str]:
        """Return a text resolved, and as it may be shown; keep the secrets in it."""
        place = self._spelled.get(key, key)
        pieces = self.resolve(place, template, takes_secrets=takes_secrets)
        if any(workspace.is_named_in(piece.text) for piece in pieces):
            self._fault(key, "a server that is reached by URL has no workspace: write it out")
            pieces = (Piece(template),)
        shown = show(pieces, secret=is_secret, is_address=key == ("url",))
        self._secrets |= shown.secrets
        return joined(pieces), shown.text

    def _check_header(self, key: KeyPath, value: str) -> None:
        if wrong := header_fault(secretnames.without(value)):
            self._fault(key, wrong)

    def _check_urls(self, url: str, proxy: str, auth: AuthConfig) -> None:
        if wrong := urls.fault_of(url, allow_insecure=self._config.allow_insecure):
            self._fault(("url",), wrong)
        if proxy not in ("env", "none") and (wrong := urls.proxy_fault_of(proxy)):
            self._fault(("proxy",), wrong)
        published = auth.client_metadata_url
        if published and (wrong := urls.document_fault_of(published)):
            self._fault(("auth", "client_metadata_url"), wrong)

    def _files(self) -> dict[str, str]:
        """Return the absolute paths of the files, by their fields; a faulty one is recorded."""
        config = self._config
        named = {
            "ca_file": config.ca_file,
            "client_cert": config.client_cert,
            "client_key": config.client_key,
            "auth.key_file": config.auth.key_file,
        }
        has_both = not config.client_cert or bool(config.client_key)
        found = {}
        for field, template in named.items():
            key: KeyPath = tuple(field.split("."))
            path = self.file(self._spelled.get(key, key), template)
            if path is None:
                continue
            found[field] = path
            if not self._is_enabled:  # the file may exist on another machine only
                continue
            is_key = field.endswith("key") or field.endswith("key_file")
            holds_key = is_key or (field == "client_cert" and not has_both)
            self._check_file(key, path, wanted=not is_key, holds_key=holds_key)
        if config.client_key and not config.client_cert:
            self._fault(("client_key",), "client_cert is missing, which this is the key of")
        return found

    def _check_file(self, key: KeyPath, path: str, *, wanted: bool, holds_key: bool) -> None:
        """Record what is wrong with a file in PEM. One with a key must be private.

        ``wanted``: it must have a certificate.
        """
        try:
            content = trust.read(path, is_private=holds_key)
            if content is None:
                raise ConfigError("there is no such file")
            if wanted and _CERTIFICATE not in content:
                raise ConfigError("expected a certificate in PEM (-----BEGIN CERTIFICATE-----)")
            if holds_key and _KEY not in content:
                raise ConfigError("expected a private key in PEM (-----BEGIN PRIVATE KEY-----)")
            if holds_key and any(each in content for each in _ENCRYPTED):
                raise ConfigError("expected a private key without a passphrase: nobody is asked")
        except ConfigError as error:
            self._fault(key, f"{path}: {error.message}")

    def _fault(self, key: KeyPath, message: str) -> None:
        self.fault(self._spelled.get(key, key), message)
