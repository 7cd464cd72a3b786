"""``mcpctl service``: the daemon as a systemd user unit or a launchd agent."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import click

from mcpctl import options
from mcpd import daemon_process, exits, paths
from mcpd.daemon_start.spawn import daemon_command
from mcpd.errors import DaemonUnavailable, PathRefused

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpctl.services.files import File
    from mcpctl.services.manager import Manager, Runner, ServiceState


ON_ITS_WAY = ("activating", "deactivating")
"""States of systemd that last a short time."""

manager_option = click.option(
    "--manager",
    type=click.Choice(["systemd", "launchd"]),
    help="The service manager (default: this system's).",
)


@click.group("service")
def service_command() -> None:
    """Run the daemon as a service of systemd or launchd.

    \b
    mcpctl service install
    mcpctl service status
    """


@options.command("install", starts=True, no_start_help="Start it at the next login, not now.")
@manager_option
@click.option("--print", "is_print", is_flag=True, help="Print the files and install nothing.")
@click.option("--force", is_flag=True, help="Overwrite files that were edited since.")
def install_command(app: App, manager: str | None, is_print: bool, force: bool) -> None:
    """Write the units, enable the service at each login, and start it now.

    Installing again updates the units.

    \b
    mcpctl service install
    mcpctl --config ~/mcp.json service install --print
    """
    found, runner = _manager(app, manager)
    files = found.files()
    if is_print:
        if app.as_json:
            app.print_document({"files": [file._asdict() for file in files]})
        else:
            app.print("\n".join(f"# {file.path}\n{file.text}" for file in files), end="")
        return
    found.check()
    _refuse_edited(files, force=force)
    if app.may_start:
        _refuse_outside_daemon(app, found)
    done = []
    for file in files:
        action = "unchanged" if file.state() == "current" else "written"
        if action == "written":
            file.write()
        app.note(f"{file.path}: {action}")
        done.append({"path": file.path, "action": action})
    found.start(now=app.may_start)
    state = found.state() if app.may_start else None
    if app.as_json:
        app.print_document({
            "manager": found.name, "files": done, "commands": runner.ran, "status": state,
        })  # fmt: skip
    elif state is not None:
        app.print(f"mcpd runs as a service of {found.name}: pid {state['pid']}, {_socket(app)}")
        if found.name == "systemd":
            app.note("so that it runs while you are logged out, too: loginctl enable-linger")
    else:
        app.print("mcpd is installed, and starts at the next login or with: mcpctl service restart")


@options.command("uninstall", starts=False)
@manager_option
@click.option("--force", is_flag=True, help="Remove files that were edited since, too.")
def uninstall_command(app: App, manager: str | None, force: bool) -> None:
    """Stop the service and remove what install wrote.

    \b
    mcpctl service uninstall
    """
    found, runner = _manager(app, manager)
    found.check()
    files = [(file, file.state()) for file in found.files()]
    left = [file.path for file, state in files if state == "edited" and not force]
    if left:
        raise PathRefused(
            f"{' and '.join(left)} was edited since it was installed, and is left alone",
            hint="mcpctl service uninstall --force removes it all the same",
        )
    ours = [file for file, state in files if state not in ("absent", "foreign")]
    if ours:
        found.stop()
        for file in ours:
            file.remove()
            app.note(f"{file.path}: removed")
        found.forget()
    if app.as_json:
        app.print_document({"removed": [file.path for file in ours], "commands": runner.ran})
    else:
        app.print("the service is gone" if ours else "nothing was installed")


@options.command("status", starts=False)
@manager_option
def status_command(app: App, manager: str | None) -> int:
    """Show whether the service is installed and runs, and if not, why.

    The exit status is 3 if it does not run.

    \b
    mcpctl service status
    """
    found, _ = _manager(app, manager)
    found.check()
    state = found.state()
    if not state["active"]:
        state["explanation"] += _outside(app, state)
        if not state["installed"]:
            state["explanation"].append("it is not installed: mcpctl service install")
        elif not state["explanation"] and not state["state"].startswith(ON_ITS_WAY):
            state["explanation"].append("it was not started, or stopped: mcpctl service restart")
    if app.as_json:
        app.print_document(state)
    else:
        _show(app, state)
    return exits.DONE if state["active"] else exits.NO_DAEMON


@options.command("restart", starts=True)
@manager_option
def restart_command(app: App, manager: str | None) -> None:
    """Start the service again, even after it failed; return when it runs.

    \b
    mcpctl service restart
    """
    found, runner = _manager(app, manager)
    found.check()
    state = found.state()
    if not state["installed"]:
        raise DaemonUnavailable(
            "the service is not installed", hint="mcpctl service install", why="no_service"
        )
    if not (app.may_start or state["active"]):
        raise DaemonUnavailable(
            "the service does not run", hint="mcpctl service restart", why="not_running"
        )
    _refuse_outside_daemon(app, found)
    found.restart()
    state = found.state()
    if app.as_json:
        app.print_document({"commands": runner.ran, "status": state})
    else:
        app.print(f"mcpd was restarted: pid {state['pid']}")


@options.command("logs", starts=False)
@manager_option
@options.follow
@options.lines
def logs_command(app: App, manager: str | None, follow: bool, lines: int) -> int:
    """Print the log of the daemon as a service, failed starts included.

    \b
    mcpctl service logs -n 20
    mcpctl service logs -f
    """
    found, _ = _manager(app, manager)
    if follow:
        found.check()
    argv = found.log_command(lines, follow=follow)
    is_empty = True
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
        )
    except OSError as error:
        message = f"cannot run {argv[0]}: {error.strerror}"
        raise DaemonUnavailable(message, hint="mcpctl logs", why="no_manager") from None
    texts = []
    with process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                is_empty = False
                text = found.log_text(line.rstrip("\n"))
                if app.as_json and not follow:
                    texts.append({"text": text})
                elif app.as_json:
                    app.print_item({"text": text})
                else:
                    app.print(text)
                    sys.stdout.flush()
        finally:
            if process.poll() is None and follow:
                process.terminate()
    if is_empty and lines:
        found.check()  # without a manager there is no log, and journalctl does not report that
    if app.as_json and not follow:
        app.print_document({"lines": texts})
    return exits.DONE if process.returncode <= 0 else exits.NO_DAEMON


for each in (install_command, uninstall_command, status_command, restart_command, logs_command):
    service_command.add_command(each)


def _manager(app: App, name: str | None) -> tuple[Manager, Runner]:
    """Return the manager and its runner, set up from the command line and the environment."""
    from mcpctl.services.launchd import Launchd
    from mcpctl.services.manager import Runner
    from mcpctl.services.systemd import Systemd
    from mcpd.service.units import Setup

    config = app.config or os.environ.get("MCPD_CONFIG")
    env = dict(os.environ)
    runtime = f"/run/user/{os.geteuid()}"
    if "XDG_RUNTIME_DIR" not in env and os.path.isdir(runtime):
        env["XDG_RUNTIME_DIR"] = runtime  # has the manager's socket; su and cron drop the variable
    program, *words = daemon_command()
    setup = Setup(
        command=(os.path.abspath(program), *words),
        config=os.path.abspath(config) if config else None,
        socket=_socket(app) if app.is_socket_named or os.environ.get("MCPD_SOCKET") else None,
        state_dir=paths.state_dir() if os.environ.get("MCPD_STATE_DIR") else None,
    )
    runner = Runner(app.note, env)
    if (name or ("launchd" if sys.platform == "darwin" else "systemd")) == "systemd":
        return Systemd(setup, runner), runner
    return Launchd(setup, runner, os.path.join(paths.state_dir(), "mcpd.log")), runner


def manager(app: App) -> Manager:
    """Return the service manager of this system."""
    return _manager(app, None)[0]


def _socket(app: App) -> str:
    """Return the socket of the service, wherever a daemon that runs may be."""
    return paths.socket_path(app.socket_option)


def _refuse_edited(files: list[File], *, force: bool) -> None:
    for file in files:
        state = file.state()
        if state in ("edited", "foreign") and not force:
            what = "was edited since it was installed" if state == "edited" else "is not ours"
            raise PathRefused(
                f"{file.path} {what}, and is left alone",
                hint="mcpctl service install --force writes over it; --print shows what",
                path=file.path,
            )


def _refuse_outside_daemon(app: App, found: Manager) -> None:
    state = found.state()
    outside = [] if state["active"] else _outside(app, state)
    if outside:
        raise DaemonUnavailable(outside[0], hint="mcpctl down", why="outside")


def _outside(app: App, state: ServiceState) -> list[str]:
    """Return a message if a daemon runs that the service manager has not started.

    The socket is not connected to, since that could start the service.
    """
    socket = _socket(app)
    pid = daemon_process.pid_in_lock(socket)
    if pid is None or pid == state["pid"] or not daemon_process.is_daemon_of(pid, socket):
        return []
    return [f"a daemon runs outside of the service (pid {pid}): mcpctl down ends it"]


def _show(app: App, state: ServiceState) -> None:
    words = [
        ("installed", "yes" if state["installed"] else "no"),
        ("enabled", "yes, it starts at each login" if state["enabled"] else "no"),
        ("state", state["state"]),
        ("pid", state["pid"]),
        ("since", state["since"]),
        ("restarts", state["restarts"] or None),
        ("last exit", state["last_exit"]),
        ("says", state["text"]),
    ]
    for name, value in words:
        if value is not None:
            app.print(f"{name + ':':<11}{value}")
    for file in state["files"]:
        app.print(f"{'file:':<11}{file['path']} ({file['state']})")
    for line in state["explanation"]:
        app.print(f"{'':<11}{app.with_socket(line)}")
