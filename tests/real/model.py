"""A model for agents, on the loopback interface: it writes down what it is sent, and declines."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable

ERROR = {"type": "invalid_request_error", "message": "this is a test", "code": 400}


class Model:
    """What agents send their prompts and the descriptions of their tools to.

    ``look`` is called with each of them while the agent waits for the answer.
    """

    def __init__(self, look: Callable[[str], None]) -> None:
        class Handler(_Handler):
            heard = staticmethod(look)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    heard: Callable[[str], None]

    def do_POST(self) -> None:
        self.heard(self._body().decode())
        said = json.dumps({"error": ERROR}).encode()
        self.send_response(400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        return body

    def log_message(self, *_: object) -> None:
        """Say nothing: the tests say what went wrong."""
