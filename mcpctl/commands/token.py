"""``mcpctl token``: who may use the daemon over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from mcpctl import options, render

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.tokens import Token

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
HEADER = ["TOKEN", "SERVERS", "TOOLS", "CREATED", "EXPIRES"]
NAME_LENGTH = 64


@click.group("token")
def token_command() -> None:
    """Create, list and revoke the tokens of HTTP clients.

    No daemon is needed; one that runs knows of a change at once.

    \b
    mcpctl token create laptop
    mcpctl token revoke laptop
    """


@options.command("create", starts=False)
@click.argument("name")
@click.option("--server", "servers", multiple=True, metavar="S", help="A server that it may use.")
@click.option("--tool", "tools", multiple=True, metavar="GLOB", help="Tools that it may use.")
@click.option("--profile", metavar="NAME", help="The profile of the configuration it is in.")
@click.option("--expires", metavar="TIME", help="How long it is valid, such as 12h or 30d.")
@click.option(
    "--read-only",
    is_flag=True,
    help="Only tools that say they change nothing (readOnlyHint); this is the server's word.",
)
def create_command(
    app: App,
    name: str,
    servers: tuple[str, ...],
    tools: tuple[str, ...],
    profile: str | None,
    expires: str | None,
    read_only: bool,
) -> None:
    """Create a token and print it, this once.

    --server and --tool can be given several times. A pattern is of a server's own tool names.

    \b
    mcpctl token create laptop
    mcpctl token create ci --server files --tool 'read_*' --expires 30d
    """
    from mcpd import tokens

    if not name.strip() or len(name) > NAME_LENGTH or not name.isprintable():
        raise click.UsageError(f"a name has 1 to {NAME_LENGTH} printable characters")
    path = tokens.path_in(app.state_dir)
    token, text = tokens.create(
        path,
        name,
        now=_now(),
        lifetime=None if expires is None else _lifetime(expires),
        servers=servers,
        tools=tools,
        read_only=read_only,
        profile=profile,
    )
    if app.as_json:
        app.print_document({**_document(token), "token": text})
    else:
        app.print(text)
        app.note("it is shown this once: only its hash is kept")


@options.command("list", starts=False)
def list_command(app: App) -> None:
    """List the tokens, without their texts.

    \b
    mcpctl token list
    """
    from mcpd import tokens

    found = tokens.read(tokens.path_in(app.state_dir))
    if app.as_json:
        app.print_document({"tokens": [_document(token) for token in found]})
    elif found:
        app.print_table(HEADER, [_row(token) for token in found])
    else:
        app.print("there are no tokens; mcpctl token create NAME makes one")


@options.command("revoke", starts=False)
@click.argument("name")
def revoke_command(app: App, name: str) -> None:
    """Revoke a token: its sessions end.

    \b
    mcpctl token revoke laptop
    """
    from mcpd import tokens

    token = tokens.revoke(tokens.path_in(app.state_dir), name)
    if app.as_json:
        app.print_document(_document(token))
    else:
        app.print_line(f"revoked {name}")


for each in (create_command, list_command, revoke_command):
    token_command.add_command(each)


def _now() -> float:
    return datetime.now(UTC).timestamp()


def _lifetime(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    if not number.isdigit() or unit not in UNITS or not 0 < int(number) < 10**9:
        raise click.UsageError(f"--expires {text}: expected a number and s, m, h, d or w")
    return float(int(number) * UNITS[unit])


def _document(token: Token) -> dict[str, object]:
    return {
        "name": token.name,
        "servers": list(token.servers),
        "tools": list(token.tools),
        "read_only": token.read_only,
        "profile": token.profile,
        "created": _stamp(token.created),
        "expires": None if token.expires is None else _stamp(token.expires),
        "expired": token.is_expired(_now()),
    }


def _row(token: Token) -> list[render.Cell]:
    tools = ", ".join(token.tools) or "all"
    if token.profile is not None:
        tools += f", profile {token.profile}"
    expires = "never" if token.expires is None else _stamp(token.expires)
    return [
        token.name,
        ", ".join(token.servers) or "all",
        f"{tools}, read-only" if token.read_only else tools,
        _stamp(token.created),
        "expired" if token.is_expired(_now()) else expires,
    ]


def _stamp(at: float) -> str:
    since_epoch = timedelta(seconds=min(at, 2.5e11))
    stamp = datetime(1970, 1, 1, tzinfo=UTC) + since_epoch
    return stamp.isoformat(timespec="seconds").replace("+00:00", "Z")
