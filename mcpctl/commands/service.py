"""``mcpctl service``: the systemd user unit, or the launchd agent."""

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
"""States of systemd that are over soon."""

manager_option = click.option(
    "--manager",
    type=click.Choice(["systemd", "launchd"]),
    help="Which service manager is meant; default: this system's.",
)


@click.group("service")
def service_command() -> None:
    """Run the daemon as a service of systemd or launchd.

    \b
    mcpctl service install
    mcpctl service status
    """


@options.command("install", starts=True, no_start_help="Do not start it before the next login.")
@manager_option
@click.option("--print", "is_print", is_flag=True, help="Print the files and install nothing.")
@click.option("--force", is_flag=True, help="Also over files that were edited since.")
def install_command(app: App, manager: str | None, is_print: bool, force: bool) -> None:
    """Write the units, have the daemon started at each login, and start it now.

    Installing again brings the units up to date.

    \b
    mcpctl service install
    mcpctl --config ~/mcp.json service install --print
    """
    found, runner = _manager(app, manager)
    files = found.files()
    if is_print:
        if app.as_json:
            app.document({"files": [file._asdict() for file in files]})
        else:
            app.say("\n".join(f"# {file.path}\n{file.text}" for file in files), end="")
        return
    found.check()
    _refuse_what_is_not_ours(files, force=force)
    if app.may_start:
        _refuse_a_daemon_outside(app, found)
    done = []
    for file in files:
        action = "unchanged" if file.state() == "current" else "written"
        if action == "written":
            file.write()
        app.note(f"{file.path}: {action}")
        done.append({"path": file.path, "action": action})
    found.start(now=app.may_start)
    state = found.look() if app.may_start else None
    if app.as_json:
        app.document({
            "manager": found.name, "files": done, "commands": runner.ran, "status": state,
        })  # fmt: skip
    elif state is not None:
        app.say(f"mcpd runs as a service of {found.name}: pid {state['pid']}, {app.socket}")
        if found.name == "systemd":
            app.note("so that it runs while you are logged out, too: loginctl enable-linger")
    else:
        app.say("mcpd is installed, and starts at the next login or with: mcpctl service restart")


@options.command("uninstall", starts=False)
@manager_option
@click.option("--force", is_flag=True, help="Also files that were edited since.")
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
        app.document({"removed": [file.path for file in ours], "commands": runner.ran})
    else:
        app.say("the service is gone" if ours else "nothing was installed")


@options.command("status", starts=False)
@manager_option
def status_command(app: App, manager: str | None) -> int:
    """Say whether the service is installed and runs, and if not, why.

    Ends with 3 where it does not run.

    \b
    mcpctl service status
    """
    found, _ = _manager(app, manager)
    found.check()
    state = found.look()
    if not state["active"]:
        state["explanation"] += _outside(app, state)
        if not state["installed"]:
            state["explanation"].append("it is not installed: mcpctl service install")
        elif not state["explanation"] and not state["state"].startswith(ON_ITS_WAY):
            state["explanation"].append("it was not started, or stopped: mcpctl service restart")
    if app.as_json:
        app.document(state)
    else:
        _show(app, state)
    return exits.DONE if state["active"] else exits.NO_DAEMON


@options.command("restart", starts=True)
@manager_option
def restart_command(app: App, manager: str | None) -> None:
    """Start the service anew, also one that failed too often; return when it runs.

    \b
    mcpctl service restart
    """
    found, runner = _manager(app, manager)
    found.check()
    state = found.look()
    if not state["installed"]:
        raise DaemonUnavailable(
            "the service is not installed", hint="mcpctl service install", why="no_service"
        )
    if not (app.may_start or state["active"]):
        raise DaemonUnavailable(
            "the service does not run", hint="mcpctl service restart", why="not_running"
        )
    _refuse_a_daemon_outside(app, found)
    found.restart()
    state = found.look()
    if app.as_json:
        app.document({"commands": runner.ran, "status": state})
    else:
        app.say(f"mcpd was started anew: pid {state['pid']}")


@options.command("logs", starts=False)
@manager_option
@options.follow
@options.lines
def logs_command(app: App, manager: str | None, follow: bool, lines: int) -> int:
    """Print what the daemon has logged as a service, also before it failed to start.

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
                    app.item({"text": text})
                else:
                    app.say(text)
                    sys.stdout.flush()
        finally:
            if process.poll() is None and follow:
                process.terminate()
    if is_empty and lines:
        found.check()  # a manager that is not there has no log, and its reader no word about that
    if app.as_json and not follow:
        app.document({"lines": texts})
    return exits.DONE if process.returncode <= 0 else exits.NO_DAEMON


for each in (install_command, uninstall_command, status_command, restart_command, logs_command):
    service_command.add_command(each)


def _manager(app: App, name: str | None) -> tuple[Manager, Runner]:
    """Return the manager, set up as this command line and environment say."""
    from mcpctl.services.launchd import Launchd
    from mcpctl.services.manager import Runner
    from mcpctl.services.systemd import Systemd
    from mcpd.service.units import Setup

    config = app.config or os.environ.get("MCPD_CONFIG")
    env = dict(os.environ)
    runtime = f"/run/user/{os.geteuid()}"
    if "XDG_RUNTIME_DIR" not in env and os.path.isdir(runtime):
        env["XDG_RUNTIME_DIR"] = runtime  # where the manager's own socket is; lost by su and cron
    program, *words = daemon_command()
    setup = Setup(
        command=(os.path.abspath(program), *words),
        config=os.path.abspath(config) if config else None,
        socket=app.socket if app.is_socket_named or os.environ.get("MCPD_SOCKET") else None,
        state_dir=paths.state_dir() if os.environ.get("MCPD_STATE_DIR") else None,
    )
    runner = Runner(app.note, env)
    if (name or ("launchd" if sys.platform == "darwin" else "systemd")) == "systemd":
        return Systemd(setup, runner), runner
    return Launchd(setup, runner, os.path.join(paths.state_dir(), "mcpd.log")), runner


def _refuse_what_is_not_ours(files: list[File], *, force: bool) -> None:
    for file in files:
        state = file.state()
        if state in ("edited", "foreign") and not force:
            what = "was edited since it was installed" if state == "edited" else "is not ours"
            raise PathRefused(
                f"{file.path} {what}, and is left alone",
                hint="mcpctl service install --force writes over it; --print shows what",
                path=file.path,
            )


def _refuse_a_daemon_outside(app: App, found: Manager) -> None:
    state = found.look()
    outside = [] if state["active"] else _outside(app, state)
    if outside:
        raise DaemonUnavailable(outside[0], hint="mcpctl down", why="outside")


def _outside(app: App, state: ServiceState) -> list[str]:
    """Say that a daemon runs which is not the service's.

    Who listens is not asked where that would start the service itself.
    """
    pid = daemon_process.pid_in_lock(app.socket)
    if pid is None or pid == state["pid"] or not daemon_process.is_daemon_of(pid, app.socket):
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
            app.say(f"{name + ':':<11}{value}")
    for file in state["files"]:
        app.say(f"{'file:':<11}{file['path']} ({file['state']})")
    for line in state["explanation"]:
        app.say(f"{'':<11}{app.addressed(line)}")
