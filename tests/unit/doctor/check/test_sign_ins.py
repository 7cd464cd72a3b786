"""What is said of where sign-ins are kept."""

from __future__ import annotations

from pathlib import Path

from mcpd.doctor.check.sign_ins import check
from mcpd.doctor.facts import SignIns
from mcpd.doctor.probe.sign_ins import sign_ins


def test_where_nobody_has_signed_in_nothing_is_said(tmp_path: Path) -> None:
    assert [*check(sign_ins(str(tmp_path)))] == [] and [*check(None)] == []


def test_it_is_said_where_each_is() -> None:
    found = [*check(SignIns(path="/s/credentials.json", in_keyring=("a", "b"), in_file=("c",)))]
    assert [(each.id, each.severity) for each in found] == [
        ("sign_ins_keyring", "ok"),
        ("sign_ins_file", "note"),
    ]
    assert "a, b" in found[0].message and "/s/credentials.json" in found[1].message


def test_a_file_that_others_can_read(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    path.write_text("{}")
    path.chmod(0o644)
    [found] = check(sign_ins(str(tmp_path)))
    assert found.id == "sign_ins_unusable" and found.remedy == f"chmod 600 {path}"


def test_a_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    path.write_text("SECRET")
    path.chmod(0o600)
    [found] = check(sign_ins(str(tmp_path)))
    assert "SECRET" not in found.message and "mcpctl login" in (found.remedy or "")
