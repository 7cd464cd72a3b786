"""Checks the machine: disks, logs and limits that a daemon and its servers need."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from mcpd.config.schema import DaemonConfig
from mcpd.doctor.facts import Daemon, Disk, Logs, Machine
from mcpd.doctor.finding import Finding, error, fine, note, warning

FULL_BYTES = 1 << 20
LOW_BYTES = 100 << 20
"""Below this a disk is reported as nearly full."""

LOW_FILES = 100
FEW_DESCRIPTORS = 4096
"""Below this the limit is reported as low; a server takes about seven, a session two or three."""

FULL_SHARE = 0.8
SLACK_BYTES = 64 << 10
"""Bytes above its limit that a log may have: its last line."""

NO_LIMIT = -1


def check(machine: Machine, daemon: Daemon | None, settings: DaemonConfig) -> Iterator[Finding]:
    """Yield the findings about disks, logs and limits."""
    yield fine("python", f"Python {machine.python}")
    if machine.refusal is not None:
        remedy = machine.remedy or "choose another place: MCPD_STATE_DIR"
        yield error("state_exposed", f"no daemon starts: {machine.refusal}", remedy)
    for disk in machine.disks:
        yield from _disk(disk)
    if machine.logs is not None:
        yield from _logs(machine.logs, settings)
    if machine.inotify is not None and settings.watch:
        yield note(
            "watches_exhausted",
            f"changes of files cannot be watched: {machine.inotify}; the daemon looks every 2 s",
            "sudo sysctl fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=524288",
        )
    if daemon is not None and daemon.nofile is not None:
        yield from _descriptors(daemon, *daemon.nofile)


def _disk(disk: Disk) -> Iterator[Finding]:
    what = f"the {disk.what} directory {disk.path}"
    if not disk.is_writable:
        variable = "MCPD_STATE_DIR" if disk.what == "state" else "MCPD_SOCKET"
        yield error(
            f"{disk.what}_not_writable",
            f"{what} cannot be written to: {disk.reason}",
            f"mend that, or choose another place: {variable}",
        )
        return
    free, files = disk.free_bytes, disk.free_files
    remedy = f"make room: df -h {shlex.quote(disk.path)}"
    if free is not None and free < FULL_BYTES:
        yield error("disk_full", f"the disk of {what} is full: {free} bytes are left", remedy)
    elif free is not None and free < LOW_BYTES:
        yield warning("disk_low", f"the disk of {what} has {free >> 20} MiB left", remedy)
    elif files is not None and files < LOW_FILES:
        told = f"the disk of {what} takes only {files} more files"
        yield warning("disk_low", told, f"make room: df -i {shlex.quote(disk.path)}")
    else:
        room = "" if free is None else f", {free >> 20} MiB free"
        yield fine("disk", f"{what} can be written to{room}")


def _logs(logs: Logs, settings: DaemonConfig) -> Iterator[Finding]:
    cap = settings.log_max_bytes * (settings.log_backups + 1)
    for path, size in logs.sizes.items():
        if size > cap + SLACK_BYTES:
            yield warning(
                "log_large",
                f"{path} and its older parts have {size >> 20} MiB, and should have "
                f"{cap >> 20} MiB at most (log_max_bytes, log_backups)",
                f"if nothing grows there any more: rm {shlex.quote(path)}.*",
            )
    whole = sum(logs.sizes.values())
    if 0 < settings.logs_max_bytes < whole - SLACK_BYTES:
        yield warning(
            "logs_large",
            f"all logs in {logs.directory} have {whole >> 20} MiB, and should have "
            f"{settings.logs_max_bytes >> 20} MiB at most (logs_max_bytes)",
            f"to see which: du -ah {shlex.quote(logs.directory)}",
        )
    yield fine("logs", f"{len(logs.sizes)} logs in {logs.directory} take {whole >> 20} MiB")


def _descriptors(daemon: Daemon, soft: int, hard: int) -> Iterator[Finding]:
    limit = "unlimited" if hard == NO_LIMIT else hard
    used = "" if daemon.open_fds is None else f", {daemon.open_fds} in use"
    told = f"the daemon may open {soft} files (hard limit {limit}{used})"
    raised = (
        "LimitNOFILE= in its unit, or ulimit -n before mcpctl up; then: mcpctl restart --daemon"
    )
    if daemon.open_fds is not None and soft > 0 and daemon.open_fds > FULL_SHARE * soft:
        yield warning("descriptors_used_up", told, raised)
    elif 0 <= soft < FEW_DESCRIPTORS:
        yield warning("descriptors_few", told, raised)
    else:
        yield fine("descriptors", told)
