"""What the daemon and the process for signing in say to each other, over its pipes.

The daemon sends one order, and to one that asks for an answer of a browser the address at which the
browser ended, each as a line of JSON. The process writes frames of ``mcpd.schemas.protocol``: a
kind, and a body of JSON. All of it is secret: neither arguments nor the environment have any.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, Literal

import msgspec

from mcpd.signin.credentials import Client

_BOOT: Final = (
    "import sys; sys.path.append(sys.argv[1]); from mcpd.signin.worker.main import main; main()"
)
ARGV: Final = [sys.executable, "-P", "-c", _BOOT, str(Path(__file__).parents[2])]
"""The command line of the process; it imports the package from the daemon's own path."""

ENVIRONMENT: Final = (
    "PATH", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH",
    "HOME", "USER", "LOGNAME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME",
    "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "PYTHON_KEYRING_BACKEND",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
"""The variables that the process gets: where the keyring is, and the proxies."""

ADDRESS: Final = b"U"
"""``Address``: a person is to open it."""

REFUSED: Final = b"N"
"""``Refusal`` of an address that was pasted; the sign-in goes on."""

DONE: Final = b"D"
"""The result: ``Discovered``, ``SignedIn`` or ``Value``."""

FAILED: Final = b"E"
"""``Refusal``: it has failed, and the process ends."""


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """How to connect to what is discovered: as to the server."""

    proxy: str = "env"
    ca_file: str = ""
    client_cert: str = ""
    client_key: str = ""


class SignIn(msgspec.Struct, frozen=True, kw_only=True, tag="sign_in"):
    """Let a person sign in to a server."""

    server: str
    url: str
    status: int = 401
    challenge: str = ""
    """Of the response that asked for it: its status, and its ``WWW-Authenticate``."""

    connection: Connection = Connection()
    client: Client | None = None
    """A client that was configured, or registered before."""

    client_issuer: str = ""
    """The authorization server with which ``client`` was registered; empty for a configured one."""

    client_metadata_url: str = ""
    scopes: tuple[str, ...] = ()
    """What was configured; none: what the server names."""

    granted: tuple[str, ...] = ()
    """What the tokens of before may do; asked for again with a ``status`` of 403."""

    redirect_port: int = 0
    callback_host: str = "127.0.0.1"
    authorize_params: dict[str, str] = {}
    timeout: float = 600.0


class Discover(msgspec.Struct, frozen=True, kw_only=True, tag="discover"):
    """Find the authorization server of a server."""

    server: str
    url: str
    challenge: str = ""
    connection: Connection = Connection()


class KeyringOrder(msgspec.Struct, frozen=True, kw_only=True, tag="keyring"):
    """Use the keyring of the operating system."""

    service: str
    action: Literal["probe", "get", "set", "delete", "find"]
    name: str = ""
    value: str = ""
    names: tuple[str, ...] = ()
    """Of ``find``: what to look up."""


Order = SignIn | Discover | KeyringOrder


class Pasted(msgspec.Struct, frozen=True):
    """Where the browser ended."""

    address: str


class Address(msgspec.Struct, frozen=True):
    """What a person is to open."""

    url: str


class Refusal(msgspec.Struct, frozen=True):
    """Why something was refused or has failed, for people: without a secret."""

    message: str


class Discovered(msgspec.Struct, frozen=True, kw_only=True):
    """An authorization server, as far as tokens need it."""

    issuer: str = ""
    token_endpoint: str
    revocation_endpoint: str = ""
    resource: str = ""
    methods: tuple[str, ...] = ()
    """How clients may prove who they are; none: as RFC 8414 has it without."""

    scopes: tuple[str, ...] = ()
    """What the server asks for."""


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a sign-in."""

    discovered: Discovered
    client: Client
    access_token: str
    refresh_token: str = ""
    expires_in: float | None = None
    scopes: tuple[str, ...] = ()
    account: str = ""


Problem = Literal["none", "locked", "unavailable"]
"""Why a keyring did not do what was asked.

There is none (``none``), it is locked or shows a prompt that nobody answers, or it has failed.
"""


class Value(msgspec.Struct, frozen=True):
    """The result of an order to the keyring."""

    value: str | None = None
    is_done: bool = False
    found: dict[str, str] = {}
    """Of ``find``: the values that it has, by their names."""

    problem: Problem | None = None
