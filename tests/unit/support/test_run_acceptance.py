"""The list of acceptance tests becomes a pytest command."""

from __future__ import annotations

from pathlib import Path

from tests import run_acceptance


def test_comments_are_no_entries_and_a_dash_leaves_out():
    text = (
        "# all\none_process/test_cli.py  # most\n\n- one_process/test_cli.py::test_x\nrevisions\n"
    )
    run, left_out = run_acceptance.read_list(text)
    assert run == ["one_process/test_cli.py", "revisions"]
    assert left_out == ["one_process/test_cli.py::test_x"]


def test_the_command_uses_the_settings_beside_the_tests():
    command = run_acceptance.pytest_command(Path("/a"), ["one"], ["two::three"], ["-x"])
    text = " ".join(command)
    assert "-c /a/pytest.ini --rootdir /a" in text
    assert text.endswith("--deselect=two::three /a/one -x")


def test_missing_tests_fail_and_an_empty_list_does_not(tmp_path, monkeypatch, capsys):
    listed = tmp_path / "acceptance.txt"
    listed.write_text("one\n")
    monkeypatch.setattr(run_acceptance, "LIST", listed)
    monkeypatch.setattr(run_acceptance, "ROOT", tmp_path)
    env = {"MCPD_ACCEPTANCE_DIR": str(tmp_path / "nowhere")}
    assert run_acceptance.main([], env) == 2
    assert "MCPD_ACCEPTANCE_DIR" in capsys.readouterr().err
    listed.write_text("# nothing yet\n")
    assert run_acceptance.main([], env) == 0
    assert "none was run" in capsys.readouterr().out


def test_folders_with_files_of_one_name_are_run_apart(tmp_path):
    for path in ("one/test_a.py", "two/test_b.py", "two/deep/test_c.py", "three/test_a.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    entries = ["one", "two", "three", "two/test_b.py::test_x"]
    assert run_acceptance.group(tmp_path, entries) == [
        ["one", "two"],
        ["three", "two/test_b.py::test_x"],
    ]
