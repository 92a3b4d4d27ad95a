"""kill -9 of the real controller at the mutating steps of every plan: real servers, a real SQLite file."""

from __future__ import annotations

import time

import pytest

from deploy.lab.api import Lab
from remediator.workflow.plans import PLANS
from remediator.workflow.step import Writing
from remediator.workflow.steps import STEPS
from tests.e2e.helpers import in_order
from tests.sigkill.drill import Drill, in_lives
from tests.sigkill.scenarios import CASES, IN_PROCESS_ONLY, SCENARIOS, WAY_BACK

SIGKILLED = -9


def mutating() -> set[tuple[tuple[str, ...], str]]:
    """Each writing step of each plan, plans with the same steps being one; and each of the way back."""
    out = {(steps_of(plan), step) for plan in PLANS for step in steps_of(plan) if is_writing(step)}
    undo = {(("way back",), name) for name in STEPS if name.startswith("undo-")}
    return out | undo


def steps_of(plan: str) -> tuple[str, ...]:
    return tuple(planned.name for planned in PLANS[plan]) if plan != WAY_BACK else (WAY_BACK,)


def is_writing(step: str) -> bool:
    return isinstance(STEPS[step], Writing)


def test_no_mutating_step_of_any_plan_is_left_out() -> None:
    covered = {
        (steps_of(plan), step)
        for kills in [IN_PROCESS_ONLY, *(scenario.kills for scenario in SCENARIOS.values())]
        for plan, names in kills.items()
        for step in names
    }
    assert covered == mutating()
    in_plans = {planned.name for plan in PLANS.values() for planned in plan}
    outside = {name for name in STEPS if is_writing(name) and name not in in_plans}
    assert outside == {name for name in STEPS if name.startswith("undo-")}


@pytest.mark.sigkill
@pytest.mark.lab
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "when"), CASES)
def test_a_killed_controller_repeats_nothing_and_loses_nothing(
    lab: Lab, figures: list[str], name: str, when: str
) -> None:
    scenario, began = SCENARIOS[name], time.monotonic()
    with in_order(lab, scenario.stage) as site:
        drill = Drill(site, scenario.moments(when))
        try:
            scenario.play(drill)
            assert site.controller.audit()["ok"]
            deaths = drill.deaths()
        finally:
            site.refill()
            if "person" in name:
                site.controller.forget()  # what a person overrode does not act again in its boot
        assert {death.status for death in deaths} == {SIGKILLED}
        missed = overtaken(drill.moments, [death.moment for death in deaths])
        also = f"; taken along by another death: {', '.join(missed)}" if missed else ""
        figures.append(f"{name}, {when}: {time.monotonic() - began:.0f} s, {in_lives(deaths)}{also}")


def overtaken(armed: list[str], met: list[str]) -> list[str]:
    """Steps run side by side: a death may take along an act whose answer was on its way, one a case."""
    assert len(met) == len(set(met))
    assert set(met) <= set(armed)
    missed = sorted(set(armed) - set(met))
    assert len(missed) <= 1
    assert all(moment.endswith(":accepted") for moment in missed)
    return missed
