"""Files for service managers are known again, and whether somebody edited them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpctl.services.files import File, is_untouched, signed
from mcpd.errors import PathRefused

LINES = st.lists(st.text(st.characters(categories=["L", "N", "P", "Zs"]))).map(
    lambda lines: "".join(line + "\n" for line in lines)
)


@given(LINES, st.integers(0, 3), st.sampled_from(["# {}", "<!-- {} -->"]))
def test_what_was_signed_is_untouched_until_it_is_edited(text: str, after: int, line: str):
    done = signed(text, line=line, after=after)
    assert is_untouched(done)
    assert not is_untouched(done + "more\n")
    assert not is_untouched(text)


def test_a_file_is_absent_current_outdated_edited_or_foreign(tmp_path: Path):
    file = File(str(tmp_path / "new" / "x"), signed("one\n"))
    assert file.state() == "absent"
    file.write()
    assert file.state() == "current"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    newer = file._replace(text=signed("two\n"))
    assert newer.state() == "outdated"
    newer.write()
    assert (tmp_path / "new" / "x").read_text() == newer.text
    (tmp_path / "new" / "x").write_text(file.text + "edited\n")
    assert newer.state() == "edited"
    (tmp_path / "new" / "x").write_text("mine\n")
    assert newer.state() == "foreign"
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["x"]


def test_what_is_no_file_is_left_alone(tmp_path: Path):
    (tmp_path / "link").symlink_to("x")
    (tmp_path / "folder").mkdir()
    for name in ("link", "folder"):
        with pytest.raises(PathRefused):
            File(str(tmp_path / name), "x").state()
