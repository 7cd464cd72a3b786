"""Types what a page of the documentation shows in its console blocks."""

from __future__ import annotations

import re
from collections.abc import Callable

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
