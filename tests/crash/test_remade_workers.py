"""A worker that is made anew loses our DRAIN, which is nobody's resume; a person's resume stays one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from remediator.workflow.remade import SETTLED_S
from tests.crash.test_override import only, resume
from tests.crash.test_suspects import crashes, plans, settle, watched
from tests.fakes.river import Crash, River

SICK, WORKER = "gpu-0", "w-gpu-0"
Loss = Callable[[River], None]


def ends(river: River) -> None:
    """The worker's pod is deleted, and the operator lifts the DRAIN while it terminates."""
    river.slurm.stop_worker(WORKER)
    river.slurm.undrain(WORKER)


def comes_back_down(river: River) -> None:
    """The same, but it lifts the DRAIN of the new pod."""
    river.slurm.stop_worker(WORKER)
    river.clock.advance(3.0)
    river.slurm.start_worker(WORKER)
    river.slurm.undrain(WORKER)


def comes_back_idle(river: River) -> None:
    """The same under `ReturnToService=2`."""
    comes_back_down(river)
    river.slurm.mark(WORKER, state="IDLE")


def registers_anew(river: River) -> None:
    """Slurm's record was deleted with the pod."""
    river.clock.advance(3.0)
    river.slurm.register(WORKER)


def is_adopted(river: River) -> None:
    """The pod had been elsewhere meanwhile: the operator writes IDLE once it is back."""
    river.slurm.stop_worker(WORKER)
    river.slurm.move_worker(WORKER)
    river.clock.advance(6.0)
    river.slurm.node(WORKER, deadline=5.0)


LOSSES: list[Loss] = [ends, comes_back_down, comes_back_idle, registers_anew, is_adopted]
MOMENTS = ["drain-slurm:accepted", "fence-node:accepted", "validate-node:intent"]


def is_drained(river: River) -> bool:
    seen = river.slurm.node(WORKER, deadline=5.0)
    return seen is not None and seen.is_drain and seen.reason.startswith("remediator: ")


@pytest.fixture
def river(tmp_path: Path) -> River:
    """Without a spare a sick node waits, drained and fenced."""
    return River(tmp_path, spares=0, no_spare="wait")


def stands(river: River) -> None:
    river.xid(SICK)
    run(river, 60.0)
    assert is_drained(river)
    assert only(river).goes_on


def run(river: River, seconds: float) -> None:
    until = river.clock.now() + seconds
    while river.clock.now() < until:
        river.turn()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_drain_that_goes_with_its_worker_while_the_controller_is_dead_is_set_again(
    tmp_path: Path, loss: Loss, moment: str
) -> None:
    """A suspect stays one: tested, and given back."""
    river = watched(River(tmp_path))
    crashed = river.crash_at(moment)
    crashes(river, "one")
    crashes(river, "two")
    with pytest.raises(Crash):
        run(river, 60.0)
    loss(river)
    river.begin()
    run(river, 3.0)
    if loss is ends:
        river.slurm.start_worker(WORKER)
    settle(river, 200.0)
    assert crashed == [moment]
    assert plans(river) == [("validate", "closed"), ("give-back", "closed")]
    assert river.slurm.count("drain", WORKER) == 2
    seen = river.slurm.node(WORKER, deadline=5.0)
    assert seen is not None
    assert (seen.state, seen.is_drain) == ("IDLE", False)


@pytest.mark.parametrize("loss", LOSSES)
def test_so_it_is_while_the_controller_lives(river: River, loss: Loss) -> None:
    stands(river)
    loss(river)
    run(river, 30.0)
    assert only(river).goes_on
    assert is_drained(river)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("after", [SETTLED_S + 5.0, 600.0])
def test_a_person_who_resumes_it_once_it_is_settled_has_the_last_word(
    river: River, loss: Loss, after: float
) -> None:
    stands(river)
    loss(river)
    if loss is ends:
        river.slurm.start_worker(WORKER)
    run(river, after)
    assert is_drained(river)
    resume(river)
    run(river, 60.0)
    assert only(river).state == "overridden"


def test_a_fault_on_a_machine_that_its_worker_has_just_come_to_keeps_its_drain(river: River) -> None:
    """The operator's IDLE for the worker's move comes seconds after our DRAIN."""
    river.slurm.move_worker(WORKER)
    river.clock.advance(1.0)
    stands(river)
    assert river.slurm.count("drain", WORKER) == 2


def test_a_worker_that_restarts_and_keeps_its_drain_costs_no_write(river: River) -> None:
    stands(river)
    river.slurm.stop_worker(WORKER)
    river.slurm.start_worker(WORKER)
    run(river, 120.0)
    assert river.slurm.count("drain", WORKER) == 1
