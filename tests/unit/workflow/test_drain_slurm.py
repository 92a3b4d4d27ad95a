"""DRAIN with our reason, never over somebody else's, and never again over a person's hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from remediator.errors import GiveUp
from remediator.model.plan import Done, Hold, Outcome, Unknown, Yield
from remediator.workflow.attempt import attempt
from remediator.workflow.context import Context, Watched
from remediator.workflow.ownership import SYSTEM_PREFIXES, TERMINATING
from remediator.workflow.steps.drain_slurm import FORGET_S, DrainSlurm
from slurm_bridge.model import SlurmConfig
from tests.unit.workflow.bench import OURS, Bench

STEP = DrainSlurm()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def facts(bench: Bench, **changes: Any) -> dict[str, Any]:
    done = STEP.check(bench.see())
    assert isinstance(done, Done)
    return done.facts | changes


def test_an_idle_node_wants_its_drain(bench: Bench) -> None:
    assert STEP.check(bench.see()) is None
    STEP.act(bench.see())
    assert STEP.verify(bench.see()) == STEP.check(bench.see())
    assert isinstance(STEP.check(bench.see()), Done)
    assert [(write.target, write.detail) for write in bench.slurm.writes] == [("w-0", OURS)]


def test_each_worker_of_the_machine_is_drained_by_its_own_name() -> None:
    bench = Bench(slurm_nodes=("w-0", "w-2"))
    bench.drain("w-0")
    STEP.act(bench.see())
    assert [write.target for write in bench.slurm.writes if write.effect] == ["w-2"]
    assert isinstance(STEP.check(bench.see()), Done)


def test_a_machine_without_a_worker_needs_no_drain() -> None:
    done = STEP.check(Bench(slurm_nodes=()).see())
    assert isinstance(done, Done)
    assert "nothing to drain" in done.sentence


def test_an_accepted_drain_that_slurmctld_forgot_is_not_done(bench: Bench) -> None:
    known = bench.slurm.config(deadline=5.0)
    bench.clock.advance(60.0)
    bench.slurm.kill_ctld()
    assert isinstance(STEP.verify(knowing(bench.see(), known)), Unknown)


def test_an_accepted_drain_that_is_gone_from_the_same_slurmctld_was_lifted_by_a_person(bench: Bench) -> None:
    assert isinstance(STEP.verify(bench.see()), Yield)


def test_a_start_is_asked_for_before_the_nodes_that_it_is_about(bench: Bench) -> None:
    """Else a slurmctld that is killed in between, and has the DRAIN saved, seems to have forgotten it."""
    bench.drain("w-0")
    asked: list[str] = []
    bench.slurm.before = lambda op, _target: asked.append(op)
    for step in (STEP.check, STEP.act, STEP.verify):
        asked.clear()
        assert isinstance(step(bench.see()), Done)
        assert asked[-2:] == ["config", "node"]


def test_a_node_slurm_does_not_know_is_for_a_person() -> None:
    with pytest.raises(GiveUp, match="w-9"):
        STEP.check(Bench(slurm_nodes=("w-9",)).see())


@pytest.mark.parametrize("prefix", SYSTEM_PREFIXES)
def test_a_reason_of_the_system_is_replaced(bench: Bench, prefix: str) -> None:
    bench.drain("w-0", reason=f"{prefix}something")
    assert STEP.check(bench.see()) is None


@pytest.mark.parametrize(
    "reason",
    [
        "admin: swapping a cable",
        "remediator: i2 XID 64",
        "remediator: i11 XID 79",
        "x Not responding",
        "[node_problem] gpu_health_check: ECC [prolog]",
        "slurm-operator: [J] [NVSentinel] GPU fell off the bus",
    ],
)
def test_somebody_elses_drain_is_left_alone(bench: Bench, reason: str) -> None:
    bench.drain("w-0", reason=reason)
    held = attempt(STEP, bench.see(), may_act=True, probe=lambda _moment: None)
    assert isinstance(held, Hold)
    assert "somebody else's reason" in held.sentence
    assert bench.slurm.writes == []


def test_a_hold_names_the_tool_that_treats_the_node(bench: Bench) -> None:
    bench.drain("w-0", reason="[compute_maintenance] node replacement process")
    held = STEP.check(bench.see())
    assert isinstance(held, Hold)
    assert "(Soperator: it has the node replaced)" in held.sentence


def test_a_reason_without_a_drain_is_a_persons_too(bench: Bench) -> None:
    bench.drain("w-0", reason="admin: watch this one")
    bench.slurm.mark("w-0", flags=frozenset())
    assert isinstance(STEP.check(bench.see()), Hold)


def test_a_persons_drain_that_was_lifted_meanwhile_is_not_set_again_by_us(bench: Bench) -> None:
    bench.drain("w-0", reason="admin: swapping a cable")
    held = STEP.check(bench.see())
    assert isinstance(held, Hold)
    bench.slurm.resume("w-0", deadline=5.0)
    found = STEP.check(bench.see(facts=held.facts))
    assert isinstance(found, Yield)
    assert "admin: swapping a cable" in found.sentence


@pytest.mark.parametrize(
    ("reason", "stands"),
    [
        (f"{OURS}: Not responding", True),
        ("Kill task failed", True),
        (TERMINATING, True),
        ("slurm-operator: remediator: i1 XID 79", False),  # it drains what is cordoned once ours is lifted
        ("slurm-operator: Node (gpu-0) was cordoned", False),
        ("admin: mine now", False),
        ("remediator: i2 XID 64", False),
    ],
)
def test_a_drain_stands_under_the_systems_words_only(bench: Bench, reason: str, stands: bool) -> None:
    bench.drain("w-0")
    before = facts(bench)
    bench.slurm.drain("w-0", reason, deadline=5.0)
    found = STEP.check(bench.see(facts=before))
    assert isinstance(found, Done if stands else Yield)


def test_a_reason_another_incident_left_behind_is_replaced(bench: Bench) -> None:
    bench.drain("w-0", reason="remediator: i0 XID 79")
    bench.slurm.mark("w-0", flags=frozenset())
    assert STEP.check(bench.see()) is None


def test_the_intent_names_node_and_reason(bench: Bench) -> None:
    text = STEP.intention(bench.incident, None)
    assert "w-0" in text
    assert OURS in text


def test_a_drain_that_slurmctld_forgot_is_set_again(bench: Bench) -> None:
    bench.drain("w-0")
    before = facts(bench)
    bench.slurm.resume("w-0", deadline=5.0)
    bench.clock.advance(60.0)
    bench.slurm.kill_ctld()
    assert STEP.check(bench.see(facts=before)) is None


def test_a_drain_that_a_person_lifted_is_not(bench: Bench) -> None:
    bench.drain("w-0")
    before = facts(bench)
    bench.slurm.resume("w-0", deadline=5.0)
    bench.slurm.writes.clear()
    found = STEP.check(bench.see(facts=before))
    assert isinstance(found, Yield)
    assert (found.side, found.sentence) == ("slurm", "somebody resumed w-0")


@pytest.mark.parametrize("reason", ["", "slurm-operator: Pod (slurm/w-0) was uncordoned"])
def test_what_a_resume_would_have_ended_is_no_resume(bench: Bench, reason: str) -> None:
    """preStop sets DOWN and the operator lifts the DRAIN; a person's RESUME ends DOWN."""
    bench.drain("w-0")
    before = facts(bench)
    bench.slurm.stop_worker("w-0")
    bench.slurm.undrain("w-0", reason)
    assert STEP.check(bench.see(facts=before)) is None
    bench.slurm.undrain("w-0", "Not responding")
    assert isinstance(STEP.check(bench.see(facts=before)), Yield)


def knowing(seen: Context, config: SlurmConfig) -> Context:
    """The context, with settings that were read a while ago."""
    return replace(seen, watched=Watched(slurm=lambda: config))


def drained(context: Context) -> Outcome:
    """What comes of the act."""
    return STEP.act(context) or STEP.verify(context)


def test_a_start_of_slurmctld_that_is_known_is_not_asked_for(bench: Bench) -> None:
    known, asked = bench.slurm.config(deadline=5.0), []
    bench.slurm.before = lambda op, _: asked.append(op)
    done = drained(knowing(bench.see(), known))
    assert isinstance(done, Done)
    assert "config" not in asked
    assert done.facts["ctld_started"] == known.started_at


def test_a_drain_that_slurmctld_forgot_is_set_again_with_a_start_that_was_asked_for(bench: Bench) -> None:
    """Known was a slurmctld before the one that drained: once that counts as forgotten, never twice."""
    known = bench.slurm.config(deadline=5.0)
    bench.clock.advance(60.0)
    bench.slurm.kill_ctld()
    first = drained(knowing(bench.see(), known))
    assert isinstance(first, Done)
    bench.slurm.resume("w-0", deadline=5.0)
    again = bench.see(facts=first.facts)
    assert STEP.check(again) is None
    second = drained(knowing(again, known))
    assert isinstance(second, Done)
    assert second.facts["ctld_started"] == bench.slurm.config(deadline=5.0).started_at
    bench.slurm.resume("w-0", deadline=5.0)
    assert isinstance(STEP.check(bench.see(facts=second.facts)), Yield)


@pytest.mark.parametrize(
    ("later", "again"), [(0.0, True), (FORGET_S, True), (FORGET_S + 0.1, False), (3600.0, False)]
)
def test_without_slurmctlds_start_time_only_a_fresh_drain_counts_as_forgotten(
    bench: Bench, later: float, again: bool
) -> None:
    bench.drain("w-0")
    before = facts(bench, ctld_started=None)
    bench.slurm.resume("w-0", deadline=5.0)
    bench.clock.advance(later)
    found = STEP.check(bench.see(facts=before))
    assert (found is None) if again else isinstance(found, Yield)
