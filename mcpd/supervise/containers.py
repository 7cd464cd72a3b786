"""The daemon's side of servers in containers: how they are started to be found, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading

import msgspec

from mcpd import privatefiles
from mcpd.core.policy import containers
from mcpd.supervise import engine
from mcpd.supervise.ledgerfile import Container
from mcpd.supervise.spawn import Launch

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
"""Variables that say which engine it is and where. They are written down; no others are."""

SNAP = "snap"
"""What a program is that may not write where we want the id: in hidden directories."""


def tag_of(daemon_id: str) -> str:
    """Return the tag of the commands by which a daemon ends containers."""
    return f"{daemon_id}:containers:0"


class Containers:
    """Makes command lines whose containers are found again, and ends those.

    Invariant: a container is ended by its id, read from a file that its own start made, or found
    by its label. Names are not unique to us, so no name is ever stopped.
    """

    def __init__(self, state_dir: str, daemon_id: str) -> None:
        self._directory = os.path.join(state_dir, CONTAINERS)
        self._tag = tag_of(daemon_id)

    def fit(self, launch: Launch, *, tag: str) -> tuple[Launch, Container | None]:
        """Return how to start what is to be started, and the container that may come of it."""
        command, *args = launch.argv
        run = containers.recognise(command, args)
        if run is None:
            return launch, None
        label = f"{containers.LABEL}={tag}"
        options = [f"--label={label}"]
        cidfile = ""
        if run.cidfile:
            theirs = os.path.join(launch.cwd, run.cidfile)
            if not os.path.lexists(theirs):  # else the engine refuses, and the id is an old one
                cidfile = theirs
        elif not _is_snap(launch.program):
            cidfile = self._new_file(tag)
            if cidfile:
                options += ["--cidfile", cidfile]
        container = Container(
            argv=(os.path.abspath(launch.program), *run.globals),
            label=label,
            cidfile=cidfile,
            is_ours=bool(cidfile) and not run.cidfile,
            removes=run.removes,
            env=tuple((name, launch.env[name]) for name in WHERE if name in launch.env),
            cwd=launch.cwd,
        )
        argv = (command, *run.with_options(args, *options))
        return msgspec.structs.replace(launch, argv=argv), container

    async def end(self, container: Container, *, grace: float) -> str | None:
        """End a container whose process has gone; return what is left and why, or ``None``.

        ``grace`` is in seconds. In a thread of its own: an engine that hangs must not take one
        from others. Cancelling is safe; what was begun goes on.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[str | None] = loop.create_future()

        def settle(left: str | None) -> None:
            if not ended.done():
                ended.set_result(left)

        def work() -> None:
            left = engine.end(container, grace=grace, tag=self._tag)
            with contextlib.suppress(RuntimeError):  # the loop has ended before us
                loop.call_soon_threadsafe(settle, left)

        try:
            threading.Thread(target=work, name="containers.end", daemon=True).start()
        except RuntimeError as error:
            return f"its container may run on: {error}"
        return await ended

    def _new_file(self, tag: str) -> str:
        """Return a path where nothing is, in a private directory; empty where that cannot be."""
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
