"""The directory that real servers work in, and how it is put back to what it was."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63"
    "f8cfc0f01f00050001ff89993d1d0000000049454e44ae426082"
)
"""The smallest picture that is one."""

WHEN = "1767323045 +0000"
"""When every commit was made: its hash is then the same in every run."""

GIT_IDENTITY = {
    "GIT_AUTHOR_NAME": "A. Committer",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": WHEN,
    "GIT_COMMITTER_NAME": "A. Committer",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_COMMITTER_DATE": WHEN,
    "GIT_CONFIG_NOSYSTEM": "1",
}

PAGE = "A page of plain text, ünïcode included.\n" * 3


class Ground:
    """Files, a repository and a memory that calls change, and that ``reset`` lays anew.

    Direct clients and the daemon's servers work in the same place one after the other, so that
    no path in a result has to be made equal.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.root = root
        self.files = root / "files"
        self.still = root / "still"
        """Never written to: times of its files stay what they are."""
        self.repository = root / "repository"
        self.memory = root / "memory.jsonl"
        self.home = root / "home"
        """The home directory of a server that opens a page in a browser where it is new."""
        self._template = root / "template"
        self.still.mkdir()
        (self.still / "fixed.txt").write_text("It stays.\n")
        os.utime(self.still / "fixed.txt", (1_700_000_000, 1_700_000_000))
        told = self.home / ".claude-server-commander" / "config.json"
        told.parent.mkdir(parents=True)
        told.write_text(json.dumps({"welcomeOnboardingEligible": False}))
        self._make_template()
        self.reset()

    def reset(self) -> None:
        """Lay everything anew."""
        self.memory.unlink(missing_ok=True)
        shutil.rmtree(self.repository, ignore_errors=True)
        shutil.copytree(self._template, self.repository)
        shutil.rmtree(self.files, ignore_errors=True)
        (self.files / "below").mkdir(parents=True)
        (self.files / "readme.md").write_text("# A title\n\nüber 3 lines\n")
        (self.files / "pixel.png").write_bytes(PIXEL)
        (self.files / "below" / "notes.txt").write_text("one\ntwo\nthree\n")

    def _make_template(self) -> None:
        self._template.mkdir()
        self._git("init", "--quiet", "--initial-branch", "main")
        (self._template / "a.txt").write_text("first\n")
        self._git("add", "a.txt")
        self._git("commit", "--quiet", "--message", "Begin")
        (self._template / "a.txt").write_text("first\nsecond\n")
        (self._template / "new.txt").write_text("not known yet\n")

    def _git(self, *args: str) -> None:
        subprocess.run(
            ["git", *args], cwd=self._template, env={**os.environ, **GIT_IDENTITY}, check=True
        )


class Site:
    """A web site on the loopback interface, for the server that fetches: no network is used."""

    def __init__(self) -> None:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"" if self.path == "/robots.txt" else PAGE.encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: the tests say what went wrong."""
