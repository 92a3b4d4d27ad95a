"""Whatever the steps answer, in whatever order: nothing starts before its time, and nothing waits in vain."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.audit import chain
from remediator.model.incident import HOLD_JOB, RESTART_JOB, Incident
from remediator.model.plan import Again, Done, Hold, Outcome, StepRow, Unknown, Wait
from remediator.model.run import JobRun
from remediator.model.timing import Timing
from remediator.store import incidents, steps
from remediator.store.engine import open_store
from remediator.store.steps import Place
from remediator.workflow.calls import Answer, Call, place_of
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal
from remediator.workflow.plans import PLANS
from remediator.workflow.step import Writing
from remediator.workflow.steps import STEPS

ANSWERS: dict[str, Callable[[], Outcome | None]] = {
    "done": lambda: Done("done"),
    "wait": lambda: Wait("not yet", after=0.5),
    "at once": lambda: Wait("look again", after=0.0),
    "again": lambda: Again("down", after=1.0),
    "unknown": lambda: Unknown("lost", after=0.2),
    "hold": lambda: Hold("a person", after=2.0),
    "wants to act": lambda: None,
}
RUNS = [JobRun(job_id=n, submit_time=100, restart_count=0, address=str(n)) for n in (7, 8, 9)]


def before(row: StepRow, other: StepRow) -> bool:
    """Whether `row` must wait for `other`: the main track for all, a job for the main track and itself; the
    node track also for jobs that are given time.
    """
    if other.ordinal >= row.ordinal:
        return False
    own = other.subject == row.subject
    given_time = row.track == "node" and other.name == "await-save"
    return row.track == "main" or other.track == "main" or own or given_time


ABOUT_A_JOB = {RESTART_JOB, HOLD_JOB}


class Play:
    """One incident driven by answers instead of workers; every rule is checked after every turn."""

    def __init__(self, plan: str, runs: list[JobRun], timing: Timing = "now") -> None:
        self.store = open_store("sqlite:///:memory:")
        self.engine = Engine(Journal("me", 1), "test")
        self.runs = runs
        self.now = 1000.0
        self.flying: dict[Place, Call] = {}
        self.incident = Incident(
            id="i1", key="k", node="gpu-0", node_uid="u", boot_id="b", slurm_nodes=("w-0",), tier="T0",
            rule="r", cause="XID 79", plan=plan, fault_at=self.now, opened_at=self.now,
            timing=timing,
        )  # fmt: skip
        with self.store.write() as connection:
            incidents.insert(connection, self.incident)
            self.engine.start(connection, self.incident, self.now)
            for run in runs if plan in ABOUT_A_JOB else []:
                self.engine.adopt(connection, self.incident, run, self.now)
        self.turn({})

    def outcome(self, call: Call, kind: str) -> Outcome | None:
        """What a worker could say; a step that only looks always says something."""
        if call.row.name == "survey" and len(call.runs) < len(self.runs):
            fresh = [run.model_dump(mode="json") for run in self.runs if run not in call.runs]
            return Wait("found", after=0.0, facts={"runs": fresh})
        outcome = ANSWERS[kind]()
        if outcome is None and (call.may_act or not isinstance(STEPS[call.row.name], Writing)):
            return Unknown("accepted, but not seen yet")
        return outcome

    def turn(self, kinds: dict[Place, str]) -> None:
        """Answer some calls, take the next ones, and check."""
        self.now += 0.7
        answers = [
            Answer(self.flying[place], self.outcome(self.flying[place], k)) for place, k in kinds.items()
        ]
        for place in kinds:
            del self.flying[place]
        with self.store.write() as connection:
            for answer in answers:
                self.engine.apply(connection, answer, self.now)
            calls, later = self.engine.calls(connection, frozenset(self.flying), self.now)
        fresh = {call.place: call for call in calls}
        assert len(fresh) == len(calls)
        assert not fresh.keys() & self.flying.keys()
        self.flying |= fresh
        self.check(later)

    def check(self, later: float | None) -> None:
        """Exactly the steps that may run now are with the workers, and the alarm is set for the others."""
        rows = self.rows()
        unfinished = [row for row in rows if row.state != "done"]
        free = [row for row in unfinished if not any(before(row, other) for other in unfinished)]
        due = {place_of(row) for row in free if row.due_at <= self.now or row.state == "running"}
        assert set(self.flying) == due
        sleeping = [row.due_at for row in free if place_of(row) not in due]
        assert later == min(sleeping, default=None)
        state = self.state()
        assert (state == "closed") == (not unfinished)
        if state == "open":
            assert all(row.state != "held" for row in rows)
        elif state == "held":  # a step that was held and now acts has not said yet whether that helped
            assert any(row.state in {"held", "running"} for row in rows)
        for call in self.flying.values():
            assert not call.may_act or call.row.state == "running"

    def rows(self) -> list[StepRow]:
        """All steps."""
        with self.store.read() as connection:
            return steps.of_incident(connection, "i1")

    def state(self) -> str:
        """The incident's state."""
        with self.store.read() as connection:
            found = incidents.get(connection, "i1")
        assert found is not None
        return found.state

    def done(self) -> set[tuple[str, str]]:
        """Names and subjects of the finished steps."""
        return {(row.name, row.subject) for row in self.rows() if row.state == "done"}


@settings(max_examples=60)
@given(
    plan=st.sampled_from(sorted(PLANS)),
    runs=st.integers(0, 3),
    timing=st.sampled_from(get_args(Timing)),
    script=st.lists(st.tuples(st.sampled_from(sorted(ANSWERS)), st.booleans()), max_size=40),
)
def test_every_step_starts_when_all_before_it_is_done_and_not_later(
    plan: str, runs: int, timing: Timing, script: list[tuple[str, bool]]
) -> None:
    play = Play(plan, RUNS[:runs], timing)
    todo = iter(script)
    for kind, all_back in todo:
        places = sorted(play.flying)
        kinds = dict.fromkeys(places[: None if all_back else 1], kind)
        play.turn(kinds)
    for _ in range(60):
        if play.state() == "closed":
            break
        play.turn(dict.fromkeys(play.flying, "done"))
        play.now += 10.0
    assert play.state() == "closed"
    names = {name for name, _ in play.done()}
    jobs = {planned.name for planned in PLANS[plan] if planned.track == "job"}
    there = {planned.name for planned in PLANS[plan] if planned.stands(waits=timing != "now", read=False)}
    assert names == there - (set() if runs else jobs)


@given(stuck=st.sampled_from(["wait", "hold", "again", "unknown"]), which=st.integers(0, 2))
@settings(max_examples=12)
def test_a_job_that_is_stuck_keeps_no_other_waiting_but_keeps_the_incident_open(
    stuck: str, which: int
) -> None:
    play = Play("move-jobs", RUNS)
    for _ in range(30):
        play.turn({place: stuck if place[2] == RUNS[which].key else "done" for place in play.flying})
    back = {subject for name, subject in play.done() if name == "prove-resume"}
    assert back == {run.key for run in RUNS} - {RUNS[which].key}
    assert play.state() in {"open", "held"}


@pytest.mark.parametrize("plan", sorted(PLANS))
def test_close_is_the_last_step_of_every_plan(plan: str) -> None:
    assert PLANS[plan][-1].name == "close"
    assert [planned.name for planned in PLANS[plan]].count("close") == 1


@pytest.mark.parametrize("plan", sorted(PLANS))
def test_every_plan_consists_of_known_steps_and_drains_before_it_fences_and_moves(plan: str) -> None:
    names = [planned.name for planned in PLANS[plan]]
    assert set(names) <= set(STEPS)
    order = [
        name for name in ("admit", "drain-slurm", "fence-node", "survey", "release-jobs") if name in names
    ]
    assert sorted(order, key=names.index) == order


def test_two_answers_of_one_turn_leave_the_incident_as_its_steps_are() -> None:
    """One job comes off its hold in the very turn in which another one is held."""
    play = Play("move-jobs", RUNS[:2])
    while not all(call.row.name == "release-jobs" for call in play.flying.values()):
        play.turn(dict.fromkeys(play.flying, "done"))
    first, second = sorted(play.flying)
    play.turn({first: "hold"})
    play.turn({second: "at once"})  # handed out again, now as part of a held incident
    play.now += 5.0
    play.turn({})
    play.turn({first: "wait", second: "hold"})
    assert play.state() == "held"


def test_a_hold_is_recorded_once_however_many_answers_come_while_it_lasts() -> None:
    play = Play("move-jobs", RUNS)
    while not all(call.row.name == "release-jobs" for call in play.flying.values()):
        play.turn(dict.fromkeys(play.flying, "done"))
    held = sorted(play.flying)[0]
    for kind, _ in zip(cycle(["wait", "at once"]), range(6), strict=False):
        play.turn({place: "hold" if place == held else kind for place in play.flying})
    with play.store.read() as connection:
        actions = [record["action"] for record in chain.read(connection, "i1")]
    assert actions.count("incident-held") == 1
    assert actions.count("incident-resumed") == 0
