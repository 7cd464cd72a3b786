"""What an entry says of a workspace that is known only when a session comes."""

from __future__ import annotations

import os
import re
from typing import Final

FOLDER: Final = "\0workspaceFolder\0"
BASENAME: Final = "\0workspaceFolderBasename\0"
"""What stands for them in resolved texts: no file and no variable can hold a NUL."""

VARIABLES: Final = {"workspaceFolder": FOLDER, "workspaceFolderBasename": BASENAME}

_EITHER = re.compile(f"{FOLDER}|{BASENAME}")


def is_named_in(text: str) -> bool:
    """Say whether a resolved text depends on the workspace."""
    return "\0" in text


def placed(text: str, root: str) -> str:
    """Return a resolved text as it is in the workspace ``root``, an absolute directory."""
    if not is_named_in(text):
        return text
    known = {FOLDER: root, BASENAME: os.path.basename(root)}
    return _EITHER.sub(lambda found: known[found[0]], text)
