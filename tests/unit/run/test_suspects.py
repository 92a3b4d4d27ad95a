"""Evidence overtakes a suspicion at any moment of it, whatever the worker under way comes back with."""

from __future__ import annotations

from pathlib import Path

import pytest

from remediator.model.incident import VALIDATE, Incident
from remediator.model.plan import Done, Outcome, Wait
from remediator.policy.decide import STRIKES
from remediator.store import incidents
from remediator.workflow.calls import Answer, Call
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal
from remediator.workflow.plans import PLANS
from tests.unit.run.deciding import Deciding

PASSED = "acceptance test passed: 8 of 8 GPUs"


class Suspecting(Deciding):
    """gpu-0 is suspect, and its steps have come as far as the test wants."""

    def suspect(self) -> Incident:
        """The incident, with its steps on the books."""
        machine = self.machines["gpu-0"]
        found = Incident(
            id="s1", key=machine.key, node="gpu-0", node_uid=machine.uid, boot_id=machine.boot_id,
            slurm_nodes=machine.slurm_nodes, pool="training", tier="T3", rule=STRIKES, plan=VALIDATE,
            cause="suspect: different jobs crashed on it: 1, 2", fault_at=self.clock.now(),
            opened_at=self.clock.now(),
        )  # fmt: skip
        with self.store.write() as connection:
            incidents.insert(connection, found)
            Engine(Journal("me", 1), "test").start(connection, found, self.clock.now())
        return found

    def come_to(self, name: str) -> Call:
        """Answer Done until this step is with a worker; its call."""
        hand = list(self.turn().calls)
        while hand[0].row.name != name:
            call = hand.pop(0)
            hand += [call.then] if call.then else []
            self.clock.advance(1.0)
            hand += self.turn([Answer(call, Done("done", {"seen_at": 1.0, "ctld_started": 1}))]).calls
        return hand[0]

    def named(self) -> dict[str, str]:
        """State of each step."""
        return {row.name: row.state for row in self.steps("s1")}


@pytest.fixture
def world(tmp_path: Path) -> Suspecting:
    found = Suspecting(tmp_path)
    found.suspect()
    return found


LATE: dict[str, Outcome] = {"idle by now": Done("idle"), "still busy": Wait("busy", after=5.0)}


@pytest.mark.parametrize("outcome", LATE.values(), ids=LATE)
def test_an_answer_that_comes_after_the_evidence_changes_nothing(world: Suspecting, outcome: Outcome) -> None:
    call = world.come_to("await-idle")
    world.signal("gpu-0", 79)
    world.turn()
    world.clock.advance(1.0)
    world.turn([Answer(call, outcome)])
    (incident,) = world.incidents()
    assert (incident.plan, incident.tier, incident.state) == ("replace", "T0", "open")
    assert "until now it was only suspect" in incident.sentence
    assert set(world.named()) == {step.name for step in PLANS["replace"] if step.track != "job"}


def test_evidence_waits_for_a_test_that_is_under_way(world: Suspecting) -> None:
    """Nobody computes there, and the test's pod would be left behind."""
    call = world.come_to("validate-node")
    world.signal("gpu-0", 79)
    world.turn()
    assert world.verdicts() == [(None, None)]
    world.clock.advance(1.0)
    world.turn([Answer(call, Done("failed", {"unfit": "failed"}))])
    (incident,) = world.incidents()
    assert incident.plan == "replace"
    assert world.verdicts()[0][1] == "s1"


def test_evidence_that_waited_for_a_passed_test_takes_the_node_out_again(world: Suspecting) -> None:
    call = world.come_to("validate-node")
    world.signal("gpu-0", 79)
    world.turn()
    world.clock.advance(1.0)
    world.turn([Answer(call, Done(PASSED, {"fit": PASSED}))])
    assert {one.plan: one.state for one in world.incidents()} == {
        "validate": "closed", "give-back": "closed", "replace": "open",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["drain-slurm", "fence-node", "await-idle"])
def test_what_is_done_stays_done(world: Suspecting, name: str) -> None:
    world.come_to(name)
    before = {step for step, state in world.named().items() if state == "done"}
    world.signal("gpu-0", 79)
    world.turn()
    assert before <= {step for step, state in world.named().items() if state == "done"}
    assert [one.id for one in world.incidents()] == ["s1"]


def test_a_line_that_only_is_recorded_leaves_the_suspicion_as_it_is(world: Suspecting) -> None:
    world.come_to("await-idle")
    world.signal("gpu-0", 13)
    world.signal("gpu-0", 43)
    world.turn()
    (incident,) = world.incidents()
    assert incident.plan == VALIDATE
    assert [found for _, found in world.verdicts()] == ["s1", "s1"]


def test_after_the_test_evidence_makes_an_incident_of_its_own(world: Suspecting) -> None:
    call = world.come_to("validate-node")
    world.turn([Answer(call, Done(PASSED, {"fit": PASSED}))])
    world.clock.advance(1.0)
    world.signal("gpu-0", 79)
    world.turn()
    assert [(one.plan, one.state) for one in world.incidents()] == [
        ("validate", "closed"), ("give-back", "closed"), ("replace", "open"),
    ]  # fmt: skip
