"""A ledger that cannot be written is reported once and tried again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcpd.daemon.upkeep import ledger_keeper
from mcpd.daemon.upkeep.ledger_keeper import LedgerKeeper
from mcpd.errors import PathRefused
from tests.support.waiting import wait_until_async


async def test_trouble_is_reported_once_and_writing_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ledger_keeper, "RETRY_S", 0.01)
    told: list[tuple[str, OSError]] = []
    keeper = LedgerKeeper(str(tmp_path), "me", on_trouble=lambda *what: told.append(what))
    path = keeper.open()
    writes = 0

    def fail(*_args: object, **_more: object) -> None:
        nonlocal writes
        writes += 1
        if writes < 4:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("mcpd.supervise.cleanup.ledger.privatefiles.replace_file", fail)
    keeper.save()
    assert keeper.trouble is not None
    await wait_until_async(lambda: keeper.trouble is None)
    assert writes == 4
    assert [where for where, _ in told] == [path]
    keeper.close()


async def test_without_a_directory_for_it_there_is_no_daemon(tmp_path: Path):
    (tmp_path / "ledger").write_text("a file")
    keeper = LedgerKeeper(str(tmp_path), "me", on_trouble=lambda *_: None)
    with pytest.raises(PathRefused, match="cannot keep a record of processes"):
        keeper.open()
    assert os.listdir(tmp_path) == ["ledger"]
