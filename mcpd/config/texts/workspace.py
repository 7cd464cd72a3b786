"""Placeholders for the workspace in an entry's texts, filled in when a session attaches."""

from __future__ import annotations

import os
import re
from typing import Final

FOLDER: Final = "\0workspaceFolder\0"
BASENAME: Final = "\0workspaceFolderBasename\0"
"""The placeholders in resolved texts; a NUL cannot occur in a file's text or in a variable."""

VARIABLES: Final = {"workspaceFolder": FOLDER, "workspaceFolderBasename": BASENAME}

_EITHER = re.compile(f"{FOLDER}|{BASENAME}")


def is_named_in(text: str) -> bool:
    """Return whether a resolved text has a placeholder."""
    return _EITHER.search(text) is not None


def placed(text: str, root: str) -> str:
    """Return a resolved text with its placeholders replaced for the directory ``root``."""
    if not is_named_in(text):
        return text
    known = {FOLDER: root, BASENAME: os.path.basename(root)}
    return _EITHER.sub(lambda found: known[found[0]], text)
