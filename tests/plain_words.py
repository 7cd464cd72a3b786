"""``make lint``: fails on archaic words in the code and in the documentation.

What to write instead: docs/architecture.md for the terms, CONTRIBUTING.md for docstrings.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent

WORDS = re.compile(
    r"\b(?:anew|afresh|likewise|whoever|whomever|whither|whence|thence|thereof|meanwhile|lest"
    r"|hears? of|of no use|whatever becomes|as well as it|save that|(?:is|are|was|were) to be)\b",
    re.IGNORECASE,
)

CHECKED = ("mcpd/**/*.py", "mcpctl/**/*.py", "docs/**/*.md", "README.md", "CHANGELOG.md")

TO_DO = ()
"""Paths, or beginnings of paths, that are not checked yet."""


def findings(root: Path = ROOT) -> Iterator[str]:
    """Yield ``path:line: word`` for each archaic word."""
    for path in sorted(path for pattern in CHECKED for path in root.glob(pattern)):
        name = str(path.relative_to(root))
        if name.startswith(TO_DO):
            continue
        text = path.read_text()
        for found in WORDS.finditer(re.sub(r"\s", " ", text)):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{name}:{line}: {found[0]!r} is archaic: write it in plain words"


if __name__ == "__main__":
    told = list(findings())
    print(*told, sep="\n", end="\n" if told else "")
    sys.exit(bool(told))
