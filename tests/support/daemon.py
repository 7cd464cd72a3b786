"""A real daemon in a private place, its fake servers, and a small JSON-RPC peer to talk to it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Self

from tests.support.waiting import scaled, wait_until

Json = dict[str, Any]

FAKE_SERVER = Path(__file__).with_name("fakeserver.py")
TAG = "MCPD_TEST_BOX"
"""The variable by which every process of a box is found again, whatever became of its parents."""


def binary(name: str) -> str:
    """Return the installed ``mcpd`` or ``mcpctl``: in ``MCPD_BIN``, else beside this Python."""
    folder = Path(os.environ.get("MCPD_BIN") or Path(sys.executable).parent)
    path = folder.absolute() / name
    assert path.exists(), f"{path} is missing; `make setup` installs it"
    return str(path)


def is_alive(pid: int) -> bool:
    """Say whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def tagged(tag: str) -> dict[int, str]:
    """Return the living processes with ``tag`` in their environment: pid to command line."""
    needle, found = f"{TAG}={tag}".encode(), {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            environment = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
            if needle in environment and int(entry) != os.getpid() and is_alive(int(entry)):
                line = Path(f"/proc/{entry}/cmdline").read_bytes()
                found[int(entry)] = line.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


class RpcError(Exception):
    """The other side answered with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error.get('code')}: {error.get('message')} {error.get('data')}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")

    @property
    def kind(self) -> str | None:
        """The product's name of the error, where it is one of ours."""
        return self.data.get("kind") if isinstance(self.data, dict) else None


class Peer:
    """One end of newline-delimited JSON-RPC, synchronous; what nobody took waits in ``inbox``."""

    def __init__(self, read_fd: int, write_fd: int, close: Callable[[], None]) -> None:
        self._read_fd, self._write_fd, self.close = read_fd, write_fd, close
        self._buffer = b""
        self._last_id = 0
        self.inbox: list[Json] = []

    @classmethod
    def dial(cls, path: Path) -> Self:
        """Connect to a Unix socket."""
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(str(path))
        except OSError:
            sock.close()
            raise
        return cls(sock.fileno(), sock.fileno(), sock.close)

    @classmethod
    def over(cls, process: subprocess.Popen[bytes]) -> Self:
        """Speak to a child over its stdin and stdout."""
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout

        def close() -> None:
            with contextlib.suppress(BrokenPipeError):
                stdin.close()
            try:
                process.wait(scaled(10))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            stdout.close()
            if process.stderr:
                process.stderr.close()

        return cls(stdout.fileno(), stdin.fileno(), close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send_raw(self, data: bytes) -> None:
        """Write all of ``data``, whatever it is."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._write_fd, view) :]

    def send(self, **message: Any) -> None:
        """Write one message; ``jsonrpc`` is added."""
        whole = {"jsonrpc": "2.0", **message}
        self.send_raw(json.dumps(whole, separators=(",", ":")).encode() + b"\n")

    def read_line(self, timeout: float = 10.0) -> bytes | None:
        """Return the next line without its end, ``None`` at end of file; ``TimeoutError``."""
        deadline = time.monotonic() + scaled(timeout)
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        while b"\n" not in self._buffer:
            left = max(0.0, deadline - time.monotonic())
            if not poll.poll(left * 1000):
                raise TimeoutError(f"nothing within {timeout} s, but {self._buffer[:200]!r}")
            try:
                chunk = os.read(self._read_fd, 1 << 20)
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                return None
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def take(
        self, match: Callable[[Json], bool], timeout: float = 10.0, what: str = "message"
    ) -> Json:
        """Return the first message that matches, now or later, and forget it."""
        deadline = time.monotonic() + scaled(timeout)
        seen = 0
        while True:
            for message in self.inbox[seen:]:
                if match(message):
                    self.inbox.remove(message)
                    return message
            seen = len(self.inbox)
            try:
                line = self.read_line((deadline - time.monotonic()) / scaled(1))
            except TimeoutError as error:
                raise TimeoutError(f"no {what}: {error}; inbox: {self.inbox}") from None
            if line is None:
                raise EOFError(f"closed before the {what}; inbox: {self.inbox}")
            self.inbox.append(json.loads(line))

    def take_notification(self, method: str, timeout: float = 10.0) -> Json:
        """Return the params of the next notification of that method."""
        message = self.take(lambda m: m.get("method") == method, timeout, method)
        params: Json = message.get("params", {})
        return params

    def start(self, method: str, params: Json | None = None, *, ident: Any = None) -> Any:
        """Send a request and return its id at once."""
        if ident is None:
            self._last_id += 1
            ident = self._last_id
        self.send(id=ident, method=method, **({} if params is None else {"params": params}))
        return ident

    def finish(self, ident: Any, timeout: float = 10.0) -> Any:
        """Return the result for a request that was started; raises ``RpcError``."""

        def is_answer(message: Json) -> bool:
            mine = message.get("id") == ident and type(message.get("id")) is type(ident)
            return mine and "method" not in message

        message = self.take(is_answer, timeout, f"answer to {ident!r}")
        if "error" in message:
            raise RpcError(message["error"])
        return message["result"]

    def request(self, method: str, params: Json | None = None, timeout: float = 10.0) -> Any:
        """Send a request and return its result; raises ``RpcError``."""
        return self.finish(self.start(method, params), timeout)

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send a notification."""
        self.send(method=method, **({} if params is None else {"params": params}))

    def initialize(
        self, version: str = "2025-11-25", capabilities: Json | None = None, name: str = "tests"
    ) -> Json:
        """Do the legacy handshake and return its result."""
        asked = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": name, "version": "1"},
        }
        result: Json = self.request("initialize", asked, 30.0)
        self.notify("notifications/initialized")
        return result

    def call(self, tool: str, timeout: float = 10.0, **arguments: Any) -> Json:
        """Call a tool and return its whole result."""
        asked = {"name": tool, "arguments": arguments}
        result: Json = self.request("tools/call", asked, timeout)
        return result

    def text(self, tool: str, timeout: float = 10.0, **arguments: Any) -> str:
        """Call a tool and return the first text of its result."""
        said: str = self.call(tool, timeout, **arguments)["content"][0]["text"]
        return said


class Box:
    """An installation of its own: directories, configuration, a daemon, its clients.

    ``close`` ends everything that ever started in it.
    """

    def __init__(self) -> None:
        self.tag = uuid.uuid4().hex
        # Short: a socket's path holds 108 bytes.
        self.root = Path(tempfile.mkdtemp(prefix="mcpd-", dir="/tmp"))
        self.config = self.root / "config.json"
        self.socket = self.root / "run" / "mcpd.sock"
        self.state = self.root / "state"
        self.log = self.root / "daemon.log"
        self.servers: dict[str, Json] = {}
        self.settings: Json = {}
        self.http: Json = {}
        self.trust: Json = {}
        self.profiles: Json = {}
        self.daemon: subprocess.Popen[bytes] | None = None
        self._peers: list[Peer] = []
        self._started: list[subprocess.Popen[bytes]] = []
        for name in ("run", "state", "home", "conf", "cache"):
            (self.root / name).mkdir(mode=0o700)
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MCPD", "XDG_", "PYTEST"))
        }
        self.env |= {
            "HOME": str(self.root / "home"),
            "XDG_CONFIG_HOME": str(self.root / "conf"),
            "XDG_CACHE_HOME": str(self.root / "cache"),
            "XDG_STATE_HOME": str(self.state),
            "XDG_RUNTIME_DIR": str(self.root / "run"),
            "MCPD_CONFIG": str(self.config),
            "MCPD_SOCKET": str(self.socket),
            "MCPD_STATE_DIR": str(self.state),
            "NO_COLOR": "1",
            "COLUMNS": "200",
            TAG: self.tag,
        }

    # -- configuration -------------------------------------------------------------------------

    def fake(self, name: str = "fake", *flags: object, **entry: Any) -> Self:
        """Add a fake server, with a journal and a pid file; ``entry`` extends its entry."""
        args = ["--name", name, "--journal", self._of(name, "journal"), "--pidfile"]
        args += [self._of(name, "pids"), *map(str, flags)]
        launch = {"command": sys.executable, "args": [str(FAKE_SERVER), *args]}
        self.servers[name] = {**launch, **entry}
        return self

    def write(self) -> Self:
        """Put the configuration where the daemon reads it, in one step."""
        tables = {"daemon": self.settings, "http": self.http, "trust": self.trust}
        tables |= {"profiles": self.profiles, "mcpServers": self.servers}
        text = json.dumps({name: each for name, each in tables.items() if each}, indent=1)
        fresh = self.config.with_suffix(".new")
        fresh.write_text(text)
        fresh.chmod(0o600)
        fresh.replace(self.config)
        return self

    def journal(self, name: str = "fake") -> list[Json]:
        """Return what a fake server wrote into its journal so far."""
        path = Path(self._of(name, "journal"))
        if not path.exists():
            return []
        whole, _, _ = path.read_text().rpartition("\n")  # a line may be half written yet
        return [json.loads(line) for line in whole.splitlines()]

    def messages(self, name: str = "fake", method: str | None = None) -> list[Json]:
        """Return the messages that a fake server read, those of ``method`` if it is given."""
        read = [entry["message"] for entry in self.journal(name) if "message" in entry]
        return [m for m in read if method is None or m.get("method") == method]

    def pids(self, name: str = "fake") -> list[int]:
        """Return every pid that a fake server and its descendants ever had, in order."""
        path = Path(self._of(name, "pids"))
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []

    def _of(self, name: str, kind: str) -> str:
        return str(self.root / f"{name}.{kind}")

    # -- processes -----------------------------------------------------------------------------

    def up(self, *args: str, wait: bool = True, through: Sequence[str] = ()) -> Self:
        """Write the configuration and start the daemon; ``wait`` until it says hello.

        ``through`` is a command that ends by running what is added to it: ``nice``, ``prlimit``.
        """
        self.write()
        with self.log.open("ab") as log:
            self.daemon = self._start([*through, binary("mcpd"), *args], stdout=log, stderr=log)
        if wait:
            wait_until(self.says_hello, 20, what=lambda: f"the daemon; its log:\n{self.tail()}")
            with contextlib.suppress(OSError, EOFError), Peer.dial(self.socket) as peer:
                peer.request("mcpd/logs", {"lines": 0})  # writes the lines that are kept until now
        return self

    def says_hello(self) -> Json | None:
        """Return what ``mcpd/hello`` says, ``None`` while nobody listens."""
        if self.daemon and self.daemon.poll() is not None:
            raise AssertionError(f"mcpd ended with {self.daemon.returncode}:\n{self.tail()}")
        try:
            with Peer.dial(self.socket) as peer:
                hello: Json = peer.request("mcpd/hello")
                return hello
        except (OSError, EOFError):
            return None

    def down(self, sig: signal.Signals = signal.SIGTERM, timeout: float = 20.0) -> int:
        """Signal the daemon and return its exit status."""
        assert self.daemon
        self.daemon.send_signal(sig)
        return self.daemon.wait(scaled(timeout))

    def tail(self, size: int = 3000) -> str:
        """Return the end of the daemon's log."""
        return self.log.read_text(errors="replace")[-size:] if self.log.exists() else ""

    def survivors(self) -> dict[int, str]:
        """Return the processes of this box that still run: pid to command line."""
        return tagged(self.tag)

    def ctl(
        self,
        *args: object,
        stdin: str | None = None,
        timeout: float = 60.0,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``mcpctl`` to its end."""
        return subprocess.run(
            [binary("mcpctl"), *map(str, args)],
            env=self.env,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            text=True,
            capture_output=True,
            timeout=scaled(timeout),
            cwd=cwd,
            check=False,
        )

    def ctl_elsewhere(self, *args: str) -> int:
        """Run ``mcpctl`` in no process below this one, as in another terminal; return its status.

        What runs below a program with an open session is that program's.
        """
        result = self.root / f"status.{uuid.uuid4().hex}"
        script = (
            "import os, subprocess, sys, time\n"
            "parent = os.getpid()\n"
            "if os.fork():\n    os._exit(0)\n"
            "os.setsid()\n"
            "while os.getppid() == parent:\n    time.sleep(0.01)\n"
            "status = subprocess.run(sys.argv[2:], stdout=-3, stderr=-3, stdin=-3).returncode\n"
            "open(sys.argv[1] + '.new', 'w').write(str(status))\n"
            "os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
        )
        argv = [sys.executable, "-c", script, str(result), binary("mcpctl"), *args]
        subprocess.run(argv, env=self.env, check=True)
        wait_until(result.exists, 20)
        return int(result.read_text())

    def status(self, name: str = "fake") -> Json:
        """Return the status of one server."""
        with Peer.dial(self.socket) as peer:
            status: Json = peer.request("mcpd/status", {"servers": [name]})["servers"][0]
            return status

    def write_audit(self) -> None:
        """Have what was recorded written; the daemon has the files of the audit open then."""
        with Peer.dial(self.socket) as peer:
            peer.request("mcpd/audit", {"lines": 0})

    def _start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int | IO[bytes],
        stderr: int | IO[bytes],
    ) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            argv, env=self.env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, bufsize=0
        )
        self._started.append(child)
        return child

    # -- clients -------------------------------------------------------------------------------

    def peer(self) -> Peer:
        """Return a fresh connection to the daemon."""
        peer = Peer.dial(self.socket)
        self._peers.append(peer)
        return peer

    def session(
        self,
        server: str | None = "fake",
        *,
        handshake: bool = True,
        version: str = "2025-11-25",
        capabilities: Json | None = None,
        **attach: Any,
    ) -> Peer:
        """Return an MCP session on one server, or on the aggregate (``server=None``)."""
        peer = self.peer()
        if server is not None or attach:
            named = {} if server is None else {"server": server}
            peer.request("mcpd/attach", {**named, **attach}, 30.0)
        if handshake:
            peer.initialize(version, capabilities)
        return peer

    def bridge(self, *args: str, handshake: bool = True, cwd: Path | None = None) -> Peer:
        """Return a session through ``mcpctl connect``, as an MCP client would start it."""
        pipe = subprocess.PIPE
        argv = [binary("mcpctl"), "connect", *args]
        peer = Peer.over(self._start(argv, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe))
        self._peers.append(peer)
        if handshake:
            peer.initialize()
        return peer

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """End every process of this box and remove its directory."""
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.close()
        if self.daemon and self.daemon.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.down()
        while left := self.survivors():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for child in self._started:
                child.poll()
        for child in self._started:
            child.wait()
        shutil.rmtree(self.root, ignore_errors=True)
