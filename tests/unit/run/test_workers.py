"""Every call is answered with the outcome its error deserves, except when leadership moved on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import pytest
from structlog.testing import capture_logs

from remediator.actuators.acceptance import Acceptance
from remediator.actuators.nodes import Nodes
from remediator.actuators.scheduler import Scheduler
from remediator.actuators.spares import Spares
from remediator.clock import ManualClock
from remediator.errors import Ambiguous, BadInput, Blocked, Fenced, GiveUp, Retry
from remediator.guard import Guard, open_guard
from remediator.model.plan import Again as TryAgain
from remediator.model.plan import Done, Hold, Outcome, Unknown
from remediator.run.workers import OTHER_WORKERS, URGENT_WORKERS, Workers
from remediator.workflow.calls import Answer, Call
from remediator.workflow.context import Conduct, Context, Ports
from remediator.workflow.judged import FRESH_S
from remediator.workflow.step import Hurried
from remediator.workflow.steps import STEPS
from tests.fakes.kube import FakeCluster
from tests.fakes.slurm import FakeSlurm
from tests.unit.run.calls import call

OUTCOMES: list[tuple[Exception, Outcome]] = [
    (Retry("busy", after=3.0), TryAgain("busy", after=3.0)),
    (Ambiguous("the connection broke"), Unknown("the connection broke")),
    (GiveUp("the token is refused"), Hold("the token is refused")),
    (Blocked("a person holds it"), Hold("a person holds it")),
    (BadInput("node", "is no literal name"), Hold("node: is no literal name")),
]


class Crew:
    """Workers on fake servers, and what came back."""

    def __init__(self, guard: Guard | None = None) -> None:
        self.clock = ManualClock()
        self.slurm = FakeSlurm(self.clock, nodes=("w-0",))
        self.answers: list[Answer] = []
        self.fenced: list[Fenced] = []
        self.back = threading.Semaphore(0)
        self.moments: list[str] = []
        guard = guard or open_guard(self.clock)
        kube = FakeCluster(self.clock)
        self.ports = Ports(
            Scheduler(self.slurm, guard),
            Nodes(kube, guard),
            Spares(kube.spares, guard),
            Acceptance(kube.bench, guard),
        )
        self.context_of: Callable[[Call, float], Context] = self.context
        self.workers = Workers(
            self._context_of,
            self.clock,
            self._answered,
            self._fence,
            self.moments.append,
        )

    def context(self, call: Call, now: float) -> Context:
        return Context(
            call.incident,
            call.row,
            now,
            self.ports,
            Conduct(),
            go_on=call.go_on,
            straight_on=call.straight_on,
            early=call.early,
        )

    def do(self, *calls: Call) -> list[Answer]:
        """Submit and wait until all are back, answered or fenced."""
        for one in calls:
            self.workers.submit(one)
        for _ in calls:
            assert self.back.acquire(timeout=30.0)
        return self.answers

    def _context_of(self, call: Call, now: float) -> Context:
        return self.context_of(call, now)

    def _answered(self, answer: Answer) -> None:
        self.answers.append(answer)
        self.back.release()

    def _fence(self, error: Fenced) -> None:
        self.fenced.append(error)
        self.back.release()


@pytest.fixture
def crew() -> Iterator[Crew]:
    crew = Crew()
    yield crew
    crew.workers.stop()


def raising(error: BaseException, op: str) -> Callable[[str, str], None]:
    def hook(name: str, _target: str) -> None:
        if name == op:
            raise error

    return hook


@pytest.mark.parametrize(("error", "outcome"), OUTCOMES, ids=[type(error).__name__ for error, _ in OUTCOMES])
@pytest.mark.parametrize("op", ["node", "drain"])
def test_each_typed_error_is_the_outcome_it_names(
    crew: Crew, error: Exception, outcome: Outcome, op: str
) -> None:
    crew.slurm.before = raising(error, op)
    (answer,) = crew.do(call("drain-slurm", may_act=True))
    assert answer.outcome == outcome


def test_a_step_that_wants_to_act_without_an_intent_says_so(crew: Crew) -> None:
    (answer,) = crew.do(call("drain-slurm"))
    assert answer.outcome is None
    assert crew.slurm.writes == []


def test_an_intent_lets_it_act_once_and_both_moments_are_told(crew: Crew) -> None:
    (answer,) = crew.do(call("drain-slurm", may_act=True))
    assert isinstance(answer.outcome, Done)
    assert crew.slurm.count("drain", "w-0") == 1
    assert crew.moments == ["drain-slurm:intent", "drain-slurm:accepted"]


def test_an_intent_whose_act_is_done_already_acts_no_more(crew: Crew) -> None:
    crew.slurm.drain("w-0", "remediator: i1 XID 79", deadline=5.0)
    crew.do(call("drain-slurm", may_act=True))
    assert crew.slurm.count("drain", "w-0") == 1


def test_an_answer_carries_the_call_it_answers(crew: Crew) -> None:
    one = call("admit")
    assert crew.do(one)[0].call is one


def test_a_bug_in_a_step_holds_it_and_leaves_a_line_in_the_log(crew: Crew) -> None:
    crew.slurm.before = raising(ZeroDivisionError("oops"), "node")
    with capture_logs() as logs:
        (answer,) = crew.do(call("drain-slurm"))
    assert isinstance(answer.outcome, Hold)
    assert "ZeroDivisionError" in answer.outcome.sentence
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert (line["step"], line["incident"]) == ("drain-slurm", "i1")


def test_a_bug_before_the_step_holds_it_too(crew: Crew) -> None:
    def broken(_call: Call, _now: float) -> Context:
        raise KeyError("no such thing")

    crew.context_of = broken
    (answer,) = crew.do(call("admit"))
    assert isinstance(answer.outcome, Hold)


def test_lost_leadership_is_reported_and_nothing_is_answered_or_written() -> None:
    crew = Crew(Guard(1, ManualClock(), lambda: None))
    crew.do(call("drain-slurm", may_act=True))
    crew.workers.stop()
    assert [error.epoch for error in crew.fenced] == [1]
    assert crew.answers == []
    assert crew.slurm.writes == []


def test_slow_steps_never_stand_before_a_drain(crew: Crew) -> None:
    gate = threading.Event()

    def hook(op: str, _target: str) -> None:
        if op == "jobs":
            assert gate.wait(30.0)

    crew.slurm.before = hook
    for _ in range(OTHER_WORKERS + URGENT_WORKERS):
        crew.workers.submit(call("survey"))
    (answer,) = crew.do(call("drain-slurm", may_act=True))
    assert answer.call.row.name == "drain-slurm"
    gate.set()


@pytest.mark.parametrize(("step", "threads"), [("drain-slurm", URGENT_WORKERS), ("survey", OTHER_WORKERS)])
def test_stop_waits_for_the_calls_under_way_and_starts_no_other(crew: Crew, step: str, threads: int) -> None:
    gate, inside = threading.Event(), threading.Semaphore(0)

    def hook(_op: str, _target: str) -> None:
        inside.release()
        assert gate.wait(30.0)

    crew.slurm.before = hook
    for _ in range(threads + 5):
        crew.workers.submit(call(step))
    for _ in range(threads):
        assert inside.acquire(timeout=30.0)
    stopping = threading.Thread(target=crew.workers.stop)
    stopping.start()
    stopping.join(0.2)
    assert stopping.is_alive()
    gate.set()
    stopping.join(30.0)
    assert [answer.call.row.name for answer in crew.answers] == [step] * threads


def hurried() -> Call:
    """A drain that takes the fence with it."""
    return replace(call("drain-slurm", may_act=True), then=call("fence-node", may_act=True))


def reads_before_the_drain(crew: Crew) -> Callable[[], int]:
    """Counts how often the node is read until it is drained; a look that is asked for is also waited for."""
    asked: list[str] = []
    crew.slurm.before = lambda op, _target: asked.append(op)
    return lambda: asked[: asked.index("drain") if "drain" in asked else None].count("node")


def seen_early(crew: Crew) -> Call:
    """A call in a hurry whose early look has begun."""
    inside, hook = threading.Semaphore(0), crew.slurm.before

    def told(op: str, target: str) -> None:
        inside.release()
        hook(op, target)

    crew.slurm.before = told
    begun = crew.workers.ask_early(hurried())
    assert inside.acquire(timeout=30.0)
    crew.slurm.before = hook
    return begun


def test_what_a_drain_looks_at_is_read_before_it_is_handed_out_and_not_again(crew: Crew) -> None:
    reads = reads_before_the_drain(crew)
    begun = seen_early(crew)
    assert crew.slurm.writes == [], "nothing is written before the INTENT is committed"
    (first, *_) = crew.do(begun)
    assert isinstance(first.outcome, Done)
    assert reads() == 1


def test_an_early_look_that_has_aged_is_taken_again(crew: Crew) -> None:
    """Somebody drained it while the store took its time."""
    begun = seen_early(crew)
    crew.slurm.drain("w-0", "admin: cable", deadline=5.0)
    crew.clock.advance(FRESH_S + 0.1)
    (first, *_) = crew.do(begun)
    assert isinstance(first.outcome, Hold)
    assert crew.slurm.count("drain", "w-0") == 1


@pytest.mark.parametrize(("error", "outcome"), OUTCOMES, ids=[type(error).__name__ for error, _ in OUTCOMES])
@pytest.mark.parametrize("lasts", [True, False])
def test_an_early_look_that_failed_is_taken_again(
    crew: Crew, error: Exception, outcome: Outcome, *, lasts: bool
) -> None:
    crew.slurm.before = raising(error, "node")
    begun = seen_early(crew)
    if not lasts:
        crew.slurm.before = lambda _op, _target: None
    (first, *_) = crew.do(begun)
    assert first.outcome == outcome if lasts else isinstance(first.outcome, Done)


def test_an_early_look_is_good_for_one_attempt(crew: Crew) -> None:
    begun = seen_early(crew)
    assert begun.early is not None
    assert begun.early.take(crew.clock.now()) is not None
    assert begun.early.take(crew.clock.now()) is None


def test_a_look_that_nobody_was_free_for_is_taken_by_the_step_itself(crew: Crew) -> None:
    gate = threading.Event()

    def hook(op: str, target: str) -> None:
        if threading.current_thread().name.startswith("early"):
            assert gate.wait(30.0)

    crew.slurm.before = hook
    waiting = [crew.workers.ask_early(hurried()) for _ in range(URGENT_WORKERS + 1)]
    (first, *_) = crew.do(waiting[-1])
    assert isinstance(first.outcome, Done)
    gate.set()


@pytest.mark.parametrize("step", [name for name, step in STEPS.items() if isinstance(step, Hurried)])
def test_an_early_look_of_any_step_writes_nothing(crew: Crew, step: str) -> None:
    cast(Hurried, STEPS[step]).look_early(crew.context(call(step, may_act=True), 0.0))
    assert crew.slurm.writes == []


def test_only_a_call_in_a_hurry_is_looked_at_early(crew: Crew) -> None:
    assert crew.workers.ask_early(call("drain-slurm", may_act=True)).early is None
    assert crew.workers.ask_early(call("survey")).early is None
