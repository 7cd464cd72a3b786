"""Sets one value in a configuration file and leaves everything else as its author wrote it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

from mcpd import paths
from mcpd.config.files import trust
from mcpd.config.files.candidates import FILE_NAMES, candidates
from mcpd.editing import replace
from mcpd.editing.edits import Put
from mcpd.editing.file import Format, parse

TABLE: Final = "http"
KEY: Final = "listen"


def set_listen(explicit: str | None, addresses: Sequence[str]) -> str:
    """Write the addresses of the HTTP front into a file of the configuration; return its path.

    The file is the last one that has the table, else the one that ``explicit`` or ``MCPD_CONFIG``
    names, else the user's. Without ``addresses`` the front is turned off.

    Raises:
        ConfigError: the file cannot be read or written, or its form is one that is not edited.
    """
    files = candidates(explicit, os.environ)
    found = [file for file in files if os.path.exists(file)]
    file = next((each for each in reversed(found) if TABLE in _data(each)), None)
    own = [each for each in found if len(files) == 1 or each.startswith(paths.config_home())]
    file = file or (own[-1] if own else _new(files))
    replace.change(file, lambda content: edited(content or b"", _format(file), addresses))
    return file


def listening(explicit: str | None) -> tuple[str, ...]:
    """Return the addresses that the files have now, as far as they can be read."""
    found: Any = ()
    for file in candidates(explicit, os.environ):
        table = _data(file).get(TABLE) if os.path.exists(file) else None
        if isinstance(table, dict) and KEY in table:
            found = table[KEY]
    texts = [found] if isinstance(found, str) else found
    return tuple(text for text in texts if isinstance(text, str) and text)


def edited(raw: bytes, format: Format, addresses: Sequence[str]) -> bytes:
    """Return the content of a file with these addresses."""
    value = addresses[0] if len(addresses) == 1 else list(addresses) or ""
    if format != "toml" and not raw.strip():
        raw = b"{}\n"
    return parse(raw, format).edited([Put((TABLE, KEY), value)]).encode()


def _format(file: str) -> Format:
    return "toml" if file.lower().endswith(".toml") else "jsonc"


def _data(file: str) -> dict[str, Any]:
    data = parse(trust.read(file) or b"", _format(file)).data
    return data if isinstance(data, dict) else {}


def _new(files: Sequence[str]) -> str:
    return files[0] if len(files) == 1 else os.path.join(paths.config_home(), FILE_NAMES[-1])
