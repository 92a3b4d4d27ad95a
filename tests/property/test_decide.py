"""Whatever comes in: unknown never acts, and every decision explains itself."""

from __future__ import annotations

import string
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from remediator.model.incident import Tier
from remediator.model.machine import TIERS, Machine, Stage, Stages
from remediator.model.signal import Signal
from remediator.model.timing import Timing
from remediator.policy.decide import Situation, decide, plan_at, room
from remediator.policy.rules import load

RULES = load()
ACTING = sorted({code for rule in RULES.rules.values() for code in rule.codes})

words = st.text(string.ascii_lowercase + string.digits + "-.", max_size=12)
values = st.none() | st.booleans() | st.integers(-5, 5) | words
codes = st.none() | st.sampled_from(ACTING) | st.integers(-10, 1000)
details = st.dictionaries(
    st.sampled_from(["extra", "raw", "x"]),
    st.none() | st.dictionaries(st.sampled_from(["recovery_to", "recovery_from", "x"]), values, max_size=3),
    max_size=3,
)
signals = st.builds(
    Signal,
    source=st.sampled_from(["agent", "webhook", "backfill", "condition", "slurm"]),
    node=words,
    boot_id=words,
    kind=st.sampled_from(["xid", "fallen_off_bus", "temperature", ""]) | words,
    code=codes,
    pci=st.none() | words,
    seen_at=st.floats(allow_nan=False),
    received_at=st.floats(allow_nan=False),
    dedupe=words,
    detail=details,
)


FREE = Situation(last_closed=None)


def full(_tier: Tier) -> str | None:
    return "the budget is used up"


def full_for_suspects(tier: Tier) -> str | None:
    return None if tier == "T0" else "the budget is used up"


situations = st.builds(
    Situation,
    last_closed=st.none() | st.sampled_from(["i1", "i2"]),
    refuse=st.sampled_from([room, full, full_for_suspects]),
)
stages = st.sampled_from(["observe", "drain-only", "move-jobs", "full"])
machines: Any = st.builds(
    Machine,
    name=words,
    uid=words,
    provider_id=words,
    boot_id=words,
    pool=st.none() | st.just("training"),
    stage=stages | st.builds(Stages, T0=stages, T1=stages, T2=stages, T3=stages),
    pool_size=st.integers(0, 10_000),
    fenced_by=st.none() | st.sampled_from(["i1", "i2", "other"]),
)


@given(signal=signals, situation=situations)
def test_an_unknown_node_never_acts(signal: Signal, situation: Situation) -> None:
    assert decide(signal, None, RULES, situation).action == "record"


@given(signal=signals, machine=machines, situation=situations)
def test_a_node_in_no_pool_never_acts(signal: Signal, machine: Machine, situation: Situation) -> None:
    poolless = machine.model_copy(update={"pool": None})
    assert decide(signal, poolless, RULES, situation).action == "record"


@given(signal=signals, machine=st.none() | machines, situation=situations)
def test_every_decision_has_a_sentence_and_quotes_its_policy(
    signal: Signal, machine: Machine | None, situation: Situation
) -> None:
    decision = decide(signal, machine, RULES, situation)
    assert decision.sentence.strip()
    assert decision.policy == RULES.digest


@given(signal=signals, machine=machines, situation=situations)
def test_to_act_takes_a_rule_a_stage_and_room(signal: Signal, machine: Machine, situation: Situation) -> None:
    decision = decide(signal, machine, RULES, situation)
    if decision.action != "act":
        return
    rule = RULES.rules[decision.rule]
    assert signal.kind in rule.kinds
    assert signal.code in (rule.codes or {None})
    assert rule.acts
    stage = machine.stage_for(rule.tier)
    assert stage != "observe"
    assert decision.plan == plan_at(rule.plan, stage)
    assert situation.refuse(rule.tier) is None
    assert machine.fenced_by is None or machine.fenced_by != situation.last_closed
    assert (decision.tier, decision.cause) == (rule.tier, rule.cause)
    assert machine.name in decision.sentence


@given(signal=signals, machine=machines, situation=situations)
def test_a_fatal_code_of_a_healthy_pool_acts(signal: Signal, machine: Machine, situation: Situation) -> None:
    """So that the properties above are not true of a policy that does nothing."""
    fatal = signal.model_copy(update={"kind": "xid", "code": 79})
    ready = machine.model_copy(update={"pool": "training", "stage": "full", "fenced_by": None})
    assert decide(fatal, ready, RULES, Situation(situation.last_closed)).action == "act"


@given(signal=signals, machine=machines, last_closed=st.none() | st.sampled_from(["i1", "i2"]))
def test_a_used_up_budget_never_allows_more(
    signal: Signal, machine: Machine, last_closed: str | None
) -> None:
    free, used = Situation(last_closed), Situation(last_closed, full)
    before, after = (decide(signal, machine, RULES, situation) for situation in (free, used))
    if before.action == "act":
        held = {"action": "hold", "reason": "budget", "sentence": f"{before.cause}: the budget is used up"}
        assert after == before.model_copy(update=held)
    else:
        assert after == before


@given(signal=signals, machine=machines, stage=stages)
def test_one_word_means_every_tier(signal: Signal, machine: Machine, stage: Stage) -> None:
    word = Machine.model_validate(machine.model_dump() | {"stage": stage})
    by_tier = Machine.model_validate(machine.model_dump() | {"stage": dict.fromkeys(TIERS, stage)})
    assert decide(signal, word, RULES, FREE) == decide(signal, by_tier, RULES, FREE)


@given(signal=signals, machine=machines, other=stages)
def test_the_stage_of_another_tier_changes_nothing(signal: Signal, machine: Machine, other: Stage) -> None:
    before = decide(signal, machine, RULES, FREE)
    changed = {tier: machine.stage_for(tier) if tier == before.tier else other for tier in TIERS}
    after = decide(signal, Machine.model_validate(machine.model_dump() | {"stage": changed}), RULES, FREE)
    assert before.action == "record" or after == before


@given(
    signal=signals,
    machine=machines,
    situation=situations,
    pool=st.none() | st.sampled_from(get_args(Timing)),
)
def test_final_evidence_never_waits_and_a_pool_decides_only_about_evidence_that_may(
    signal: Signal, machine: Machine, situation: Situation, pool: Timing | None
) -> None:
    decision = decide(signal, machine.model_copy(update={"timing": pool}), RULES, situation)
    said = RULES.rules[decision.rule].timing if decision.rule in RULES.rules else "now"
    if decision.tier == "T0" or said == "now":
        assert decision.timing == "now"
    elif decision.action != "record":
        assert decision.timing == (pool or said)
