"""The files by which a service manager knows the daemon: systemd's units, launchd's agent.

The copies in ``systemd/`` are what this module makes for ``/usr/bin/mcpd``. Standard library only.
"""

from __future__ import annotations

import plistlib
from typing import NamedTuple

from mcpd.errors import ConfigError

SERVICE, SOCKET, AGENT = "mcpd.service", "mcpd.socket", "dev.mcpd.plist"

LABEL = "dev.mcpd"
"""The agent's name for launchd."""

FINAL = (2, 73, 75, 78)
"""Exit statuses of ``mcpd`` after which a new start is of no use: see ``mcpd.cli``."""

WATCHDOG_S = 30

STOP_S = 60
"""For the end; the daemon asks for more where its servers have more (``EXTEND_TIMEOUT_USEC``)."""

OPEN_FILES = 65536
"""Open files of the daemon: two or three for each session, seven or so for each server."""

SERVERS_FILES = 1024
"""And of each server: what programs expect, some of which count on no higher number."""

THROTTLE_S = 10
"""Between two starts by launchd; less than this it does not allow either."""


class Setup(NamedTuple):
    """What is particular about one installation. All paths are absolute."""

    command: tuple[str, ...] = ("/usr/bin/mcpd",)
    """How ``mcpd`` is run."""

    config: str | None = None
    """The only configuration file, if it is to be one."""

    socket: str | None = None
    """Where to listen, if not at the usual place."""

    state_dir: str | None = None
    """Likewise where logs and ledgers are."""

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

# SIGTERM is for the daemon alone, which stops its servers in their order and then ends. What is
# left after that, or after its death, goes with the control group.
KillMode=mixed
TimeoutStartSec=60
TimeoutStopSec={STOP_S}
WatchdogSec={WATCHDOG_S}

# Wrong usage, a place that is not ours, another daemon, a configuration that cannot be read:
# nothing of that changes by a new start.
Restart=on-failure
RestartSec=1
RestartPreventExitStatus={" ".join(map(str, FINAL))}

# A server that takes all the memory is not the end of the daemon and of all other servers.
OOMPolicy=continue

# The soft limit is what servers get; the daemon raises its own to the hard one. Its umask is its
# own business, too: one that is set here would be the servers'.
LimitNOFILE={SERVERS_FILES}:{OPEN_FILES}

# There is no NoNewPrivileges, and nothing that implies it (system call filters, PrivateDevices,
# and in a user's manager most others): servers are the user's own tools, and may run sudo, ping or
# a browser's sandbox, all setuid. Nor ProtectHome, PrivateTmp or ProtectSystem: they work on
# the user's files. MemoryDenyWriteExecute would end every JavaScript server.

[Install]
WantedBy=default.target
"""


def socket(setup: Setup) -> str:
    """Return the socket unit, which listens before the daemon does and while it restarts."""
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
    """Return the agent of launchd; ``log`` is where it writes. Nobody has tried it on macOS yet.

    launchd would start a daemon for ever that cannot work: ``MCPD_SERVICE`` has mcpd end with 0
    after some failures, which is the end of it.
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
    """Return a command line; variables are replaced in all of it but the program."""
    program, *args = map(_word, argv)
    return " ".join([program, *(word.replace("$", "$$") for word in args)])


def _word(text: str) -> str:
    """Return a word of a unit, quoted as systemd.syntax(7) and systemd.service(5) have it."""
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
