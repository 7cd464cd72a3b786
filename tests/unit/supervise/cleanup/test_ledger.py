from __future__ import annotations

import json
import os
from pathlib import Path

from mcpd.supervise.cleanup.ledger import Ledger


def test_a_ledger_is_private_and_whole_at_every_moment(tmp_path: Path):
    old = os.umask(0)
    try:
        ledger = Ledger(str(tmp_path), "d")
    finally:
        os.umask(old)
    assert (tmp_path / "ledger").stat().st_mode & 0o777 == 0o700
    modes = {each.stat().st_mode & 0o777 for each in (tmp_path / "ledger").iterdir()}
    assert modes == {0o600}
    ledger.close()
    assert os.listdir(tmp_path / "ledger") == []


def test_a_ledger_that_cannot_be_written_is_no_reason_not_to_run(tmp_path: Path):
    """B121: it is said, and the next change writes everything again."""
    ledger = Ledger(str(tmp_path), "d")
    (tmp_path / "ledger").rename(tmp_path / "kept")
    (tmp_path / "ledger").write_text("in the way")
    ledger.save()
    assert isinstance(ledger.trouble, OSError)
    (tmp_path / "ledger").unlink()
    ledger.save()
    assert ledger.trouble is None
    assert json.loads((tmp_path / "ledger" / "d.json").read_text())["processes"] == []
    ledger.close()
