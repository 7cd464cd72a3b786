"""A fake OAuth authorization server, and the server that it protects, in threads of this process.

Every attribute is a switch for one way to be wrong. What was asked for is in ``authorizations``,
``grants``, ``registrations`` and ``revoked``; ``reused`` counts refresh tokens that came twice.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import itertools
import json
import threading
import time
import urllib.parse
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Form = dict[str, Any]


class FakeAuth:
    """One origin with an authorization server and an MCP endpoint."""

    def __init__(self) -> None:
        self.clients: dict[str, str | None] = {}
        self.lifetime: float | None = 3600
        self.rotates = True
        self.gives_refresh = True
        self.metadata: dict[str, Any] = {}
        """Members of the metadata that replace or (``None``) remove those there are."""
        self.prm: dict[str, Any] = {}
        self.has_prm = True
        self.prm_path = "/elsewhere/metadata"
        self.metadata_path = "/.well-known/oauth-authorization-server"
        self.back: dict[str, str | None] = {}
        """Members of the answer to the browser that replace or remove those there are."""
        self.token_extra: dict[str, Any] = {}
        self.token_delay = 0.0
        self.faults: list[Callable[[], tuple[int, bytes] | None]] = []
        """Called one by one for requests to the token endpoint, in the place of an answer.

        ``None`` goes on.
        """
        self.moved_to = ""
        """Where those answers say that the endpoint is."""
        self.after: Callable[[str], None] | None = None
        """Called with the grant type when a token was made, before it is sent."""
        self.authorizations: list[Form] = []
        self.grants: list[Form] = []
        self.registrations: list[Form] = []
        self.revoked: list[str] = []
        self.paths: list[str] = []
        self.reused = 0
        self.access: dict[str, set[str]] = {}
        self.tool_scopes: dict[str, set[str]] = {}
        self._refreshes: dict[str, dict[str, Any]] = {}
        self._codes: dict[str, Form] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                fake._serve(self)

            do_POST = do_GET

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.issuer = self.origin
        self.url = f"{self.origin}/mcp"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def challenge(self) -> str:
        """The ``WWW-Authenticate`` of the endpoint."""
        if not self.has_prm:
            return "Bearer"
        return f'Bearer resource_metadata="{self.origin}{self.prm_path}"'

    def used(self, grant: str) -> list[Form]:
        """Return the token requests of one kind."""
        return [form for form in self.grants if form.get("grant_type") == grant]

    def expire(self) -> None:
        """Refuse every access token from now on."""
        self.access.clear()

    def forget(self) -> None:
        """Refuse every token from now on."""
        with self._lock:
            self.access.clear()
            self._refreshes.clear()

    def give(self, scope: str) -> dict[str, Any]:
        """Return what the token endpoint answers after a sign-in of the client registered-0."""
        with self._lock:
            self.clients.setdefault("registered-0", None)
            made: dict[str, Any] = self._made(scope, str(next(self._numbers)))
            return made

    def _serve(self, x: BaseHTTPRequestHandler) -> None:
        target = urllib.parse.urlsplit(x.path)
        body = x.rfile.read(int(x.headers.get("Content-Length") or 0))
        self.paths.append(target.path)
        found = {
            self.prm_path if self.has_prm else "": self._prm,
            self.metadata_path: self._document,
            "/authorize": self._authorize,
            "/register": self._register,
            "/token": self._token,
            "/revoke": self._revoke,
            "/mcp": self._mcp,
        }.get(target.path)
        if found is None:
            self._reply(x, 404, b"<html>no such page</html>", {"Content-Type": "text/html"})
        else:
            found(x, target.query, body)

    def _reply(
        self,
        x: BaseHTTPRequestHandler,
        status: int,
        body: Any,
        headers: dict[str, str] | None = None,
    ) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        x.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            x.send_header(name, value)
        x.send_header("Content-Length", str(len(data)))
        x.end_headers()
        x.wfile.write(data)

    def _prm(self, x: BaseHTTPRequestHandler, _query: str, _body: bytes) -> None:
        document = {
            "resource": self.url,
            "authorization_servers": [self.issuer],
            "scopes_supported": ["read"],
        }
        self._reply(x, 200, document | self.prm)

    def _document(self, x: BaseHTTPRequestHandler, _query: str, _body: bytes) -> None:
        document: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "revocation_endpoint": f"{self.origin}/revoke",
            "response_types_supported": ["code"],
            "token_endpoint_auth_methods_supported": [
                "none", "client_secret_basic", "client_secret_post", "private_key_jwt",
            ],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }  # fmt: skip
        document |= self.metadata
        self._reply(x, 200, {k: v for k, v in document.items() if v is not None})

    def _register(self, x: BaseHTTPRequestHandler, _query: str, body: bytes) -> None:
        wanted = json.loads(body)
        self.registrations.append(wanted)
        ident = f"registered-{next(self._numbers)}"
        method = wanted.get("token_endpoint_auth_method", "client_secret_basic")
        secret = None if method == "none" else f"SENTINELCLIENT{ident}"
        self.clients[ident] = secret
        more = {} if secret is None else {"client_secret": secret, "client_secret_expires_at": 0}
        self._reply(x, 201, {**wanted, "client_id": ident, **more})

    def _authorize(self, x: BaseHTTPRequestHandler, query: str, _body: bytes) -> None:
        asked = dict(urllib.parse.parse_qsl(query))
        self.authorizations.append(asked)
        code = f"SENTINELCODE{next(self._numbers)}"
        self._codes[code] = asked
        back = {"code": code, "state": asked["state"], "iss": self.issuer} | self.back
        told = urllib.parse.urlencode({k: v for k, v in back.items() if v is not None})
        self._reply(x, 302, b"", {"Location": f"{asked['redirect_uri']}?{told}"})

    def _token(self, x: BaseHTTPRequestHandler, _query: str, body: bytes) -> None:
        form: Form = dict(urllib.parse.parse_qsl(body.decode()))
        basic = x.headers.get("Authorization") or ""
        form["_method"] = "client_secret_post" if "client_secret" in form else "none"
        if basic.startswith("Basic "):
            user, _, password = base64.b64decode(basic[6:]).decode().partition(":")
            form["client_id"] = urllib.parse.unquote(user)
            form["client_secret"] = urllib.parse.unquote(password)
            form["_method"] = "client_secret_basic"
        elif "client_assertion" in form:
            form["_method"] = "private_key_jwt"
            part = form["client_assertion"].split(".")[1]
            form["_claims"] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        self.grants.append(form)
        if self.token_delay:
            time.sleep(self.token_delay)
        fault = self.faults.pop(0)() if self.faults else None
        if fault is not None:
            to = {"Location": self.moved_to} if self.moved_to else {}
            self._reply(x, fault[0], fault[1], to)
            return
        with self._lock:
            status, answer = self._grant(form)
        if self.after is not None and status == 200:
            self.after(form["grant_type"])
        self._reply(x, status, answer)

    def _grant(self, form: Form) -> tuple[int, Any]:
        def wrong(error: str, status: int = 400) -> tuple[int, Any]:
            said = {"error": error, "error_description": f"SENTINELDETAIL of {form}"}
            return status, said

        ident, kind = form.get("client_id", ""), form.get("grant_type")
        if ident not in self.clients and not ident.startswith("https://"):
            return wrong("invalid_client", 401)
        secret = self.clients.get(ident)
        if secret is not None and secret != form.get("client_secret"):
            return wrong("invalid_client", 401)
        if kind == "client_credentials":
            return 200, self._made(form.get("scope", ""), None)
        if kind == "authorization_code":
            asked = self._codes.pop(form.get("code", ""), None)
            if asked is None or asked["redirect_uri"] != form.get("redirect_uri"):
                return wrong("invalid_grant")
            digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            told = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if told != asked["code_challenge"]:
                return wrong("invalid_grant")
            return 200, self._made(asked.get("scope", ""), str(next(self._numbers)))
        found = self._refreshes.get(form.get("refresh_token", ""))
        if found is None:
            return wrong("invalid_grant")
        if found["used"] and self.rotates:
            self.reused += 1
            self._refreshes = {
                token: one
                for token, one in self._refreshes.items()
                if one["family"] != found["family"]
            }
            return wrong("invalid_grant")
        found["used"] = True
        return 200, self._made(found["scope"], found["family"], form["refresh_token"])

    def _made(self, scope: str, family: str | None, before: str = "") -> Any:
        number = next(self._numbers)
        access = f"SENTINELACCESS{number}"
        self.access[access] = set(scope.split())
        answer: dict[str, Any] = {"access_token": access, "token_type": "bearer", "scope": scope}
        if self.lifetime is not None:
            answer["expires_in"] = self.lifetime
        if family is not None and self.gives_refresh and (self.rotates or not before):
            again = f"SENTINELREFRESH{number}"
            self._refreshes[again] = {"family": family, "used": False, "scope": scope}
            answer["refresh_token"] = again
        return answer | self.token_extra

    def _revoke(self, x: BaseHTTPRequestHandler, _query: str, body: bytes) -> None:
        form = dict(urllib.parse.parse_qsl(body.decode()))
        self.revoked.append(form["token"])
        self._reply(x, 200, b"")

    def _mcp(self, x: BaseHTTPRequestHandler, _query: str, body: bytes) -> None:
        token = (x.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token not in self.access:
            self._reply(x, 401, {}, {"WWW-Authenticate": self.challenge})
            return
        message = json.loads(body or b"{}")
        name = message.get("params", {}).get("name")
        wanted = self.tool_scopes.get(name, set())
        if not wanted <= self.access[token]:
            named = f'error="insufficient_scope", scope="{" ".join(sorted(wanted))}"'
            self._reply(x, 403, {}, {"WWW-Authenticate": f"Bearer {named}"})
        elif "id" not in message:
            self._reply(x, 405 if x.command == "GET" else 202, b"")
        else:
            self._reply(x, 200, {"jsonrpc": "2.0", "id": message["id"], **_answer(message)})


def _answer(message: Form) -> Form:
    """Return the result of a server with two tools that say what they are called."""
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "admin")]
    match message["method"]:
        case "initialize":
            info = {"name": "far", "version": "1"}
            version = message["params"]["protocolVersion"]
            return {
                "result": {
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                }
            }
        case "tools/list":
            return {"result": {"tools": tools}}
        case "tools/call":
            content = [{"type": "text", "text": message["params"]["name"]}]
            return {"result": {"content": content}}
        case "ping":
            return {"result": {}}
    return {"error": {"code": -32601, "message": "no such method"}}


def browse(url: str) -> tuple[int, str, bytes]:
    """Follow redirects as a browser does; return the last status, address and body."""
    for _ in range(10):
        parts = urllib.parse.urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=20)
        connection.request("GET", f"{parts.path}?{parts.query}")
        response = connection.getresponse()
        status, location, body = response.status, response.getheader("Location"), response.read()
        connection.close()
        if status not in (301, 302, 303, 307, 308) or location is None:
            return status, url, body
        url = urllib.parse.urljoin(url, location)
    raise AssertionError("redirects without end")


def ends_at(url: str) -> str:
    """Return where a browser is sent from an authorization address, without going there."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    connection.request("GET", f"{parts.path}?{parts.query}")
    response = connection.getresponse()
    response.read()
    connection.close()
    location = response.getheader("Location")
    assert location is not None
    return location
