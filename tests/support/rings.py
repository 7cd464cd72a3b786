"""Keyring back ends for a box, by the ``keyring`` library's own configuration."""

from __future__ import annotations

import json

from tests.support.daemon import Box

_HEAD = """
import json, pathlib, time
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked
PLACE = pathlib.Path({place!r})

class Keyring(KeyringBackend):
    priority = 9
"""

WORKS = """
    def _all(self):
        return json.loads(PLACE.read_text()) if PLACE.exists() else {}
    def get_password(self, service, name):
        return self._all().get(f"{service}/{name}")
    def set_password(self, service, name, value):
        PLACE.write_text(json.dumps({**self._all(), f"{service}/{name}": value}))
    def delete_password(self, service, name):
        left = self._all()
        del left[f"{service}/{name}"]
        PLACE.write_text(json.dumps(left))
"""

LOCKED = """
    def get_password(self, *_):
        raise KeyringLocked("no")
    set_password = delete_password = get_password
"""

HANGS = """
    def get_password(self, *_):
        time.sleep(60)
    set_password = delete_password = get_password
"""


def ring(box: Box, body: str = WORKS) -> None:
    """Give a box this keyring."""
    folder = box.root / "conf" / "python_keyring"
    folder.mkdir(parents=True, exist_ok=True)
    head = _HEAD.format(place=str(box.root / "ring.json"))
    (box.root / "boxring.py").write_text(head + body)
    (folder / "keyringrc.cfg").write_text(
        f"[backend]\ndefault-keyring=boxring.Keyring\nkeyring-path={box.root}\n"
    )


def kept(box: Box) -> dict[str, str]:
    """Return what the keyring has, as ``service/name``."""
    file = box.root / "ring.json"
    found: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
    return found
