"""How much servers may have clients sample."""

from __future__ import annotations

import pytest

from mcpd.core.facts import BudgetUsedUp
from mcpd.core.interface.commands import KeepBudget, Tell
from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Entry, SamplingRules, Settings
from mcpd.core.policy.rates import Rate
from mcpd.core.questions.sampling_budgets import SamplingBudgets

WANTS_100 = b'{"maxTokens":100}'


class Day:
    def __init__(self, **rules: object) -> None:
        self.ctx = Context(Settings(version="1"), lambda name, known: [])
        self.budgets = SamplingBudgets(self.ctx)
        self.entry = Entry(name="a", launch="a-1", sampling=SamplingRules(**rules))  # type: ignore[arg-type]

    def ask(self, params: bytes = WANTS_100) -> int | str:
        return self.budgets.reserve(self.entry, params)

    def told(self) -> list[BudgetUsedUp]:
        found = [c.fact for c in self.ctx.commands if isinstance(c, Tell)]
        return [fact for fact in found if isinstance(fact, BudgetUsedUp)]


def test_without_limits_nothing_is_counted() -> None:
    day = Day()
    assert day.ask() == 0 and not day.ctx.commands


def test_it_can_be_off() -> None:
    assert "sampling = false" in str(Day(is_on=False).ask())


def test_one_request_may_want_so_much() -> None:
    day = Day(most_tokens=50)
    assert "sampling_max_tokens" in str(day.ask()) and day.ask(b'{"maxTokens":50}') == 50


@pytest.mark.parametrize("wanted", ["51", "50.5", "5.1e1", "1e9", "99999999999", "1e999", '"51"'])
def test_what_it_wants_counts_however_it_is_written(wanted: str) -> None:
    """
    A budget that one spelling goes around is none.
    """
    params = b'{"maxTokens":%b}' % wanted.encode()
    assert "sampling_max_tokens" in str(Day(most_tokens=50).ask(params))
    assert {Day(most_tokens=50).ask(b'{"maxTokens":%b}' % each) for each in (b"-1", b'"NaN"')} == {
        0
    }


def test_a_day_has_so_many_tokens_and_they_are_estimated() -> None:
    day = Day(tokens_a_day=1000)
    assert day.ask() == 100
    day.budgets.settle(day.entry, 100, question_bytes=3000, answer_bytes=401)
    assert day.ctx.commands[-1] == KeepBudget("a", 851)
    assert day.ask() == 100
    assert "sampling_tokens" in str(day.ask()) and "sampling_tokens" in str(day.ask())
    assert len(day.told()) == 1


def test_another_day_has_all_of_them_again() -> None:
    day = Day(tokens_a_day=100)
    assert day.ask() == 100
    day.budgets.day_began({})
    assert day.ask() == 100


def test_what_was_spent_before_counts_and_so_does_what_is_unknown() -> None:
    day = Day(tokens_a_day=1000)
    day.budgets.day_began({"a": 950})
    assert isinstance(day.ask(), str)
    day.budgets.day_began(None)
    assert "midnight" in str(day.ask(b"{}"))


def test_requests_have_a_rate() -> None:
    day = Day(rate=Rate(1, 60.0))
    assert [day.ask() for _ in range(10)] == [100] * 10
    assert "sampling_rate" in str(day.ask())
