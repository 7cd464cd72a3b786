"""Secrets besides the keyring: systemd's credentials, and the private file."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from mcpd.secrets import places
from mcpd.secrets.places import SecretsError


def test_the_file_is_private_and_keeps_what_it_is_given(tmp_path: Path) -> None:
    path = places.path_in(str(tmp_path))
    assert places.in_file(path) == {}
    places.put(path, "a", "1")
    places.put(path, "b", "ü\n")
    assert stat.S_IMODE((tmp_path / "secrets.json").stat().st_mode) == 0o600
    assert places.in_file(path) == {"a": "1", "b": "ü\n"}
    places.drop(path, ("a", "none"))
    assert places.in_file(path) == {"b": "ü\n"}


@pytest.mark.parametrize(("text", "mode"), [("{}", 0o644), ("SENTINEL", 0o600)])
def test_a_file_that_is_not_private_or_not_ours_is_refused(
    tmp_path: Path, text: str, mode: int
) -> None:
    file = tmp_path / "secrets.json"
    file.write_text(text)
    file.chmod(mode)
    for use in (places.in_file, lambda path: places.put(path, "a", "1")):
        with pytest.raises(SecretsError) as error:
            use(str(file))
        assert "SENTINEL" not in error.value.message
    assert file.read_text() == text


def test_credentials_of_systemd(tmp_path: Path) -> None:
    (tmp_path / "gh").write_text("value\n\n")
    env = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert places.of_systemd(("gh", "other"), env) == {"gh": "value\n"}
    assert places.of_systemd(("gh",), {}) == {}
    assert places.of_systemd(("gh",), {"CREDENTIALS_DIRECTORY": "."}) == {}
