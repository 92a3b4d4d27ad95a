"""Readings that stand out in two crashes make one machine suspect, and no other; what nothing can tell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from remediator.incidents.pointed import CRASHES, alike, pointed_at
from remediator.model.strike import EXAMINED, Strike

MACHINES = ["m0", "m1", "m2"]


@st.composite
def strike(draw: st.DrawFn) -> Strike:
    job, restart = draw(st.integers(1, 3)), draw(st.integers(0, 3))
    machine = draw(st.sampled_from(MACHINES))
    run = f"{job}.1.{restart}"
    evidence = draw(st.sampled_from([f"{EXAMINED}:{run}", f"job-ended:{run}", f"agent:{machine}:b:1"]))
    return Strike(run, str(job), "u/w", machine, f"gpu-{machine}", 1.0, evidence)


@given(found=st.lists(strike(), max_size=12))
def test_it_takes_two_crashes_that_point_to_it(found: list[Strike]) -> None:
    for machine in MACHINES:
        runs = {one.run for one in found if one.machine == machine and one.evidence.startswith(EXAMINED)}
        assert (pointed_at(machine, found) is not None) == (len(runs) >= CRASHES)


@given(machines=st.sets(st.sampled_from(MACHINES), min_size=1), runs=st.integers(1, 4))
def test_a_job_that_always_has_the_same_machines_is_alike(machines: set[str], runs: int) -> None:
    found = [
        Strike(f"7.1.{run}", "7", "u/w", machine, machine, 1.0, "job-ended:7")
        for run in range(runs)
        for machine in machines
    ]
    assert alike(found) == (len(machines) if runs > 1 else 0)
    other = Strike("7.1.9", "7", "u/w", "elsewhere", "elsewhere", 1.0, "job-ended:7")
    assert alike([*found, other]) == 0
