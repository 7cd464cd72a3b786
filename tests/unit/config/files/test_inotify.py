"""Events of the kernel."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd.config.files.inotify import CONTENT, NAMES, Inotify

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")


@pytest.fixture
def inotify() -> Iterator[Inotify]:
    made = Inotify()
    yield made
    made.close()


def test_nothing_happens_by_itself(inotify: Inotify, tmp_path: Path) -> None:
    inotify.add(str(tmp_path), NAMES, frozenset({"a"}))
    assert not inotify.read()


def test_only_names_that_matter_do(inotify: Inotify, tmp_path: Path) -> None:
    inotify.add(str(tmp_path), NAMES, frozenset({"a"}))
    (tmp_path / "b").touch()
    assert not inotify.read()
    (tmp_path / "a").touch()
    assert inotify.read()
    assert not inotify.read()


def test_a_file_that_goes_makes_its_watch_stale(inotify: Inotify, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    inotify.add(str(tmp_path / "a"), CONTENT, frozenset())
    (tmp_path / "a").write_text("x")
    assert inotify.read()
    assert not inotify.is_stale
    (tmp_path / "a").unlink()
    assert inotify.read()
    assert inotify.is_stale


def test_what_is_not_there_is_passed_over(inotify: Inotify, tmp_path: Path) -> None:
    inotify.add(str(tmp_path / "nowhere"), NAMES, frozenset())
    assert not inotify.read()


def test_children_do_not_inherit_the_descriptor(inotify: Inotify) -> None:
    assert not os.get_inheritable(inotify.fd)
