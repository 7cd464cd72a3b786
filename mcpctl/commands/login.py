"""``mcpctl login`` and ``mcpctl logout``: signing in to remote servers, once for every client."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from mcpctl import completion, failures, options
from mcpd.errors import McpdError

if TYPE_CHECKING:
    from mcpctl.context import App

OPENERS = {"darwin": "open"}
"""The program that opens an address, by platform."""

USUAL_OPENER = "xdg-open"

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
SSH = ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")
"""Variables that say that the person's browser is on another machine."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@options.command("login", starts=True)
@click.argument("server", shell_complete=completion.servers)
@click.option("--no-browser", is_flag=True, help="Only print the address; open no browser.")
def login_command(app: App, server: str, no_browser: bool) -> None:
    """Sign in to a remote server, for every client of this daemon.

    Opens a browser where there is one, and waits until you have signed in there. Where the
    browser is on another machine (ssh, a container), it ends at an address that it cannot open:
    paste that address here. Only one sign-in to a server is in progress at a time; a second
    login waits for it.

    \b
    mcpctl login tracker
    mcpctl login tracker --no-browser
    """
    with app.connect() as control:
        begun = control.request("mcpd/login", {"server": server})
        if "url" not in begun:
            if app.as_json:
                app.print_document(begun)
            elif "signed_in" in begun:
                app.print_line(_signed_in(begun["signed_in"]))
            else:
                app.print_line(begun.get("reason", f"nobody needs to sign in to {server}"))
            return
        _show(app, server, begun, is_opened=not no_browser and _open(begun))
        threading.Thread(target=_take_pasted, args=(app, server), daemon=True).start()
        done = control.request("mcpd/login_wait", {"server": server})
    if app.as_json:
        app.print_item(done)
    else:
        app.print_line(_signed_in(done))


@options.command("logout", starts=True)
@click.argument("server", shell_complete=completion.servers)
def logout_command(app: App, server: str) -> None:
    """Sign out of a remote server, for every client of this daemon.

    The tokens are revoked where the authorization server can do that, and forgotten.

    \b
    mcpctl logout tracker
    """
    with app.connect() as control:
        done = control.request("mcpd/logout", {"server": server})
    if app.as_json:
        app.print_document(done)
    elif done["revoked"]:
        app.print_line(f"signed out of {server}; its tokens are revoked")
    else:
        app.print_line(
            f"signed out of {server}; what is left of its tokens there, it forgets itself"
        )


def _show(app: App, server: str, begun: dict[str, Any], *, is_opened: bool) -> None:
    if app.as_json:
        app.print_item(begun)
        return
    if begun.get("joined"):
        app.print_line(f"somebody is signing in to {server} already; waiting for that at:")
    elif is_opened:
        app.print_line(f"a browser opens to sign in to {server}; if it does not, open:")
    else:
        app.print_line(f"to sign in to {server}, open:")
    app.print(begun["url"])
    app.print_line("if the browser ends at an address that it cannot open, paste that address here")
    sys.stdout.flush()


def _open(begun: dict[str, Any]) -> bool:
    """Open the address in the browser of this session; return whether that was tried."""
    opener = OPENERS.get(sys.platform, USUAL_OPENER)
    has_display = sys.platform in OPENERS or any(map(os.environ.get, DISPLAYS))
    is_far = any(map(os.environ.get, SSH))
    program = shutil.which(opener)
    if begun.get("joined") or is_far or not has_display or program is None:
        return False
    parts = urlsplit(begun["url"])
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        return False
    nowhere = subprocess.DEVNULL
    try:
        subprocess.Popen(
            [program, begun["url"]],
            stdin=nowhere,
            stdout=nowhere,
            stderr=nowhere,
            start_new_session=True,
        )
    except OSError:
        return False
    return True


def _take_pasted(app: App, server: str) -> None:
    """Pass on each line that is typed, on a connection of its own, until the login ends."""
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            with app.connect(start=False) as control:
                control.request("mcpd/login_paste", {"server": server, "address": line.strip()})
        except McpdError as error:
            app.note(*failures.lines(error, app.socket_option))


def _signed_in(done: dict[str, Any]) -> str:
    who = f" as {done['account']}" if done.get("account") else ""
    expires = done.get("expires")
    if expires is None:
        until = "until the server ends it"
    elif done.get("renews"):
        until = f"until {expires}, and renewed before"
    else:
        until = f"until {expires}; it cannot be renewed without you"
    return f"signed in to {done['server']}{who} ({done['issuer']}) {until}"
