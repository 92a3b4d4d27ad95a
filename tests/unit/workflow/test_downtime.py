"""Phases of downtime: each second once, none negative, and together the whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.model.incident import Incident
from remediator.model.plan import StepRow
from remediator.workflow.downtime import Phase, job_phases, node_phases
from remediator.workflow.plans import PLANS

JOB = "7.100.0"
moments = st.floats(0, 1e5).map(lambda at: round(at, 3))
some = st.none() | moments


def incident(fault: float, opened: float) -> Incident:
    return Incident(
        id="i1", key="k", node="gpu-0", node_uid="u", boot_id="b", tier="T0", rule="r", cause="XID 79",
        plan="replace", fault_at=fault, opened_at=opened,
    )  # fmt: skip


def row(name: str, ended: float | None, *, acted: float | None = None, subject: str = "") -> StepRow:
    return StepRow(
        incident="i1",
        name=name,
        subject=subject,
        track="job" if subject else "main",
        ordinal=1,
        state="done" if ended else "waiting",
        acted_at=acted,
        ended_at=ended,
    )


def job_rows(
    asked: float | None, gone: float | None, lifted: float | None, back: float | None
) -> list[StepRow]:
    return [
        row("release-jobs", gone, acted=asked, subject=JOB),
        row("start-jobs", lifted, subject=JOB),
        row("prove-resume", back, subject=JOB),
    ]


def total(phases: tuple[Phase, ...]) -> float:
    return sum(phase.seconds for phase in phases)


def test_a_nodes_phases_by_name() -> None:
    rows = [row("admit", 12.1), row("drain-slurm", 13.0), row("fence-node", 14.0), row("survey", 14.5)]
    assert node_phases(incident(10.0, 12.0), rows) == (
        Phase("fault to decision", 2.0),
        Phase("decision to DRAIN", 1.0),
        Phase("DRAIN to fence", 1.0),
        Phase("survey", 0.5),
    )


def test_a_jobs_phases_by_name() -> None:
    assert job_phases(incident(10.0, 12.0), job_rows(14.0, 20.0, 21.0, 25.0), JOB) == (
        Phase("fault to requeue", 4.0),
        Phase("saving (SIGTERM to gone)", 6.0),
        Phase("delay lifted", 1.0),
        Phase("queue and start", 4.0),
    )


def test_a_job_that_waits_for_the_spare_says_so_and_one_that_does_not_is_spared() -> None:
    moved = [*job_rows(14.0, 20.0, 21.0, 25.0), row("admit-spare", 24.0)]
    assert job_phases(incident(10.0, 12.0), moved, JOB)[3:] == (
        Phase("until the spare is in", 3.0),
        Phase("queue and start", 1.0),
    )
    before = [*job_rows(14.0, 20.0, 21.0, 25.0), row("admit-spare", 30.0)]
    assert job_phases(incident(10.0, 12.0), before, JOB)[3:] == (Phase("queue and start", 4.0),)


def test_every_step_of_a_nodes_track_is_a_phase_of_its_own() -> None:
    names = [planned.name for planned in PLANS["replace"] if planned.track == "node"]
    nameless = [name for name in names if len(node_phases(incident(10.0, 12.0), [row(name, 13.0)])) < 2]
    assert nameless == [], "give each a phase in remediator/workflow/downtime.py"
    rows = [row(name, 13.0 + at) for at, name in enumerate(names)]
    decided, *phases = node_phases(incident(10.0, 12.0), rows)
    assert decided == Phase("fault to decision", 2.0)
    assert [phase.seconds for phase in phases] == [1.0] * len(names)
    assert len({phase.name for phase in phases}) == len(names)


def test_a_job_that_is_under_way_has_the_phases_that_are_over() -> None:
    phases = job_phases(incident(10.0, 12.0), job_rows(14.0, None, None, None), JOB)
    assert phases == (Phase("fault to requeue", 4.0),)


def test_a_job_that_is_left_alone_neither_saves_nor_queues() -> None:
    phases = job_phases(incident(10.0, 12.0), job_rows(None, 41.0, 41.1, 41.2), JOB)
    assert [(phase.name, round(phase.seconds, 1)) for phase in phases] == [("never signalled", 31.2)]
    assert job_phases(incident(10.0, 12.0), job_rows(None, None, None, None), JOB) == ()


def test_a_job_another_incident_moves_has_one_phase() -> None:
    phases = job_phases(incident(10.0, 12.0), [row("prove-resume", 25.0, subject=JOB)], JOB)
    assert phases == (Phase("queue and start", 15.0),)


def test_a_job_that_crashed_has_nothing_to_save() -> None:
    rows = [row("restart-job", 16.0, subject=JOB), row("start-jobs", 17.0, subject=JOB)]
    phases = job_phases(incident(10.0, 15.0), [*rows, row("prove-resume", 20.0, subject=JOB)], JOB)
    assert phases == (
        Phase("crash to requeue", 6.0),
        Phase("delay lifted", 1.0),
        Phase("queue and start", 3.0),
    )


def test_other_jobs_and_unknown_jobs_count_for_nothing() -> None:
    here = incident(10.0, 12.0)
    mixed = [*job_rows(14.0, 20.0, 21.0, 25.0), row("prove-resume", 99.0, subject="8.1.0")]
    assert total(job_phases(here, mixed, JOB)) == pytest.approx(15.0)
    assert job_phases(here, mixed, "9.1.0") == ()


@given(fault=moments, opened=moments, ends=st.tuples(some, some, some))
def test_a_nodes_phases_are_never_negative_and_add_up(
    fault: float, opened: float, ends: tuple[float | None, float | None, float | None]
) -> None:
    names = ("drain-slurm", "survey", "rejoin-slurm")
    rows = [row(name, at) for name, at in zip(names, ends, strict=True)]
    phases = node_phases(incident(fault, opened), rows)
    last = max([fault, opened, *(at for at in ends if at)])
    assert all(phase.seconds >= 0 for phase in phases)
    assert total(phases) == pytest.approx(last - fault, abs=0.01)


@given(fault=moments, marks=st.tuples(some, some, some, some))
def test_a_jobs_phases_are_never_negative_and_add_up(
    fault: float, marks: tuple[float | None, float | None, float | None, float | None]
) -> None:
    phases = job_phases(incident(fault, fault), job_rows(*marks), JOB)
    last = max([fault, *(at for at in marks if at is not None)])
    assert all(phase.seconds >= 0 for phase in phases)
    assert total(phases) == pytest.approx(last - fault, abs=0.01)
