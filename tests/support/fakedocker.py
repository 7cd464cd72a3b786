"""A container engine for tests: a ``docker`` to put on ``PATH``, and the daemon behind it.

Containers are children of a ``dockerd`` of its own, which is nobody's that is tested: they have
no tag of ours, and live on when the ``docker run`` that asked for them is killed. What is run is
``docker run [OPTION…] IMAGE COMMAND [ARG…]`` with the image ignored. As with the real one, a
``--cidfile`` that exists is refused, stdin ends with whoever was attached, SIGTERM is passed on,
and ``--rm`` removes what has ended. ``stop``, ``kill``, ``rm``, ``inspect`` and ``ps`` do what
mcpd needs of them.

Files in its directory: ``calls`` has each command line, as JSON; ``hang`` makes every command but
``run`` wait for ever; ``pull`` makes ``run`` wait for the image until it is removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

Json = dict[str, Any]

VALUED = ("--cidfile", "--name", "-e", "--env", "-v", "--label", "--network", "-w")
"""Options of ``run`` that take a value; of those with ``=`` that is what follows it."""


class FakeDocker:
    """The daemon, from the side of a test: start it, look at its containers, end it."""

    def __init__(self, root: Path, *, keep: dict[str, str] | None = None) -> None:
        """Make everything in ``root``; ``keep`` is the environment that each container has."""
        self.root = root
        self.bin = root / "bin"
        self.bin.mkdir(parents=True)
        for name in ("docker", "podman"):
            program = self.bin / name
            program.write_text(
                f'#!/bin/sh\nexec "{sys.executable}" -IS "{__file__}" cli "{root}" "$@"\n'
            )
            program.chmod(0o755)
        argv = [sys.executable, "-IS", __file__, "daemon", str(root), json.dumps(keep or {})]
        self._daemon = subprocess.Popen(argv, env={}, stdout=subprocess.PIPE)
        assert self._daemon.stdout is not None
        self._daemon.stdout.readline()

    def path(self) -> str:
        """Return a ``PATH`` on which ``docker`` is this one."""
        return f"{self.bin}{os.pathsep}{os.environ.get('PATH', os.defpath)}"

    def calls(self, verb: str | None = None) -> list[list[str]]:
        """Return the command lines so far, those with this command if it is given."""
        file = self.root / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [call for call in map(json.loads, lines) if verb is None or verb in call]

    def containers(self) -> list[Json]:
        """Return all containers that were ever made: ``id``, ``pid``, ``state``, ``labels``."""
        listed: list[Json] = _request(self.root, {"do": "list", "removed": True})["containers"]
        return listed

    def running(self) -> list[Json]:
        """Return those that run."""
        return [each for each in self.containers() if each["state"] == "running"]

    def close(self) -> None:
        """End the daemon and every container."""
        with contextlib.suppress(OSError):
            _request(self.root, {"do": "quit"})
        self._daemon.kill()
        self._daemon.communicate()


# -- the daemon --------------------------------------------------------------------------------


class Engine:
    """The daemon: containers by their ids."""

    def __init__(self, root: Path, keep: dict[str, str]) -> None:
        self.root = root
        self.keep = keep
        self.containers: dict[str, Json] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.lock = threading.Lock()

    def serve(self) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.root / "sock"))
        listener.listen(64)
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        """Read one request; what follows the one to run belongs to the container."""
        with connection:
            line = b""
            while not line.endswith(b"\n"):
                more = connection.recv(1)
                if not more:
                    return
                line += more
            request = json.loads(line)
            if request["do"] == "run":
                self.run(request, connection)
                return
            done = self.do(request)
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps(done).encode() + b"\n")

    def run(self, request: Json, connection: socket.socket) -> None:
        ident = secrets.token_hex(32)
        with self.lock:
            taken = [each for each in self.containers.values() if each["state"] != "removed"]
            if request["name"] and any(each["name"] == request["name"] for each in taken):
                connection.sendall(b'{"error": "the container name is already in use"}\n')
                return
            connection.sendall(json.dumps({"id": ident}).encode() + b"\n")
            process = subprocess.Popen(
                request["argv"],
                env=self.keep | request["env"],
                stdin=connection.fileno() if request["stdin"] else subprocess.DEVNULL,
                stdout=connection.fileno(),
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
            self.processes[ident] = process
            self.containers[ident] = {
                "id": ident,
                "pid": process.pid,
                "name": request["name"],
                "labels": request["labels"],
                "rm": request["rm"],
                "state": "running",
                "env": request["env"],
            }
        connection.close()
        process.wait()
        with self.lock:
            container = self.containers[ident]
            if container["state"] != "removed":
                container["state"] = "removed" if request["rm"] else "exited"

    def do(self, request: Json) -> Json:
        if request["do"] == "quit":
            for process in self.processes.values():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            os._exit(0)
        if request["do"] == "list":
            with self.lock:
                found = [dict(each) for each in self.containers.values()]
            wanted = request.get("label")
            return {
                "containers": [
                    each
                    for each in found
                    if (request.get("removed") or each["state"] != "removed")
                    and (wanted is None or wanted in each["labels"])
                ]
            }
        container = self.find(request["id"])
        if container is None:
            return {"error": f"Error response from daemon: No such container: {request['id']}"}
        return getattr(self, f"do_{request['do']}")(container, request) or {"container": container}

    def find(self, which: str) -> Json | None:
        with self.lock:
            for each in self.containers.values():
                if each["state"] != "removed" and (
                    each["id"].startswith(which) or each["name"] == which
                ):
                    return each
        return None

    def do_inspect(self, container: Json, request: Json) -> None:
        """Say what there is to say."""

    def do_signal(self, container: Json, request: Json) -> None:
        self.signal(container, request["signal"])

    def do_stop(self, container: Json, request: Json) -> None:
        self.signal(container, signal.SIGTERM)
        if not self.wait(container, request["seconds"]):
            self.signal(container, signal.SIGKILL)
            self.wait(container, 5)

    def do_kill(self, container: Json, request: Json) -> None:
        self.signal(container, signal.SIGKILL)
        self.wait(container, 5)

    def do_rm(self, container: Json, request: Json) -> Json | None:
        if container["state"] == "running":
            if not request["force"]:
                return {"error": "Error: cannot remove a running container"}
            self.do_kill(container, request)
        with self.lock:
            container["state"] = "removed"
        return None

    def signal(self, container: Json, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            if container["state"] == "running":
                os.kill(container["pid"], number)

    def wait(self, container: Json, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while container["state"] == "running":
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True


# -- the command -------------------------------------------------------------------------------


def _request(root: Path, request: Json) -> Json:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(root / "sock"))
        connection.sendall(json.dumps(request).encode() + b"\n")
        answer: Json = json.loads(connection.makefile("rb").readline() or b"{}")
        return answer


def cli(root: Path, argv: list[str]) -> int:
    """Be ``docker``."""
    with (root / "calls").open("a") as calls:
        calls.write(json.dumps(argv) + "\n")
    while argv and argv[0].startswith("-"):  # before the command
        argv = argv[1 if "=" in argv[0] or argv[0] in ("-D", "--debug") else 2 :]
    if argv[:1] == ["container"]:
        argv = argv[1:]
    verb, rest = argv[0], argv[1:]
    if verb == "run":
        return run(root, rest)
    while (root / "hang").exists():
        time.sleep(0.05)
    requests: dict[str, Json] = {
        "stop": {"do": "stop", "seconds": int(rest[1]) if "-t" in rest else 10},
        "kill": {"do": "kill"},
        "rm": {"do": "rm", "force": "-f" in rest},
        "inspect": {"do": "inspect"},
        "ps": {"do": "list", "label": rest[-1].removeprefix("label=")},
    }
    answer = _request(root, {**requests[verb], "id": rest[-1]})
    if "error" in answer:
        print(answer["error"], file=sys.stderr)
        return 1
    if verb == "ps":
        print("".join(each["id"] + "\n" for each in answer["containers"]), end="")
    elif verb == "inspect":
        print(answer["container"]["state"])
    else:
        print(rest[-1])
    return 0


def run(root: Path, words: list[str]) -> int:
    """Start a container and be its stdin and stdout."""
    request: Json = {"do": "run", "rm": False, "stdin": False, "name": None}
    labels: list[str] = []
    env: dict[str, str] = {}
    cidfile, at = None, 0
    while words[at].startswith("-"):
        word, has_value, value = words[at].partition("=")
        at += 1
        if word in VALUED and not has_value:
            value, at = words[at], at + 1
        match word:
            case "--rm":
                request["rm"] = True
            case "-i" | "--interactive":
                request["stdin"] = True
            case "--cidfile":
                cidfile = value
            case "--name":
                request["name"] = value
            case "--label":
                labels.append(value)
            case "-e" | "--env":
                name, is_set, given = value.partition("=")
                env[name] = given if is_set else os.environ.get(name, "")
    request |= {"argv": words[at + 1 :], "labels": labels, "env": env}
    if cidfile is not None:
        try:
            os.close(os.open(cidfile, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        except OSError as error:
            print(f"docker: container ID file: {error}", file=sys.stderr)
            return 125
    while (root / "pull").exists():
        time.sleep(0.05)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(root / "sock"))
    connection.sendall(json.dumps(request).encode() + b"\n")
    answer = json.loads(_line(connection))
    if "error" in answer:
        print(answer["error"], file=sys.stderr)
        if cidfile is not None:
            os.unlink(cidfile)
        return 125
    if cidfile is not None:
        Path(cidfile).write_text(answer["id"])

    def pass_on(number: int, _: object) -> None:
        _request(root, {"do": "signal", "id": answer["id"], "signal": number})

    signal.signal(signal.SIGTERM, pass_on)
    relay(connection, reads=request["stdin"])
    return 0


def _line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += connection.recv(1)
    return line


def relay(connection: socket.socket, *, reads: bool) -> None:
    """Carry bytes both ways until the container has closed its side."""
    waiting: list[Any] = [connection, 0] if reads else [connection]
    while True:
        ready, _, _ = select.select(waiting, [], [])
        if 0 in ready:
            data = os.read(0, 65536)
            if data:
                connection.sendall(data)
            else:
                waiting.remove(0)
                connection.shutdown(socket.SHUT_WR)
        if connection in ready:
            data = connection.recv(65536)
            if not data:
                return
            while data:
                data = data[os.write(1, data) :]


def main(argv: list[str]) -> int:
    """Be the daemon, or the command."""
    root = Path(argv[1])
    if argv[0] == "daemon":
        Engine(root, json.loads(argv[2])).serve()
    return cli(root, argv[2:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
