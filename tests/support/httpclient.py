"""A client of the HTTP front over its Unix socket, on the standard library."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any

from tests.support.daemon import Box, Json
from tests.support.waiting import scaled, wait_until

BOTH = "application/json, text/event-stream"
VERSION = "2025-06-18"


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=scaled(10))
        self._path = path

    def connect(self) -> None:
        """Connect to the Unix socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Answer:
    """A response; its body is read as it is asked for."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._response = connection.getresponse()
        self.status = self._response.status
        self.headers = self._response.headers

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def json(self) -> Any:
        """Return the body."""
        with self:
            return json.loads(self._response.read())

    def message(self) -> Json:
        """Return the JSON-RPC response, whichever form it has."""
        if self.headers.get_content_type() == "application/json":
            found: Json = self.json()
            return found
        with self:
            while (message := self.event()) is not None:
                if "method" not in message:
                    return message
        raise EOFError("the stream ended without a response")

    def event(self) -> Json | None:
        """Return the message of the next event, ``None`` at the end of the stream."""
        while line := self._response.readline():
            if line.startswith(b"data: {"):
                found: Json = json.loads(line[len(b"data: ") :])
                return found
        return None

    def code(self) -> int:
        """Return the status, and close the connection."""
        self.close()
        return self.status

    def lines(self) -> list[bytes]:
        """Return the lines up to the end of the stream."""
        with self:
            return self._response.read().splitlines()

    def close(self) -> None:
        """Close the connection."""
        self._response.close()
        self._connection.close()


class HttpClient:
    """Requests to one daemon, with one token."""

    def __init__(self, box: Box, token: str | None = None) -> None:
        self.path = box.root / "run" / "http.sock"
        self.address = f"unix:{self.path}"
        self.token = token

    def request(
        self, method: str, target: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Send a request; return the response once its head has come."""
        sent = {"Content-Type": "application/json", "Accept": BOTH, **(headers or {})}
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        connection = _Connection(self.path)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, target, data, sent)
            return Answer(connection)
        except BaseException:
            connection.close()
            raise

    def rpc(self, method: str, params: Json | None = None, target: str = "/mcp/fake") -> Answer:
        """Send one request without a session."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        return self.request("POST", target, message, {"MCP-Protocol-Version": VERSION})

    def session(
        self,
        target: str = "/mcp/fake",
        version: str = VERSION,
        capabilities: Json | None = None,
    ) -> HttpSession:
        """Open a session."""
        return HttpSession(self, target, version, capabilities or {})

    def is_healthy(self) -> bool:
        """Tell whether the daemon listens."""
        try:
            with self.request("GET", "/healthz") as answer:
                return answer.status == 200
        except OSError:
            return False


class HttpSession:
    """A session of a handshake revision."""

    def __init__(self, client: HttpClient, target: str, version: str, capabilities: Json) -> None:
        self.client = client
        self.target = target
        self.headers: dict[str, str] = {}
        offered = {"protocolVersion": version, "capabilities": capabilities}
        params = {**offered, "clientInfo": {"name": "tests"}}
        answer = self.post("initialize", params)
        ident = answer.headers["Mcp-Session-Id"]
        answer.message()
        self.headers = {"Mcp-Session-Id": ident, "MCP-Protocol-Version": version}
        self.notify("notifications/initialized")

    def post(self, method: str, params: Json | None = None) -> Answer:
        """Send a request."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        return self.client.request("POST", self.target, message, self.headers)

    def notify(self, method: str) -> None:
        """Send a notification."""
        self._tell({"jsonrpc": "2.0", "method": method})

    def respond(self, ident: Any, result: Json) -> None:
        """Answer a question of the server."""
        self._tell({"jsonrpc": "2.0", "id": ident, "result": result})

    def _tell(self, message: Json) -> None:
        with self.client.request("POST", self.target, message, self.headers) as answer:
            assert answer.status == 202

    def call(self, tool: str, **arguments: Any) -> Json:
        """Call a tool; return the whole answer."""
        return self.post("tools/call", {"name": tool, "arguments": arguments}).message()

    def text(self, tool: str, **arguments: Any) -> str:
        """Call a tool; return the first text of its result."""
        said: str = self.call(tool, **arguments)["result"]["content"][0]["text"]
        return said

    def listen(self, after: str | None = None) -> Answer:
        """Open the stream of what belongs to no request, or the one that an event is of."""
        headers = {**self.headers, "Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = after
        return self.client.request("GET", self.target, None, headers)


def token(box: Box, name: str = "tests", *flags: str) -> str:
    """Create a token and return its text."""
    done = box.ctl("token", "create", name, *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def turned_on(box: Box, *flags: str, **http: Any) -> HttpClient:
    """Start a daemon that listens; return a client with a token."""
    client = HttpClient(box)
    box.http = {"listen": client.address, **http}
    box.up()
    wait_until(client.is_healthy, 10, what=lambda: f"HTTP; the log:\n{box.tail()}")
    client.token = token(box, "tests", *flags)
    return client
