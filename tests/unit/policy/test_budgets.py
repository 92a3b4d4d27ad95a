"""A budget never lets more through than its limits, says why it refuses, and frees when it says it does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.clock import rfc3339
from remediator.model.incident import Tier
from remediator.policy.budgets import HOUR_S, Budget, Debit, drain_budget, refusal
from remediator.settings import Budgets, Limit

NOW = 1_800_000_000.0
POOL = 200
debits: Any = st.lists(
    st.builds(
        Debit,
        incident=st.sampled_from(["i1", "i2", "i3"]),
        node=st.sampled_from(["gpu-0", "gpu-1"]),
        at=st.floats(NOW - 2 * HOUR_S, NOW),
        in_use=st.booleans(),
    ),
    max_size=15,
)
limits = st.builds(
    Limit, at_least=st.integers(1, 5), percent=st.floats(0, 3), per_hour=st.none() | st.integers(1, 8)
)


def ask(limit: Limit, known: list[Debit], now: float = NOW) -> str | None:
    return refusal("release", "gpu", Budgets(release=limit), POOL, known, now)


def used(known: list[Debit]) -> int:
    return sum(debit.in_use for debit in known)


@given(limit=limits, known=debits)
def test_there_is_room_exactly_below_both_limits(limit: Limit, known: list[Debit]) -> None:
    recent = sum(debit.at > NOW - HOUR_S for debit in known)
    fits = used(known) < limit.of(POOL) and (limit.per_hour is None or recent < limit.per_hour)
    assert (ask(limit, known) is None) == fits


@given(limit=limits, known=debits)
def test_a_refusal_names_budget_pool_limit_and_when_it_frees(limit: Limit, known: list[Debit]) -> None:
    sentence = ask(limit, known)
    if sentence is None:
        return
    assert "budget release of pool gpu" in sentence
    assert "goes on" in sentence
    if used(known) >= limit.of(POOL):
        assert f"{limit.of(POOL)} at once" in sentence
        oldest = min((debit for debit in known if debit.in_use), key=lambda debit: debit.at)
        assert oldest.incident in sentence
    else:
        assert f"{limit.per_hour} an hour" in sentence


@given(limit=limits, known=debits)
def test_an_hourly_limit_frees_when_it_says_so_and_not_before(limit: Limit, known: list[Debit]) -> None:
    over = [Debit(debit.incident, debit.node, debit.at, in_use=False) for debit in known]
    sentence = ask(limit, over)
    if sentence is None:
        return
    at = sorted(debit.at for debit in over)[-(limit.per_hour or 0)] + HOUR_S
    assert rfc3339(at) in sentence
    assert ask(limit, over, at - 0.01) is not None
    assert ask(limit, over, at + 0.01) is None


@given(limit=limits, known=debits, extra=debits)
def test_more_debits_never_make_room(limit: Limit, known: list[Debit], extra: list[Debit]) -> None:
    if ask(limit, known) is not None:
        assert ask(limit, known + extra) is not None


@pytest.mark.parametrize(
    ("tier", "budget"), [("T0", "drain_t0"), ("T1", "drain"), ("T2", "drain"), ("T3", "drain")]
)
def test_final_evidence_drains_on_a_budget_of_its_own(tier: Tier, budget: Budget) -> None:
    assert drain_budget(tier) == budget


def test_every_budget_lets_at_least_one_node_through_and_known_bad_ones_two() -> None:
    empty = Budgets()
    for budget in ("drain", "release", "evict", "replace"):
        assert getattr(empty, budget).of(0) == 1
        assert getattr(empty, budget).of(1000) == 20
    assert (empty.drain_t0.of(0), empty.drain_t0.of(1000)) == (2, 100)
