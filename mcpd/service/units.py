"""The daemon's files for service managers: systemd's units and launchd's agent.

The copies in ``systemd/`` are what this module makes for ``/usr/bin/mcpd``. Standard library only.
"""

from __future__ import annotations

import plistlib
from typing import NamedTuple

from mcpd.errors import ConfigError

SERVICE, SOCKET, AGENT = "mcpd.service", "mcpd.socket", "dev.mcpd.plist"

LABEL = "dev.mcpd"
"""The label of the launchd agent."""

FINAL = (2, 73, 75, 78)
"""Exit statuses of ``mcpd`` that every further start would have too: see ``mcpd.cli``."""

WATCHDOG_S = 30

STOP_S = 60
"""Seconds for stopping; the daemon extends it if servers need more (``EXTEND_TIMEOUT_USEC``)."""

OPEN_FILES = 65536
"""Hard limit on open files: the daemon has two or three per session, and about seven per server."""

SERVERS_FILES = 1024
"""Soft limit on open files, which servers inherit; some programs fail with a higher one."""

THROTTLE_S = 10
"""Seconds at least between two starts by launchd; its own minimum."""


class Setup(NamedTuple):
    """The options of one installation. All paths are absolute."""

    command: tuple[str, ...] = ("/usr/bin/mcpd",)
    """The command that runs ``mcpd``."""

    config: str | None = None
    """The value of ``--config``, if any."""

    socket: str | None = None
    """The path of the socket, if not the default."""

    state_dir: str | None = None
    """The directory of logs and ledgers, if not the default."""

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the whole command line."""
        config = () if self.config is None else ("--config", self.config)
        socket = () if self.socket is None else ("--socket", self.socket)
        return (*self.command, *config, *socket)


def service(setup: Setup) -> str:
    """Return the user unit of systemd. Raises ``ConfigError`` for a path that no unit can hold."""
    environment = ""
    if setup.state_dir is not None:
        environment = f"Environment={_word(f'MCPD_STATE_DIR={setup.state_dir}')}\n"
    return f"""\
[Unit]
Description=mcpd, one daemon for every MCP server
Requires={SOCKET}
After={SOCKET}
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=notify
NotifyAccess=main
ExecStart={_command(setup.argv)}
ExecReload=/bin/kill -HUP $MAINPID
{environment}\

# SIGTERM goes to the daemon only, which stops its servers in order and then ends. Processes that
# are left after that, or after a crash, are killed with the control group.
KillMode=mixed
TimeoutStartSec=60
TimeoutStopSec={STOP_S}
WatchdogSec={WATCHDOG_S}

# Wrong usage, a path that is not private, another daemon, a configuration that cannot be read:
# a restart fixes none of these.
Restart=on-failure
RestartSec=1
RestartPreventExitStatus={" ".join(map(str, FINAL))}

# A server that is killed for its memory must not stop the daemon and all other servers.
OOMPolicy=continue

# Servers inherit the soft limit; the daemon raises its own to the hard limit. The daemon also sets
# its own umask: one that is set here would be inherited by the servers.
LimitNOFILE={SERVERS_FILES}:{OPEN_FILES}

# There is no NoNewPrivileges, and nothing that implies it (system call filters, PrivateDevices,
# and in a user's manager most others): servers are the user's own tools, and may run sudo, ping or
# a browser's sandbox, all setuid. Nor ProtectHome, PrivateTmp or ProtectSystem: they work on
# the user's files. MemoryDenyWriteExecute would end every JavaScript server.

[Install]
WantedBy=default.target
"""


def socket(setup: Setup) -> str:
    """Return the socket unit, which listens before the daemon starts and while it restarts."""
    path = "%t/mcpd/mcpd.sock" if setup.socket is None else _path(setup.socket)
    return f"""\
[Unit]
Description=mcpd's socket

[Socket]
ListenStream={path}
SocketMode=0600
DirectoryMode=0700
FileDescriptorName=mcpd
Backlog=512

[Install]
WantedBy=sockets.target
"""


def agent(setup: Setup, *, log: str) -> str:
    """Return the launchd agent, which logs to ``log``. It has not been tested on macOS yet.

    launchd would restart a daemon that cannot start for ever; ``MCPD_SERVICE`` makes mcpd end with
    0 after some failures, which stops that.
    """
    environment = {"MCPD_SERVICE": "launchd"}
    if setup.state_dir is not None:
        environment["MCPD_STATE_DIR"] = setup.state_dir
    for text in (*setup.argv, log, *environment.values()):
        _refuse_control(text)
    content = {
        "Label": LABEL,
        "ProgramArguments": list(setup.argv),
        "EnvironmentVariables": environment,
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": THROTTLE_S,
        "ExitTimeOut": STOP_S,
        "SoftResourceLimits": {"NumberOfFiles": SERVERS_FILES},
        "HardResourceLimits": {"NumberOfFiles": OPEN_FILES},
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    text = plistlib.dumps(content, sort_keys=False).decode()
    head, opening, rest = text.partition("<plist ")
    return f"{head}<!-- Not tried on macOS yet. -->\n{opening}{rest}"


def _command(argv: tuple[str, ...]) -> str:
    """Return a command line; ``$`` is escaped in the arguments, where systemd expands variables."""
    program, *args = map(_word, argv)
    return " ".join([program, *(word.replace("$", "$$") for word in args)])


def _word(text: str) -> str:
    """Return a word of a unit, quoted as in systemd.syntax(7) and systemd.service(5)."""
    _refuse_control(text)
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    plain = text.replace("/", "").replace("-", "").replace("_", "").replace(".", "")
    return quoted if plain.isalnum() and text.isascii() else f'"{quoted}"'


def _path(text: str) -> str:
    _refuse_control(text)
    return text.replace("%", "%%")


def _refuse_control(text: str) -> None:
    if not text.isprintable():
        raise ConfigError(f"no unit can hold this path: {text!r}", hint="choose another one")
