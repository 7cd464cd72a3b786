"""mcpd for the benchmark of peers (``../shared/benchmark``); README.md says how to use it."""

# Runs inside that benchmark, whose modules these are; nothing here imports it.
# mypy: ignore-errors

import json
import shutil
import subprocess
import tempfile

import env
import loadgen
from peers.base import Peer


class Mcpd(Peer):
    """One daemon; each client a connection of its own to its socket."""

    name, title, front = "mcpd", "mcpd", "Unix socket"

    @classmethod
    def version(cls):
        """Return what the installed daemon says of itself."""
        argv = [env.venv("mcpd", "mcpd"), "--version"]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()

    async def start(self, backends):
        """Start a daemon of our own, wherever another one may run."""
        # Short: a socket's path is bounded, and the benchmark's folder may be deep.
        self.home = tempfile.mkdtemp(prefix="mcpd-bench-", dir="/tmp")
        self.places = {
            "MCPD_SOCKET": f"{self.home}/mcpd.sock",
            "MCPD_STATE_DIR": f"{self.home}/state",
            "MCPD_CONFIG": f"{self.home}/mcp.json",
        }
        with open(self.places["MCPD_CONFIG"], "w") as file:
            json.dump({"mcpServers": self.mcp_servers(backends, sharing="shared")}, file)
        await self.spawn([env.venv("mcpd", "mcpd")], **self.places)

    async def connect(self, name):
        """Attach to a server and do the handshake."""
        conn = await loadgen.UnixConn.open(self.places["MCPD_SOCKET"], handshake=False)
        await conn.request("mcpd/attach", {"server": name})
        await conn.handshake()
        return conn

    async def stop(self):
        """End the daemon and remove its place."""
        await super().stop()
        shutil.rmtree(self.home, ignore_errors=True)


class McpdBridge(Mcpd):
    """The same, each client behind ``mcpctl connect``, as clients' configurations have it."""

    name, title, front = "mcpd-bridge", "mcpd, by mcpctl connect", "stdio"

    async def connect(self, name):
        """Start a bridge; it carries the run's tag, so that its cost is counted."""
        tag, value = self.tag.split("=")
        argv = [env.venv("mcpd", "mcpctl"), "connect", "--no-start", name]
        return await loadgen.StdioConn.open(argv, env.environ(**{tag: value}, **self.places))
