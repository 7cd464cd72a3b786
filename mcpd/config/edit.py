"""Sets one value in a configuration file and leaves everything else as its author wrote it."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from typing import Any, Final

from mcpd import paths
from mcpd.config.files import trust
from mcpd.config.files.candidates import FILE_NAMES, candidates
from mcpd.errors import ConfigError
from mcpd.formats import jsonc, toml
from mcpd.formats.document import Document, decode

TABLE: Final = "http"
KEY: Final = "listen"

_TOKEN: Final = {
    ".toml": re.compile(r"""\"(?:[^\"\\]|\\.)*\"|'[^']*'|#[^\n]*|[\[\]{}]"""),
    ".json": re.compile(r"""\"(?:[^\"\\]|\\.)*\"|//[^\n]*|/\*.*?\*/|[\[\]{}]""", re.DOTALL),
}
"""What the end of a value depends on: strings, comments and brackets."""

_HEADER: Final = re.compile(rf"^[ \t]*\[[ \t]*{TABLE}[ \t]*\][^\n]*(?:\n|\Z)", re.MULTILINE)


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
    text = decode(trust.read(file) or b"") if os.path.exists(file) else ""
    _write(file, edited(text, os.path.splitext(file)[1].lower(), addresses))
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


def edited(text: str, ending: str, addresses: Sequence[str]) -> str:
    """Return the text of a file with these addresses."""
    value = json.dumps(addresses[0] if len(addresses) == 1 else list(addresses) or "")
    if ending != ".toml" and not text.strip():
        text = "{}\n"
    document = _parse(text, ending)
    data = document.data
    table = data.get(TABLE)
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{TABLE} is not a table: edit the file yourself")
    if table is not None and KEY in table:
        start = document.values[TABLE, KEY]
        new = text[:start] + value + text[_end(text, start, ending) :]
    elif ending == ".toml":
        new = _added_to_toml(text, value, document, table)
    else:
        new = _added_to_json(text, value, document, table)
    wanted = {**data, TABLE: {**(table or {}), KEY: json.loads(value)}}
    try:
        is_right = _parse(new, ending).data == wanted
    except ConfigError:
        is_right = False
    if not is_right:
        raise ConfigError(
            "the file has a form that is not edited", hint=f"write {KEY} = {value} into [{TABLE}]"
        )
    return new


def _added_to_toml(text: str, value: str, document: Document, table: Any) -> str:
    line = f"{KEY} = {value}\n"
    if table is None:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}[{TABLE}]\n{line}"
    header = _HEADER.search(text)
    if header is not None:
        head = header[0] if header[0].endswith("\n") else header[0] + "\n"
        return text[: header.start()] + head + line + text[header.end() :]
    start = document.values[(TABLE,)]
    if text[start] == "{":  # an inline table
        rest = text[start + 1 :]
        comma = "" if not table else ","
        return f"{text[: start + 1]} {KEY} = {value}{comma}{rest}"
    return f"{TABLE}.{line}{text}"


def _added_to_json(text: str, value: str, document: Document, table: Any) -> str:
    comma = "," if (document.data if table is None else table) else ""
    path = () if table is None else (TABLE,)
    start = document.values[path]
    start = text.index("{", start)
    member = f'"{KEY}": {value}'
    new = f'\n  "{TABLE}": {{ {member} }}{comma}' if table is None else f" {member}{comma}"
    end = "" if comma else ("\n" if table is None else " ")
    return text[: start + 1] + new + end + text[start + 1 :]


def _end(text: str, start: int, ending: str) -> int:
    """Return where the string or list that begins at ``start`` ends."""
    depth = 0
    for found in _TOKEN[".toml" if ending == ".toml" else ".json"].finditer(text, start):
        if found[0] in ("[", "{"):
            depth += 1
        elif found[0] in ("]", "}"):
            depth -= 1
        if depth == 0 and not found[0].startswith(("#", "//", "/*")):
            return found.end()
    return len(text)


def _parse(text: str, ending: str) -> Document:
    if ending == ".toml":
        return toml.parse(text)
    document = jsonc.parse(text)
    if not isinstance(document.data, dict):
        raise ConfigError("the file is no table: edit it yourself")
    return document


def _data(file: str) -> dict[str, Any]:
    data = _parse(decode(trust.read(file) or b""), os.path.splitext(file)[1].lower()).data
    return data if isinstance(data, dict) else {}


def _new(files: Sequence[str]) -> str:
    return files[0] if len(files) == 1 else os.path.join(paths.config_home(), FILE_NAMES[-1])


def _write(file: str, text: str) -> None:
    """Replace a file with the same mode; a link goes on leading to the file that is replaced."""
    file = os.path.realpath(file)
    directory = os.path.dirname(file)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        mode = os.stat(file).st_mode & 0o777 if os.path.exists(file) else 0o600
        fd, temporary = tempfile.mkstemp(dir=directory, prefix=".mcpd-")
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as opened:
                opened.write(text)
                opened.flush()
                os.fsync(fd)
            os.chmod(temporary, mode)
            os.replace(temporary, file)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}") from None
