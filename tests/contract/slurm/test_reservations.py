"""What every Slurm backend does with reservations: keep a job's place, and no more than that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from remediator.errors import BadInput, Blocked
from slurm_bridge.model import Reservation
from slurm_bridge.port import SlurmPort
from tests.contract.slurm.worlds import DEADLINE, Spec, World, job, node, queued, running, started

PLACE = "remediator_1kf3x0q2c-7p4m_12"
REASON = "remediator: inc-1 XID 79"
NODES = {"gpu-0", "gpu-1", "gpu-2"}


def reserve(world: World, *nodes: str, name: str = PLACE, user: str = "alice") -> None:
    world.port.reserve(name, nodes, [user], 15, deadline=DEADLINE)


def place(world: World, name: str = PLACE) -> Reservation:
    found = world.port.reservation(name, deadline=DEADLINE)
    assert found is not None
    return found


def put(world: World, job_id: int, name: str = PLACE) -> None:
    world.port.set_job_reservation(job_id, name, deadline=DEADLINE)


def test_an_unknown_reservation_is_none(world: World) -> None:
    assert world.port.reservation("nope", deadline=DEADLINE) is None
    assert world.port.reservations(deadline=DEADLINE) == ()


def test_a_reservation_shows_whose_nodes_it_keeps_and_how_long(world: World) -> None:
    reserve(world, "gpu-0", "gpu-2")
    seen = place(world)
    assert (seen.nodes, seen.users) == (("gpu-0", "gpu-2"), ("alice",))
    assert {"FLEX", "IGNORE_JOBS"} <= seen.flags
    assert not seen.is_maintenance
    assert seen.start is not None
    assert seen.end is not None
    assert 15 * 60 <= seen.end - seen.start <= 16 * 60
    assert seen.covers("gpu-2", seen.end - 1)
    assert world.port.reservations(deadline=DEADLINE) == (seen,)


def test_others_keep_off_until_the_reservation_is_deleted(world: World) -> None:
    reserve(world, "gpu-0")
    first, second, third = (world.submit(Spec()) for _ in range(3))
    assert {running(world, job_id).nodes[0] for job_id in (first, second)} == {"gpu-1", "gpu-2"}
    assert job(world, third).state == "PENDING"
    world.port.delete_reservation(PLACE, deadline=DEADLINE)
    assert running(world, third).nodes == ("gpu-0",)


def test_without_a_place_a_queued_job_takes_the_surviving_nodes(world: World) -> None:
    before = running(world, world.submit(Spec(nodes=2)))
    rival = world.submit(Spec(nodes=2))
    sick, survivor = before.nodes
    world.port.drain(sick, REASON, deadline=DEADLINE)
    world.port.requeue(before, deadline=DEADLINE)
    assert survivor in running(world, rival).nodes
    assert job(world, before.job_id).state == "PENDING"


def test_a_place_is_kept_from_the_drain_to_the_next_run(world: World) -> None:
    """hold-place as the workflow does it; the older rival never starts."""
    before = running(world, world.submit(Spec(nodes=2)))
    rival = world.submit(Spec(nodes=2))
    sick, survivor = before.nodes
    (spare,) = NODES - set(before.nodes)
    world.port.drain(sick, REASON, deadline=DEADLINE)
    reserve(world, survivor)
    world.port.requeue(before, deadline=DEADLINE)
    queued(world, before.job_id)
    put(world, before.job_id)
    world.port.resize_reservation(PLACE, (survivor, spare), deadline=DEADLINE)
    assert set(place(world).nodes) == {survivor, spare}
    world.port.start_now(before.job_id, deadline=DEADLINE)
    after = running(world, before.job_id, restarts=1)
    assert (set(after.nodes), after.reservation) == ({survivor, spare}, PLACE)
    assert job(world, rival).state == "PENDING"
    with pytest.raises(Blocked, match="still in the reservation"):
        world.port.delete_reservation(PLACE, deadline=DEADLINE)
    put(world, before.job_id, "")
    world.port.delete_reservation(PLACE, deadline=DEADLINE)
    assert world.port.reservation(PLACE, deadline=DEADLINE) is None
    ran_on = running(world, before.job_id, restarts=1)
    assert (ran_on.run, ran_on.nodes, ran_on.reservation) == (after.run, after.nodes, "")


def test_a_place_takes_in_a_node_that_is_down_and_its_job_is_the_first_there(world: World) -> None:
    """The replacement comes back under the sick node's name; admit-spare widens the place before that."""
    before = running(world, world.submit(Spec(nodes=2)))
    sick, survivor = before.nodes
    (third,) = NODES - set(before.nodes)
    running(world, world.submit(Spec(nodes=third)))
    rival = world.submit(Spec())
    world.port.drain(sick, REASON, deadline=DEADLINE)
    reserve(world, survivor)
    world.port.requeue(before, deadline=DEADLINE)
    queued(world, before.job_id)
    put(world, before.job_id)
    world.port.set_down(sick, REASON, deadline=DEADLINE)
    world.port.resize_reservation(PLACE, (survivor, sick), deadline=DEADLINE)
    assert set(place(world).nodes) == {survivor, sick}
    world.port.start_now(before.job_id, deadline=DEADLINE)
    world.port.resume(sick, deadline=DEADLINE)
    assert set(running(world, before.job_id, restarts=1).nodes) == {survivor, sick}
    assert job(world, rival).state == "PENDING"
    put(world, before.job_id, "")
    world.port.delete_reservation(PLACE, deadline=DEADLINE)


def test_a_job_in_a_flexible_place_may_also_run_outside_of_it(world: World) -> None:
    reserve(world, "gpu-0")
    busy = running(world, world.submit(Spec(nodes="gpu-1")))
    job_id = world.submit(Spec(nodes=2, later=True))
    put(world, job_id)
    world.port.start_now(job_id, deadline=DEADLINE)
    assert set(running(world, job_id).nodes) == NODES - set(busy.nodes)


def test_a_job_may_be_put_into_its_place_while_it_saves(world: World) -> None:
    before = started(world, Spec(save=4))
    reserve(world, *before.nodes)
    world.port.requeue(before, deadline=DEADLINE)
    put(world, before.job_id)
    assert job(world, before.job_id).is_completing
    assert queued(world, before.job_id).reservation == PLACE


def test_one_array_task_is_put_into_a_place(world: World) -> None:
    array_id = world.submit_array(Spec(), (1, 2))
    last = running(world, array_id)
    other = running(world, array_id + 1)
    world.port.requeue(last, deadline=DEADLINE)
    queued(world, array_id)
    reserve(world, *last.nodes)
    put(world, array_id)
    assert job(world, array_id).reservation == PLACE
    assert running(world, other.job_id) == other


def test_each_component_of_a_heterogeneous_job_is_put_by_itself(world: World) -> None:
    leader = world.submit_het(Spec(held=True))
    reserve(world, "gpu-0")
    put(world, leader)
    assert [job(world, leader + i).reservation for i in range(2)] == [PLACE, ""]
    put(world, leader + 1)
    assert job(world, leader + 1).reservation == PLACE


def test_a_resize_drops_nodes_that_slurmctld_does_not_know(world: World) -> None:
    reserve(world, "gpu-0")
    world.port.resize_reservation(PLACE, ("gpu-1", "nope"), deadline=DEADLINE)
    assert place(world).nodes == ("gpu-1",)
    with pytest.raises(BadInput, match="none of its nodes"):
        world.port.resize_reservation(PLACE, ("nope",), deadline=DEADLINE)
    assert place(world).nodes == ("gpu-1",)


def test_a_resize_never_makes_a_reservation(world: World) -> None:
    with pytest.raises(BadInput, match="no such reservation"):
        world.port.resize_reservation(PLACE, ("gpu-0",), deadline=DEADLINE)
    assert world.port.reservations(deadline=DEADLINE) == ()


def test_two_reservations_never_share_a_node(world: World) -> None:
    reserve(world, "gpu-0")
    reserve(world, "gpu-1", name="other")
    with pytest.raises(Blocked, match="another reservation"):
        reserve(world, "gpu-0", "gpu-2", name="third")
    with pytest.raises(Blocked, match="another reservation"):
        world.port.resize_reservation(PLACE, ("gpu-0", "gpu-1"), deadline=DEADLINE)
    assert place(world).nodes == ("gpu-0",)


def test_reserving_a_name_again_is_blocked_and_changes_nothing(world: World) -> None:
    reserve(world, "gpu-0")
    first = place(world)
    with pytest.raises(Blocked, match="begun already"):
        reserve(world, "gpu-1")
    assert place(world) == first


def test_an_unknown_node_cannot_be_reserved(world: World) -> None:
    with pytest.raises(BadInput, match="no such node"):
        reserve(world, "gpu-0", "nope")
    assert world.port.reservations(deadline=DEADLINE) == ()


def test_deleting_a_reservation_that_is_gone_is_success(world: World) -> None:
    reserve(world, "gpu-0")
    for _ in range(2):
        world.port.delete_reservation(PLACE, deadline=DEADLINE)
    assert world.port.reservations(deadline=DEADLINE) == ()


def test_a_place_of_another_user_is_blocked(world: World) -> None:
    reserve(world, "gpu-0", user="root")
    job_id = world.submit(Spec(held=True))
    with pytest.raises(Blocked, match="owner"):
        put(world, job_id)
    assert job(world, job_id).reservation == ""


def test_a_job_cannot_be_put_where_there_is_no_place(world: World) -> None:
    job_id = world.submit(Spec(held=True))
    with pytest.raises(BadInput, match="no such reservation"):
        put(world, job_id)
    with pytest.raises(BadInput, match="no such job"):
        put(world, 999_999, "")


def test_a_job_that_has_ended_needs_no_place(world: World) -> None:
    job_id = running(world, world.submit(Spec())).job_id
    reserve(world, "gpu-0")
    world.cancel(job_id)
    world.until("the end", lambda: job(world, job_id).is_over)
    with pytest.raises(Blocked, match="already over"):
        put(world, job_id)
    put(world, job_id, "")


def test_a_job_that_waits_when_its_place_ends_is_not_held(world: World) -> None:
    """Slurm holds it (RESV_DEL_HOLD) unless it is told not to; the running job survives (FLEX)."""
    reserve(world, "gpu-0")
    runs = running(world, world.submit(Spec(nodes="gpu-1")))
    waits = world.submit(Spec(later=True))
    put(world, runs.job_id)
    put(world, waits)
    world.end_reservation(PLACE)
    world.until("the end of the place", lambda: not world.port.reservations(deadline=DEADLINE))
    assert running(world, runs.job_id).run == runs.run
    seen = job(world, waits)
    assert (seen.state, seen.held, seen.reservation) == ("PENDING", False, "")
    assert "RESV_DEL_HOLD" not in seen.flags
    world.port.start_now(waits, deadline=DEADLINE)
    running(world, waits)


def test_a_maintenance_reservation_is_listed_with_every_node(world: World) -> None:
    world.plan_maintenance("maint_1", ("gpu-1", "gpu-2"))
    (seen,) = world.port.reservations(deadline=DEADLINE)
    assert (seen.name, seen.nodes, seen.users) == ("maint_1", ("gpu-1", "gpu-2"), ("root",))
    assert seen.is_maintenance
    assert seen.start is not None
    assert seen.covers("gpu-1", seen.start)
    assert not seen.covers("gpu-0", seen.start)
    world.until("MAINTENANCE on gpu-1", lambda: "MAINTENANCE" in node(world, "gpu-1").flags)


BAD_NAMES = ["", "a b", "a,b", "../jobs", "1", "a\n", "x" * 65]
BY_NAME: dict[str, Callable[[SlurmPort, str], None]] = {
    "reserve": lambda port, name: port.reserve(name, ("gpu-0",), ("alice",), 15, deadline=DEADLINE),
    "resize": lambda port, name: port.resize_reservation(name, ("gpu-0",), deadline=DEADLINE),
    "delete": lambda port, name: port.delete_reservation(name, deadline=DEADLINE),
}


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("op", BY_NAME)
def test_only_a_literal_reservation_name_is_taken(world: World, op: str, name: str) -> None:
    with pytest.raises(BadInput, match="literal reservation name"):
        BY_NAME[op](world.port, name)


@pytest.mark.parametrize("user", ["", "-alice", "alice,bob", "a b"])
def test_only_literal_users_are_taken(world: World, user: str) -> None:
    """`-alice` would be everybody but alice."""
    with pytest.raises(BadInput, match="literal user"):
        reserve(world, "gpu-0", user=user)
    assert world.port.reservations(deadline=DEADLINE) == ()


@pytest.mark.parametrize("nodes", [(), ("ALL",), ("gpu-[0-2]",)])
def test_only_literal_nodes_are_reserved(world: World, nodes: tuple[str, ...]) -> None:
    """For an empty list Slurm would choose nodes itself."""
    reserve(world, "gpu-0")
    with pytest.raises(BadInput, match="node"):
        world.port.reserve("other", nodes, ("alice",), 15, deadline=DEADLINE)
    with pytest.raises(BadInput, match="node"):
        world.port.resize_reservation(PLACE, nodes, deadline=DEADLINE)
    assert [found.nodes for found in world.port.reservations(deadline=DEADLINE)] == [("gpu-0",)]
