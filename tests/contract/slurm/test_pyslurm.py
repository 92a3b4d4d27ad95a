"""pyslurm alone on a real Slurm: what it cannot do is said, never done by halves, and no call hangs."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from remediator.clock import SystemClock
from remediator.errors import Ambiguous, GiveUp, Retry
from slurm_bridge.either import EitherSlurm
from slurm_bridge.model import SlurmJob
from slurm_bridge.port import Cannot
from slurm_bridge.pyslurm.backend import CANNOT, PyslurmSlurm
from slurm_bridge.pyslurm.channel import Channel
from slurm_bridge.rest.backend import RestSlurm
from tests.contract.slurm.worlds import DEADLINE, RealWorld, Spec, job, node, queued, running, started
from tests.servers.slurm import SlurmServer

pytestmark = pytest.mark.slurm
REASON = "remediator: inc-3 XID 79"
PLACE = "remediator_1kf3x0q2c-7p4m_9"


@pytest.fixture
def real(rest_backend: RestSlurm, slurm_server: SlurmServer) -> Iterator[RealWorld]:
    world = RealWorld(rest_backend, slurm_server)
    yield world
    world.close()


def _requeue_a_task(real: RealWorld, slurm: PyslurmSlurm) -> None:
    array = real.submit_array(Spec(), (0, 1))
    last, task = running(real, array), running(real, array + 1)
    assert (last.address, task.address) == (f"{array}_1", f"{array}_0")
    try:
        slurm.requeue(task, deadline=DEADLINE)
    finally:
        assert [running(real, array + i).restart_count for i in range(2)] == [0, 0]


def _reserve(real: RealWorld, slurm: PyslurmSlurm) -> None:
    try:
        slurm.reserve(PLACE, ["gpu-0"], ["alice"], 15, deadline=DEADLINE)
    finally:
        assert real.port.reservations(deadline=DEADLINE) == ()


def _take_out(real: RealWorld, slurm: PyslurmSlurm) -> None:
    real.port.reserve(PLACE, ["gpu-0"], ["alice"], 15, deadline=DEADLINE)
    job_id = real.submit(Spec(held=True))
    slurm.set_job_reservation(job_id, PLACE, deadline=DEADLINE)
    try:
        slurm.set_job_reservation(job_id, "", deadline=DEADLINE)
    finally:
        assert job(real, job_id).reservation == PLACE


def _saving(real: RealWorld, slurm: PyslurmSlurm) -> SlurmJob:
    before = started(real, Spec(save=4))
    slurm.requeue(before, deadline=DEADLINE)
    return before


def _read_saving(real: RealWorld, slurm: PyslurmSlurm) -> None:
    before = _saving(real, slurm)
    with pytest.raises(Cannot, match="COMPLETING"):
        slurm.jobs(deadline=DEADLINE)
    with pytest.raises(Cannot, match="COMPLETING"):
        slurm.job_states(deadline=DEADLINE)
    slurm.job(before.job_id, deadline=DEADLINE)


def _set_down(real: RealWorld, slurm: PyslurmSlurm) -> None:
    try:
        slurm.set_down("gpu-0", REASON, deadline=DEADLINE)
    finally:
        assert not node(real, "gpu-0").is_down


ATTEMPTS: dict[str, Callable[[RealWorld, PyslurmSlurm], None]] = {
    "requeue an array task": _requeue_a_task,
    "reserve": _reserve,
    "take a job out of its reservation": _take_out,
    "set a node DOWN under enable_expedited_requeue": _set_down,
    "read a job with a state flag": _read_saving,
}


@pytest.mark.parametrize("what", CANNOT)
def test_what_pyslurm_cannot_do_is_said_and_changes_nothing(
    real: RealWorld, pyslurm_backend: PyslurmSlurm, what: str
) -> None:
    with pytest.raises(Cannot, match=r"^pyslurm: "):
        ATTEMPTS[what](real, pyslurm_backend)


def test_a_job_is_moved_off_a_drained_node_through_pyslurm_alone(
    real: RealWorld, pyslurm_backend: PyslurmSlurm
) -> None:
    before = running(real, real.submit(Spec()))
    (sick,) = before.nodes
    pyslurm_backend.drain(sick, REASON, deadline=DEADLINE)
    pyslurm_backend.requeue(before, deadline=DEADLINE)
    queued(real, before.job_id)
    pyslurm_backend.start_now(before.job_id, deadline=DEADLINE)
    after = running(real, before.job_id, restarts=1)
    assert sick not in after.nodes
    assert (real.drains(sick), real.requeues(before.address)) == (1, 1)
    pyslurm_backend.resume(sick, deadline=DEADLINE)
    assert not node(real, sick).is_drain


def test_a_requeued_job_can_be_read_again_once_it_has_saved(
    real: RealWorld, pyslurm_backend: PyslurmSlurm
) -> None:
    before = _saving(real, pyslurm_backend)
    after = queued(real, before.job_id)
    seen = pyslurm_backend.job(before.job_id, deadline=DEADLINE)
    assert seen is not None
    assert (seen.state, seen.run, seen.begin_time) == ("PENDING", after.run, after.begin_time)


def test_task_zero_of_an_array_is_known_as_such(real: RealWorld, pyslurm_backend: PyslurmSlurm) -> None:
    array = real.submit_array(Spec(), (0, 1))
    for task in (running(real, array), running(real, array + 1)):
        seen = pyslurm_backend.job(task.job_id, deadline=DEADLINE)
        assert seen is not None
        assert (seen.address, seen.array_job_id) == (task.address, array)


def test_a_dependency_that_pyslurm_hides_counts_as_one_on_every_job(
    real: RealWorld, pyslurm_backend: PyslurmSlurm
) -> None:
    running(real, real.submit(Spec()))
    waits = pyslurm_backend.job(real.submit(Spec(dependency="singleton")), deadline=DEADLINE)
    assert waits is not None
    assert waits.dependency == "hidden:"


def test_the_worker_says_what_it_runs_on(pyslurm_backend: PyslurmSlurm) -> None:
    assert pyslurm_backend.about(deadline=DEADLINE).startswith("pyslurm 25.11.2 on Python 3.")


@pytest.fixture
def frozen_ctld(slurm_server: SlurmServer) -> Iterator[None]:
    slurm_server.kill("slurmctld", signal.SIGSTOP)
    yield
    slurm_server.kill("slurmctld", signal.SIGCONT)


@pytest.mark.usefixtures("frozen_ctld")
def test_a_frozen_slurmctld_costs_a_call_its_deadline_and_no_more(pyslurm_backend: PyslurmSlurm) -> None:
    with pytest.raises(Retry):
        pyslurm_backend.nodes(deadline=1.0)
    with pytest.raises((Ambiguous, Retry)):
        pyslurm_backend.drain("gpu-0", REASON, deadline=1.0)


def test_a_token_of_nobody_is_told_to_be_renewed(slurm_server: SlurmServer) -> None:
    slurm = PyslurmSlurm(Channel(slurm_server.pyslurm_socket(), lambda: "no.such.token", SystemClock()))
    with pytest.raises(GiveUp, match="token"):
        slurm.drain("gpu-0", REASON, deadline=DEADLINE)
    slurm.close()


def test_a_write_of_a_user_without_rights_wants_a_person(real: RealWorld) -> None:
    token = real.server.token("alice")
    slurm = PyslurmSlurm(Channel(real.server.pyslurm_socket(), lambda: token, SystemClock()))
    with pytest.raises(GiveUp, match="SlurmUser"):
        slurm.drain("gpu-0", REASON, deadline=DEADLINE)
    slurm.close()


def test_with_rest_beside_it_a_job_is_read_while_it_saves(
    real: RealWorld, pyslurm_backend: PyslurmSlurm
) -> None:
    either = EitherSlurm(pyslurm_backend, real.port, SystemClock())
    before = _saving(real, pyslurm_backend)
    seen = either.job(before.job_id, deadline=DEADLINE)
    assert seen is not None
    assert (seen.state, seen.is_completing) == ("PENDING", True)
