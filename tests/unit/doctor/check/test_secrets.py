"""What is said of secrets that entries name."""

from __future__ import annotations

from pathlib import Path

from mcpd.config.entry import entry_from_json
from mcpd.config.load import Loaded
from mcpd.config.policy import TrustConfig
from mcpd.doctor.check.secrets import check
from mcpd.doctor.facts import Secrets
from mcpd.doctor.probe.secrets import secrets
from mcpd.secrets import places


def said(found: Secrets) -> list[tuple[str, str, str | None]]:
    return [(each.id, each.severity, each.remedy) for each in check(found)]


def test_without_secrets_nothing_is_said_and_no_keyring_asked(tmp_path: Path) -> None:
    found = secrets(str(tmp_path), Loaded(), {})
    assert found == Secrets(path=str(tmp_path / "secrets.json"))
    assert [*check(found)] == [] and [*check(None)] == []


def test_what_is_in_the_file_and_what_is_nowhere(tmp_path: Path) -> None:
    places.put(places.path_in(str(tmp_path)), "there", "SENTINEL")
    entries = {
        name: entry_from_json(content, name=name, env={}, cwd="/")
        for name, content in {
            "a": {"command": "x", "env": {"A": "${keyring:there}", "B": "${keyring:gone}"}},
            "off": {"command": "x", "env": {"B": "${keyring:gone}"}, "enabled": False},
        }.items()
    }
    found = secrets(str(tmp_path), Loaded(entries=entries, trust=TrustConfig(keyring="file")), {})
    assert found.in_file == ("there",) and found.missing == (("a", "gone"),)
    assert said(found) == [
        ("secrets_file", "warning", "where there is a keyring: mcpctl secret move"),
        ("secret_missing", "error", "mcpctl secret set gone"),
    ]
    assert not any("SENTINEL" in each.message for each in check(found))


def test_a_file_that_others_can_read(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    path.write_text("{}")
    path.chmod(0o644)
    assert said(secrets(str(tmp_path), Loaded(), {})) == [
        ("secrets_unusable", "error", f"chmod 600 {path}")
    ]


def test_a_keyring_that_cannot_be_used() -> None:
    missing = (("a", "gh"),)
    for problem in ("locked", "unavailable"):
        [found] = check(Secrets(path="/s", missing=missing, problem=problem))
        assert (found.id, found.severity) == ("keyring_unusable", "warning")
        assert "gh" in found.message
    assert said(Secrets(path="/s", missing=missing, problem="none")) == [
        ("keyring_missing", "note", None),
        ("secret_missing", "error", "mcpctl secret set gh"),
    ]
    ids = [each[:2] for each in said(Secrets(path="/s", mode="system", problem="none"))]
    assert ids == [("keyring_missing", "error")]


def test_a_keyring_that_works_is_offered_what_is_in_the_file() -> None:
    [(_, _, remedy)] = said(Secrets(path="/s", in_file=("gh",)))
    assert remedy == "mcpctl secret move"
