"""What servers have had sampled today, on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from mcpd.core.interface.commands import KeepBudget
from mcpd.daemon.upkeep import budget_keeper
from mcpd.daemon.upkeep.budget_keeper import BudgetKeeper

Days = list[Mapping[str, int] | None]


def keeper(path: Path, days: Days, troubles: list[OSError] | None = None) -> BudgetKeeper:
    troubles = [] if troubles is None else troubles
    return BudgetKeeper(str(path), days.append, troubles.append)


async def test_a_restart_is_no_refill(tmp_path: Path) -> None:
    path, days = tmp_path / "budget.json", Days()
    first = keeper(path, days)
    first.start()
    assert days == []
    first.keep(KeepBudget("a", 400))
    await first.close()
    assert path.stat().st_mode & 0o777 == 0o600
    second = keeper(path, days)
    second.start()
    await second.close()
    assert days == [{"a": 400}]


async def test_another_day_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, days = tmp_path / "budget.json", Days()
    path.write_text(json.dumps({"day": "2000-01-01", "spent": {"a": 400}}))
    path.chmod(0o600)
    kept = keeper(path, days)
    kept.start()
    assert days == []
    monkeypatch.setattr(budget_keeper, "_today", lambda: "2100-01-01")
    kept.keep(KeepBudget("a", 5))
    await kept.close()
    assert days == [{}] and json.loads(path.read_text()) == {"day": "2100-01-01", "spent": {"a": 5}}


NESTED = '{"x":' + "[" * 100_000


@pytest.mark.parametrize(
    "content", [NESTED, "nonsense", "{}", '{"day":"2000-01-01","spent":{"a":"x"}}']
)
async def test_what_cannot_be_read_counts_as_used_up(tmp_path: Path, content: str) -> None:
    path, days = tmp_path / "budget.json", Days()
    path.write_text(content)
    path.chmod(0o600)
    kept = keeper(path, days)
    kept.start()
    await kept.close()
    assert days == [None]


async def test_a_file_that_others_can_write_counts_as_used_up(tmp_path: Path) -> None:
    path, days = tmp_path / "budget.json", Days()
    path.write_text('{"day":"2000-01-01","spent":{}}')
    path.chmod(0o666)
    kept = keeper(path, days)
    kept.start()
    await kept.close()
    assert days == [None]


async def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    troubles: list[OSError] = []
    kept = keeper(tmp_path / "gone" / "budget.json", Days(), troubles)
    kept.start()
    kept.keep(KeepBudget("a", 400))
    await kept.close()
    assert len(troubles) == 1
