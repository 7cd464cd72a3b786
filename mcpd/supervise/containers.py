"""Servers in containers: adds options by which their containers are found, and ends those."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading

import msgspec

from mcpd import privatefiles
from mcpd.core.policy import containers
from mcpd.supervise import engine
from mcpd.supervise.container import Container
from mcpd.supervise.spawn import PreparedCommand

CONTAINERS = "containers"
"""The directory of their ids, in the state directory."""

WHERE = (
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
    "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_API_VERSION", "DOCKER_TLS",
    "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH",
    "CONTAINER_HOST", "CONTAINER_CONNECTION", "CONTAINER_SSHKEY", "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF", "CONTAINERD_ADDRESS", "CONTAINERD_NAMESPACE", "NERDCTL_TOML",
)  # fmt: skip
"""Variables that locate the engine. The ledger records these and no others."""

SNAP = "snap"
"""The name of the program behind every snap; snaps may not write to hidden directories."""


def tag_of(daemon_id: str) -> str:
    """Return the tag of the engine commands with which a daemon ends containers."""
    return f"{daemon_id}:containers:0"


class Containers:
    """Changes command lines so that their containers can be found, and ends those containers.

    Invariant: a container is addressed by its id, read from the file that its own start wrote or
    found by its label. It is never addressed by its name, which could be another container's.
    """

    def __init__(self, state_dir: str, daemon_id: str) -> None:
        self._directory = os.path.join(state_dir, CONTAINERS)
        self._tag = tag_of(daemon_id)

    def fit(
        self, command: PreparedCommand, *, tag: str
    ) -> tuple[PreparedCommand, Container | None]:
        """Return the command with options added, and the container that it may start."""
        program, *args = command.argv
        run = containers.container_run(program, args)
        if run is None:
            return command, None
        label = f"{containers.LABEL}={tag}"
        options = [f"--label={label}"]
        cidfile = ""
        if run.cidfile:
            theirs = os.path.join(command.cwd, run.cidfile)
            if not os.path.lexists(
                theirs
            ):  # else the engine refuses to start, and the id in it is old
                cidfile = theirs
        elif not _is_snap(command.program):
            cidfile = self._new_file(tag)
            if cidfile:
                options += ["--cidfile", cidfile]
        container = Container(
            argv=(os.path.abspath(command.program), *run.globals),
            label=label,
            cidfile=cidfile,
            is_ours=bool(cidfile) and not run.cidfile,
            removes=run.removes,
            env=tuple((name, command.env[name]) for name in WHERE if name in command.env),
            cwd=command.cwd,
        )
        argv = (program, *run.with_options(args, *options))
        return msgspec.structs.replace(command, argv=argv), container

    async def end(self, container: Container, *, grace: float) -> str | None:
        """End a container whose process has ended; return why it may still run, or ``None``.

        ``grace`` is in seconds. Runs in a new thread, so an engine that hangs does not occupy one
        of a pool. Cancelling is safe; the work in the thread continues.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[str | None] = loop.create_future()

        def settle(left: str | None) -> None:
            if not ended.done():
                ended.set_result(left)

        def work() -> None:
            left = engine.end(container, grace=grace, tag=self._tag)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle, left)

        try:
            threading.Thread(target=work, name="containers.end", daemon=True).start()
        except RuntimeError as error:
            return f"its container may run on: {error}"
        return await ended

    def _new_file(self, tag: str) -> str:
        """Return an unused path in a private directory; empty if there can be none."""
        name = tag.replace(":", "-") + ".cid"
        try:
            directory = privatefiles.open_directory(self._directory)
            try:
                privatefiles.remove(name, directory=directory)
            finally:
                os.close(directory)
        except OSError:
            return ""
        return os.path.join(self._directory, name)


def _is_snap(program: str) -> bool:
    return os.path.basename(os.path.realpath(program)) == SNAP
