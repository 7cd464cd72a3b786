"""A program that was exchanged is told from the one before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mcpd.config.entry import entry_from_json
from mcpd.daemon.assemble import assemble
from mcpd.daemon.stamp import stamp_of
from mcpd.supervise.slot import ProcessSpec


def spec(command: str, **values: Any) -> ProcessSpec:
    configured = entry_from_json({"command": command, **values}, name="x", env={}, cwd="/")
    found = assemble(configured, base_env={"PATH": "/nowhere"}).spec
    assert found is not None
    return found


def program(folder: Path) -> Path:
    file = folder / "srv"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def test_it_is_when_the_file_that_is_run_was_written(tmp_path: Path) -> None:
    file = program(tmp_path)
    os.utime(file, ns=(1, 1_700_000_000_123_456_000))
    link = tmp_path / "link"
    link.symlink_to(file)
    for command in (str(file), str(link)):
        assert stamp_of(spec(command)) == 1_700_000_000_123_456_000


def test_it_is_looked_for_where_the_server_would_be(tmp_path: Path) -> None:
    file = program(tmp_path)
    assert stamp_of(spec("srv", env={"PATH": str(tmp_path)})) == file.stat().st_mtime_ns


def test_what_is_not_there_has_none(tmp_path: Path) -> None:
    assert stamp_of(spec(str(tmp_path / "missing"))) is None
