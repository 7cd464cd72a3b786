"""Types what a page of the documentation shows in its console blocks."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.support.daemon import Box, binary
from tests.support.waiting import scaled

END = "\x1e"


def typed(page: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a page in their order, each with the lines that it shows."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.startswith("  ") and not found[-1][1]:
                found[-1] = (f"{found[-1][0]}\n{line}", [])
            else:
                found[-1][1].append(line)
    return found


def recorded(page: str, heading: str) -> list[tuple[str, str]]:
    """Return the commands of the recording below a heading, each with a pattern of what it says.

    ``[…]`` on the page stands for any lines; the widths of columns, all times and the ids of
    processes may differ.
    """
    _, _, below = page.partition(f"\n## {heading}\n")
    block = re.search(r"^```text\n(.*?)^```", below, re.MULTILINE | re.DOTALL)
    assert block is not None, heading
    found: list[tuple[str, str]] = []
    for line in block[1].splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif line == "[…]":
            found[-1] = (found[-1][0], f"{found[-1][1]}(?:.*\n)*")
        elif line:
            pattern = re.sub(r"(?:\\ ){2,}", " +", re.escape(line))
            pattern = re.sub(
                r"\d\d:\d\d:\d\d|\b\d+(?=\\ s\\ ago)|(?<=pid\\ )\d+", r"[\\d:]+", pattern
            )
            found[-1] = (found[-1][0], f"{found[-1][1]}{pattern}\n")
    return found


def check(page: str, run: Callable[[str], str]) -> None:
    """Type the commands in one shell, and compare what each says with what the page shows.

    ``run`` returns what a script says. ``…`` on the page stands for any text.
    """
    commands = typed(page)
    script = "".join(f"{command}\nprintf '{END}'\n" for command, _ in commands)
    said = run(script).split(END)
    for (command, shown), answer in zip(commands, said[:-1], strict=True):
        lines = [line for line in answer.splitlines() if line]
        pattern = "\n".join(re.escape(line).replace("…", ".*") for line in shown if line)
        assert re.fullmatch(pattern, "\n".join(lines)), f"$ {command}\n{answer}"


def run(box: Box, home: Path, script: str) -> str:
    """Return what a script says in a shell that knows the home directory and nothing else."""
    environment = {
        "HOME": str(home),
        "PATH": f"{Path(binary('mcpctl')).parent}:{os.environ['PATH']}",
        "XDG_RUNTIME_DIR": str(box.root / "run"),
        "MCPD_TEST_BOX": box.tag,
    }
    done = subprocess.run(
        ["bash", "-c", script],
        check=False, cwd=home, env=environment, capture_output=True, text=True, timeout=scaled(60),
    )  # fmt: skip
    return done.stdout
