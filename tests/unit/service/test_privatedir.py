"""Directories that nobody but us can write in."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from mcpd.errors import PathRefused
from mcpd.service import privatedir
from mcpd.service.privatedir import ensure_private

OURS = {"mcpd.sock", "mcpd.sock.lock", "mcpd.sock.start"}


@pytest.fixture
def open_umask():
    """What a careless session gives its children."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def make(path, bits: int, *names: str) -> str:
    path.mkdir()
    for name in names:
        (path / name).touch()
    path.chmod(bits)
    return str(path)


def give_away(path, monkeypatch) -> int:
    """Make ``path`` a stranger's, and return the stranger's uid."""
    us = os.geteuid()
    if us == 0:
        os.chown(path, 4242, -1)
        return 4242
    monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    return us


def test_a_missing_directory_is_made_private_at_every_instant(tmp_path, monkeypatch, open_umask):
    """
    B118: a mode that is mended afterwards leaves a window.
    """
    made = []
    mkdir = os.mkdir

    def watched(path, *args):
        mkdir(path, *args)
        made.append((path, mode(path)))

    monkeypatch.setattr(os, "mkdir", watched)
    ensure_private(str(tmp_path / "run" / "mcpd"), own=False)
    assert made == [(str(tmp_path / "run"), 0o700), (str(tmp_path / "run" / "mcpd"), 0o700)]


@pytest.mark.parametrize("bits", [0o755, 0o777, 0o1777, 0o500])
def test_the_default_directory_is_tightened(tmp_path, bits):
    directory = make(tmp_path / "mcpd", bits, "something")
    ensure_private(directory, own=True)
    assert mode(directory) == 0o700


@pytest.mark.parametrize("names", [[], ["mcpd.sock"], sorted(OURS)])
@pytest.mark.parametrize("bits", [0o755, 0o777])
def test_a_directory_with_our_files_alone_is_tightened(tmp_path, bits, names):
    directory = make(tmp_path / "run", bits, *names)
    ensure_private(directory, own=False, ours=OURS)
    assert mode(directory) == 0o700


@pytest.mark.parametrize("bits", [0o700, 0o755, 0o750, 0o1777])
def test_a_directory_with_other_things_is_left_as_it_is(tmp_path, bits):
    directory = make(tmp_path / "run", bits, "mcpd.sock", "other")
    ensure_private(directory, own=False, ours=OURS)
    assert mode(directory) == bits


@pytest.mark.parametrize("bits", [0o777, 0o770, 0o702])
def test_a_directory_where_others_can_replace_our_files_is_refused(tmp_path, bits):
    directory = make(tmp_path / "run", bits, "other")
    with pytest.raises(PathRefused, match=f"others can write in .*mode {bits:04o}") as refused:
        ensure_private(directory, own=False, ours=OURS)
    assert refused.value.hint.startswith(f"chmod go-w {directory}, or ")
    assert mode(directory) == bits


def test_a_refusal_names_the_way_to_another_place(tmp_path):
    """
    Of the state another --socket changes nothing.
    """
    opened, file = make(tmp_path / "state", 0o777, "other"), tmp_path / "file"
    file.touch()
    for directory in (opened, str(file), str(file / "below")):
        with pytest.raises(PathRefused) as refused:
            ensure_private(directory, own=False, elsewhere="MCPD_STATE_DIR")
        assert refused.value.hint.endswith("choose another place: MCPD_STATE_DIR")
        assert "socket" not in refused.value.message


def test_an_empty_sticky_directory_is_nobodys_to_tighten(tmp_path):
    """
    /tmp of a fresh container belongs to root and is empty.
    """
    directory = make(tmp_path / "tmp", 0o1777)
    ensure_private(directory, own=False, ours=OURS)
    assert mode(directory) == 0o1777


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("bits", [0o700, 0o1777])
def test_a_strangers_directory_is_refused(tmp_path, monkeypatch, own, bits):
    """
    B118: who makes /tmp/mcpd-UID first must not become the daemon's landlord.
    """
    directory = make(tmp_path / "mcpd", bits)
    uid = give_away(directory, monkeypatch)
    with pytest.raises(PathRefused, match=f"not yours: {directory} belongs to {uid}"):
        ensure_private(directory, own=own, ours=OURS)
    assert mode(directory) == bits


def test_nothing_is_made_in_a_strangers_directory(tmp_path, monkeypatch):
    """
    B118: root with a user's XDG_RUNTIME_DIR leaves no file of root's there.
    """
    runtime = make(tmp_path / "1000", 0o700)
    uid = give_away(runtime, monkeypatch)
    with pytest.raises(PathRefused, match=f"not yours: {runtime} belongs to {uid}"):
        ensure_private(f"{runtime}/mcpd", own=True)
    assert os.listdir(runtime) == []


@pytest.mark.parametrize("own", [True, False])
def test_a_link_is_refused_and_what_it_leads_to_left_alone(tmp_path, own):
    target = make(tmp_path / "target", 0o755)
    (tmp_path / "mcpd").symlink_to(target)
    with pytest.raises(PathRefused, match="is a link"):
        ensure_private(str(tmp_path / "mcpd"), own=own, ours=OURS)
    assert mode(target) == 0o755


def test_a_dangling_link_is_refused_and_not_created_through(tmp_path):
    (tmp_path / "mcpd").symlink_to(tmp_path / "target")
    with pytest.raises(PathRefused, match="is a link"):
        ensure_private(str(tmp_path / "mcpd"), own=True)
    assert not (tmp_path / "target").exists()


def test_links_above_the_directory_are_the_systems_business(tmp_path):
    """
    /var/run and macOS's /tmp are links.
    """
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    ensure_private(str(tmp_path / "link" / "mcpd"), own=True)
    assert mode(tmp_path / "real" / "mcpd") == 0o700


def test_a_file_in_its_place_is_refused(tmp_path):
    (tmp_path / "mcpd").write_text("mine")
    with pytest.raises(PathRefused, match=r"cannot use .*mcpd: Not a directory"):
        ensure_private(str(tmp_path / "mcpd"), own=True)
    assert (tmp_path / "mcpd").read_text() == "mine"


def test_a_full_disk_is_named_with_the_path(tmp_path, monkeypatch):
    """
    B121.
    """

    def full(path, *args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    monkeypatch.setattr(os, "mkdir", full)
    with pytest.raises(PathRefused, match=r"cannot make .*/mcpd: No space left") as refused:
        ensure_private(str(tmp_path / "mcpd"), own=True)
    assert refused.value.details["errno"] == errno.ENOSPC


def test_two_who_make_it_at_once_both_have_it(tmp_path, monkeypatch):
    mkdir = os.mkdir

    def overtaken(path, *args):
        mkdir(path, *args)
        mkdir(path, *args)

    monkeypatch.setattr(os, "mkdir", overtaken)
    ensure_private(str(tmp_path / "mcpd"), own=True)


def test_the_sockets_own_files_are_known_by_the_sockets_name(tmp_path):
    directory = make(tmp_path / "run", 0o755, "a.sock", "a.sock.lock", "a.sock.start")
    privatedir.prepare(f"{directory}/b.sock", {})
    assert mode(directory) == 0o755
    privatedir.prepare(f"{directory}/a.sock", {})
    assert mode(directory) == 0o700


def test_the_default_directory_is_known_by_its_name(tmp_path):
    directory = make(tmp_path / "mcpd", 0o777, "other")
    privatedir.prepare(f"{directory}/mcpd.sock", {"XDG_RUNTIME_DIR": str(tmp_path)})
    assert mode(directory) == 0o700
