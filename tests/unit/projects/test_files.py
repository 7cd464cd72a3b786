"""What the files of a workspace offer, and which files are refused."""

from __future__ import annotations

import grp
import json
import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcpd.projects import files
from mcpd.projects.files import FILES, MOST_BYTES, MOST_SERVERS, Project, has_any, read

ENTRY = {"command": "serve", "args": ["--fast"], "env": {"MODE": "x"}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project below the home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    made = tmp_path / "src" / "shop"
    made.mkdir(parents=True, mode=0o755)
    for place in (tmp_path, made.parent, made):
        place.chmod(0o755)
    return made


def write(folder: Path, name: str = ".mcp.json", **servers: object) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True, mode=0o755)
    key = "servers" if name.startswith(".vscode") else "mcpServers"
    path.write_text(json.dumps({key: servers}))
    path.chmod(0o644)
    return path


def refusal(project: Project) -> str:
    assert project.offers == {}
    (problem,) = project.problems
    assert problem.severity == "error"
    return problem.message


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".json")])
def test_each_client_has_its_file(folder: Path, name: str):
    write(folder, name, proj=ENTRY)
    assert has_any(str(folder))
    offer = read(str(folder)).offers["proj"]
    assert offer.content == ENTRY
    assert offer.file == str(folder / name)
    assert offer.line == 1


def test_our_own_file_is_toml(folder: Path):
    (folder / ".mcpd.toml").write_text('[servers.proj]\ncommand = "serve"\n')
    assert read(str(folder)).offers["proj"].content == {"command": "serve"}


def test_of_two_of_one_name_the_first_counts(folder: Path):
    write(folder, ".cursor/mcp.json", proj={"command": "second"}, more=ENTRY)
    write(folder, ".mcp.json", proj={"command": "first"})
    offers = read(str(folder)).offers
    assert offers["proj"].content == {"command": "first"}
    assert [*offers] == ["more", "proj"]


def test_the_home_directory_is_no_project(folder: Path):
    home = folder.parent.parent
    write(home, ".cursor/mcp.json", proj=ENTRY)
    assert read(str(home)).is_empty
    assert read(str(folder)).is_empty


def test_the_root_directory_is_no_project(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, "_content", lambda *_: b'{"mcpServers": {"proj": {}}}')
    assert read("/").is_empty


def test_comments_and_the_order_of_keys_make_no_other_hash(folder: Path):
    write(folder, proj=ENTRY)
    before = read(str(folder))
    text = json.dumps({"mcpServers": {"proj": dict(reversed(ENTRY.items()))}}, indent=3)
    (folder / ".mcp.json").write_text(f"// why\n{text}")
    after = read(str(folder), before)
    assert after is not before
    assert after.hash == before.hash


@pytest.mark.parametrize(
    "change",
    [
        {"args": ["--slow"]},
        {"args": []},
        {"env": {"MODE": "y"}},
        {"cwd": "sub"},
        {"command": "other"},
        {"envFile": ".env"},
    ],
)
def test_anything_else_does(folder: Path, change: dict[str, object]):
    write(folder, proj=ENTRY, other=ENTRY)
    before = read(str(folder))
    write(folder, proj={**ENTRY, **change}, other=ENTRY)
    after = read(str(folder))
    assert after.offers["proj"].hash != before.offers["proj"].hash
    assert after.offers["other"].hash == before.offers["other"].hash
    assert after.hash != before.hash


def test_the_same_entry_under_another_name_is_another_one(folder: Path):
    write(folder, one=ENTRY, two=ENTRY)
    offers = read(str(folder)).offers
    assert offers["one"].hash != offers["two"].hash


def test_what_has_not_changed_is_not_parsed_again(folder: Path, monkeypatch: pytest.MonkeyPatch):
    write(folder, proj=ENTRY)
    before = read(str(folder))
    monkeypatch.setattr(files, "decode", None)
    assert read(str(folder), before) is before


def test_a_workspace_that_leads_elsewhere_since_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    other, link = folder.parent / "other", folder.parent / "link"
    other.mkdir(mode=0o755)
    for place in (folder, other):
        write(place, proj=ENTRY)
    monkeypatch.setattr(files, "home_of", lambda directory: "/one/repository")
    link.symlink_to(folder)
    before = read(str(link))
    link.unlink()
    link.symlink_to(other)
    assert read(str(link), before).directory == str(other)


def test_a_directory_that_became_a_worktree_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    write(folder, proj=ENTRY)
    before = read(str(folder))
    monkeypatch.setattr(files, "home_of", lambda directory: "/one/repository")
    assert read(str(folder), before).home == "/one/repository"


def test_the_same_entries_of_another_project_have_another_hash(folder: Path):
    other = folder.parent / "other"
    other.mkdir(mode=0o755)
    for place in (folder, other):
        write(place, proj=ENTRY)
    assert read(str(folder)).hash != read(str(other)).hash


def test_how_far_it_is_trusted_is_not_the_projects_to_say(folder: Path):
    policy = {"approval": "auto", "autoApprove": ["*"], "pin": "off", "rate_wait": 1, "trust": True}
    path = write(folder, proj={**ENTRY, **policy, "tools": {"deny": ["x"]}})
    whole = {"trust": {"approval": "auto"}, "daemon": {}, **json.loads(path.read_text())}
    path.write_text(json.dumps(whole))
    project = read(str(folder))
    assert project.offers["proj"].content == {**ENTRY, "tools": {"deny": ["x"]}}
    assert {problem.severity for problem in project.problems} == {"warning"}
    ignored = {problem.key for problem in project.problems}
    assert ignored == {"daemon", "trust", *(f"mcpServers.proj.{key}" for key in policy)}


def test_the_rest_of_a_clients_file_is_the_clients(folder: Path):
    path = write(folder, ".gemini/settings.json", proj=ENTRY)
    path.write_text(json.dumps({"theme": "dark", "trust": 1, **json.loads(path.read_text())}))
    project = read(str(folder))
    assert [*project.offers] == ["proj"]
    assert project.problems == ()


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777])
@pytest.mark.parametrize("what", ["project", "folder", "file"])
def test_what_others_can_write_is_refused(folder: Path, what: str, mode: int):
    path = write(folder, ".vscode/mcp.json", proj=ENTRY)
    {"project": folder, "folder": path.parent, "file": path}[what].chmod(mode)
    why = refusal(read(str(folder)))
    assert "others can write" in why
    assert "chmod go-w" in why


def test_a_directory_above_may_be_shared_if_nobody_can_rename_in_it(folder: Path):
    write(folder, proj=ENTRY)
    folder.parent.chmod(0o1777)
    assert [*read(str(folder)).offers] == ["proj"]
    folder.parent.chmod(0o777)
    assert "others can write" in refusal(read(str(folder)))


def test_a_group_of_nobody_else_is_not_others(folder: Path, monkeypatch: pytest.MonkeyPatch):
    write(folder, proj=ENTRY)
    folder.chmod(0o775)
    monkeypatch.setattr(files, "_is_own_group", lambda group: group == folder.stat().st_gid)
    assert [*read(str(folder)).offers] == ["proj"]
    monkeypatch.setattr(files, "_is_own_group", lambda group: False)
    assert "others can write" in refusal(read(str(folder)))


@pytest.mark.parametrize("group", [7, 8])
@pytest.mark.parametrize("primary", [7, 8])
@pytest.mark.parametrize("name", ["me", "staff"])
@pytest.mark.parametrize("members", [[], ["me"], ["me", "other"], ["other"]])
def test_a_group_is_ours_if_it_is_the_first_one_and_has_our_name_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch, group: int, primary: int, name: str, members: list[str]
):
    user = SimpleNamespace(pw_gid=primary, pw_name="me")
    monkeypatch.setattr(pwd, "getpwuid", lambda _: user)
    monkeypatch.setattr(grp, "getgrgid", lambda _: SimpleNamespace(gr_name=name, gr_mem=members))
    is_ours = group == primary and name == "me" and "other" not in members
    assert files._is_own_group(group) == is_ours


def test_a_group_without_an_entry_is_not_ours(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert not files._is_own_group(os.getgid())


@pytest.mark.parametrize(("owner", "is_refused"), [(4242, True), (4243, False), (0, False)])
@pytest.mark.parametrize("what", ["project", "folder", "above"])
def test_a_directory_of_somebody_else_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, what: str, owner: int, is_refused: bool
):
    path = write(folder, ".vscode/mcp.json", proj=ENTRY)
    place = {"project": folder, "folder": path.parent, "above": folder.parent}[what]
    stat = os.stat

    def owned(path: str) -> os.stat_result:
        found = [*stat(path)]
        found[4] = owner if path == str(place) else 4243
        return os.stat_result(found)

    monkeypatch.setattr(files.trust, "read", lambda path: Path(path).read_bytes())
    monkeypatch.setattr(files.os, "geteuid", lambda: 4243)
    monkeypatch.setattr(files.os, "stat", owned)
    project = read(str(folder))
    monkeypatch.undo()
    if is_refused and what != "above":
        assert f"{place} belongs to somebody else" in refusal(project)
    else:
        assert [*project.offers] == ["proj"]


@pytest.mark.parametrize("name", ["elsewhere.json", "shop-of-others/.mcp.json"])
def test_a_link_that_leaves_the_project_is_refused(folder: Path, name: str):
    outside = folder.parent / name
    outside.parent.mkdir(exist_ok=True, mode=0o755)
    write(outside.parent, outside.name, proj=ENTRY)
    (folder / ".mcp.json").symlink_to(outside)
    assert "a link that leaves the project" in refusal(read(str(folder)))


def test_a_link_within_the_project_is_followed(folder: Path):
    write(folder, "real.json", proj=ENTRY)
    (folder / ".mcp.json").symlink_to("real.json")
    assert [*read(str(folder)).offers] == ["proj"]


@pytest.mark.parametrize("shared", [".vscode", "real"])
def test_both_ends_of_a_link_are_where_others_cannot_write(folder: Path, shared: str):
    write(folder, "real/mcp.json", proj=ENTRY)
    (folder / ".vscode").mkdir(mode=0o755)
    (folder / ".vscode/mcp.json").symlink_to("../real/mcp.json")
    assert [*read(str(folder)).offers] == ["proj"]
    (folder / shared).chmod(0o777)
    assert f"others can write to {folder / shared}" in refusal(read(str(folder)))


def test_a_project_that_is_reached_through_a_link_is_the_real_one(folder: Path):
    write(folder, proj=ENTRY)
    link = folder.parent / "link"
    link.symlink_to(folder)
    project = read(str(link))
    assert project.directory == project.home == str(folder)
    assert project.workspace == str(link)
    assert project.hash == read(str(folder)).hash


def test_what_is_no_file_is_refused(folder: Path):
    os.mkfifo(folder / ".mcp.json", 0o600)
    assert "regular file" in refusal(read(str(folder)))


def test_a_file_is_bounded(folder: Path):
    path = write(folder, proj={**ENTRY, "x": "y" * MOST_BYTES})
    assert "128 KiB" in refusal(read(str(folder)))
    path.unlink()
    write(folder, **{f"s{number:03}": {"command": "x"} for number in range(MOST_SERVERS + 1)})
    project = read(str(folder))
    assert len(project.offers) == MOST_SERVERS
    (problem,) = project.problems
    assert problem.server == f"s{MOST_SERVERS:03}"
    assert "100 servers at most" in problem.message


@pytest.mark.parametrize(
    "text", ["[servers.x" + ".a" * 5000 + "]", "[servers.x]\nq = 0x" + "f" * 9999]
)
def test_what_could_not_be_written_is_a_problem(folder: Path, text: str):
    (folder / ".mcpd.toml").write_text(f"{text}\n")
    refusal(read(str(folder)))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "expected"),
        ("[]", "expected a table"),
        ('{"mcpServers": 1}', "expected a table of servers"),
        ('{"mcpServers": {"x": 1}}', "expected a table"),
        ('{"mcpServers": {"": {}}}', "expected a name"),
        ("\ufffd", "expected"),
    ],
)
def test_a_mistake_is_a_problem_and_nothing_more(folder: Path, text: str, why: str):
    (folder / ".mcp.json").write_text(text)
    assert why in refusal(read(str(folder)))


def test_bytes_that_are_no_text_are_a_problem(folder: Path):
    (folder / ".mcp.json").write_bytes(b'{"a": "\xff"}')
    assert "UTF-8" in refusal(read(str(folder)))


@pytest.mark.parametrize("directory", ["/a\0b", "/\ud800", "/" + "x" * 5000, "relative"])
def test_a_directory_that_cannot_be_is_no_project(directory: str):
    assert read(directory).is_empty
