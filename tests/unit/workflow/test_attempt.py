"""One attempt: look first, act only with an INTENT, then look again; errors become outcomes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from remediator.errors import Ambiguous, BadInput, Blocked, Fenced, GiveUp, Retry
from remediator.model.incident import Incident
from remediator.model.plan import Again, Done, Hold, Outcome, Unknown, Wait
from remediator.model.run import JobRun
from remediator.workflow.attempt import attempt
from remediator.workflow.context import Context
from remediator.workflow.step import Step, Writing
from tests.unit.workflow.bench import Bench

CONTEXT = Bench().see()
ERRORS: list[tuple[Exception, Outcome]] = [
    (Retry("locked", after=2.5), Again("locked", after=2.5)),
    (Ambiguous("lost"), Unknown("lost")),
    (Blocked("a person"), Hold("a person")),
    (GiveUp("no rights"), Hold("no rights")),
    (BadInput("node", "unknown"), Hold("node: unknown")),
]


class Looking(Step):
    """Says what the test gave it, in order."""

    name = "looking"
    bound_s = 1.0

    def __init__(self, *answers: Outcome | Exception | None) -> None:
        self.answers = list(answers)
        self.log: list[str] = []

    def check(self, context: Context) -> Outcome | None:
        self.log.append("check")
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Acting(Looking, Writing):
    """Also acts, or fails to."""

    error: Exception | None = None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        return "act"

    def act(self, context: Context) -> None:
        self.log.append("act")
        if self.error:
            raise self.error


def run(step: Step, *, may_act: bool, probe: Callable[[str], None] = lambda _: None) -> Outcome | None:
    return attempt(step, CONTEXT, may_act=may_act, probe=probe)


def test_without_an_intent_it_only_looks() -> None:
    step = Acting(None)
    assert run(step, may_act=False) is None
    assert step.log == ["check"]


def test_what_is_true_already_is_not_done_again() -> None:
    step = Acting(Done("there"))
    assert run(step, may_act=True) == Done("there")
    assert step.log == ["check"]


@pytest.mark.parametrize("outcome", [Wait("saving"), Hold("vetoed")])
def test_a_look_that_says_wait_or_hold_stops_the_act(outcome: Outcome) -> None:
    step = Acting(outcome)
    assert run(step, may_act=True) == outcome
    assert step.log == ["check"]


def test_an_act_is_looked_at_before_it_counts() -> None:
    step = Acting(None, Done("there"))
    assert run(step, may_act=True) == Done("there")
    assert step.log == ["check", "act", "check"]


def test_an_act_that_cannot_be_seen_is_unknown() -> None:
    assert isinstance(run(Acting(None, None), may_act=True), Unknown)


def test_a_step_that_cannot_write_never_acts() -> None:
    assert run(Looking(None), may_act=True) is None


@pytest.mark.parametrize(("error", "outcome"), ERRORS)
def test_an_error_of_the_look_is_an_outcome(error: Exception, outcome: Outcome) -> None:
    step = Acting(error)
    assert run(step, may_act=True) == outcome
    assert "act" not in step.log


@pytest.mark.parametrize(("error", "outcome"), ERRORS)
def test_an_error_of_the_act_is_an_outcome(error: Exception, outcome: Outcome) -> None:
    step = Acting(None)
    step.error = error
    assert run(step, may_act=True) == outcome
    assert step.log == ["check", "act"]


@pytest.mark.parametrize(("error", "outcome"), ERRORS)
def test_an_error_of_the_second_look_is_an_outcome(error: Exception, outcome: Outcome) -> None:
    assert run(Acting(None, error), may_act=True) == outcome


@pytest.mark.parametrize("error", [Fenced("moved on", 1), ZeroDivisionError()])
def test_lost_leadership_and_bugs_go_up(error: Exception) -> None:
    with pytest.raises(type(error)):
        run(Acting(error), may_act=True)


def test_the_two_moments_are_told_around_the_act() -> None:
    step = Acting(None, Done("there"))
    run(step, may_act=True, probe=step.log.append)
    assert step.log == ["check", "looking:intent", "act", "looking:accepted", "check"]


def test_no_moment_is_told_when_nothing_is_done() -> None:
    step = Acting(Done("there"))
    run(step, may_act=True, probe=step.log.append)
    assert step.log == ["check"]
