"""How much servers may have clients sample: at all, how often, and how many tokens a day."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from mcpd.core.facts import BudgetUsedUp
from mcpd.core.interface.commands import KeepBudget
from mcpd.core.interface.context import Context
from mcpd.core.interface.entries import Entry, SamplingRules
from mcpd.core.policy.rates import Meter
from mcpd.core.wire import envelope

BYTES_PER_TOKEN: Final = 4
"""An estimate: a byte counts as a quarter of a token, whatever the model."""

_MOST_TOKENS: Final = 1e9  # more are as many


class SamplingBudgets:
    """Counts what each server has had sampled today, in tokens."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._spent: dict[str, int] = {}
        self._is_unknown = False
        """Whether what was spent today could not be read; it counts as everything."""
        self._meters: dict[str, Meter] = {}
        self._told: set[str] = set()
        """Servers whose budget of today is used up, which was told."""

    def day_began(self, spent: Mapping[str, int] | None) -> None:
        """Take what was spent on the day that it is now (UTC); ``None`` where that is unknown."""
        self._is_unknown = spent is None
        self._spent = dict(spent or {})
        self._told.clear()

    def reserve(self, entry: Entry, params: Raw | bytes | None) -> int | str:
        """Return the tokens that are reserved for a request, or why it is refused."""
        rules = entry.sampling
        if not rules.is_limited:
            return 0
        if not rules.is_on:
            return f"{entry.name} may not sample (sampling = false)"
        wanted = _most_tokens(params)
        if rules.most_tokens and wanted > rules.most_tokens:
            most = rules.most_tokens
            return f"{wanted} tokens are more than {most} (limit sampling_max_tokens)"
        if rules.rate is not None:
            meter = self._meters.setdefault(entry.name, Meter(rules.rate))
            meter.rate = rules.rate
            wait = meter.wait(self._ctx.now)
            if wait > 0:
                return (
                    f"{entry.name} samples too often (limit sampling_rate): again in {wait:.0f} s"
                )
        if rules.tokens_a_day and (why := self._over_the_day(entry, rules, wanted)) is not None:
            return why
        if rules.rate is not None:
            self._meters[entry.name].take(self._ctx.now)
        if rules.tokens_a_day:
            self._spend(entry.name, wanted)
        return wanted

    def settle(self, entry: Entry, reserved: int, question_bytes: int, answer_bytes: int) -> None:
        """Replace what was reserved by the estimate of a question and its answer."""
        if entry.sampling.tokens_a_day:
            used = -(-(question_bytes + answer_bytes) // BYTES_PER_TOKEN)
            self._spend(entry.name, used - reserved)

    def _over_the_day(self, entry: Entry, rules: SamplingRules, wanted: int) -> str | None:
        spent = self._spent.get(entry.name, 0)
        if not self._is_unknown and spent + wanted <= rules.tokens_a_day:
            return None
        if entry.name not in self._told:
            self._told.add(entry.name)
            self._ctx.tell(BudgetUsedUp(entry.name, "sampling_tokens", rules.tokens_a_day))
        if self._is_unknown:
            return "what was sampled today is unknown (budget.json): again after midnight UTC"
        spent_of = f"{spent} of {rules.tokens_a_day} tokens of today are spent"
        return f"{spent_of} (limit sampling_tokens): again after midnight UTC"

    def _spend(self, server: str, tokens: int) -> None:
        self._spent[server] = max(0, self._spent.get(server, 0) + tokens)
        self._ctx.emit(KeepBudget(server, self._spent[server]))


def _most_tokens(params: Raw | bytes | None) -> int:
    """Return ``maxTokens`` of a sampling request, 0 where it is no number.

    It counts however it is written: clients read ``1e6`` and ``"1000000"`` as a million, too.
    """
    members = None if params is None else envelope.object_of(params)
    try:
        wanted = float(bytes((members or {}).get("maxTokens", b"")).strip(b'"'))
    except ValueError:
        return 0
    return math.ceil(min(max(0.0, wanted), _MOST_TOKENS))  # 0 for NaN, which is no JSON
