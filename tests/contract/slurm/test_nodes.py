"""What every Slurm backend does with nodes."""

from __future__ import annotations

import pytest

from remediator.errors import BadInput, Blocked
from tests.contract.slurm.worlds import DEADLINE, Spec, World, node, running

REASON = "remediator: inc-1 XID 79"


def test_all_nodes_are_listed_idle(world: World) -> None:
    found = {n.name: n for n in world.port.nodes(deadline=DEADLINE)}
    assert sorted(found) == ["gpu-0", "gpu-1", "gpu-2"]
    assert not any(n.is_busy or n.is_drain or n.is_silent or n.is_down for n in found.values())


def test_a_node_shows_its_gpus_and_times(world: World) -> None:
    seen = node(world, "gpu-0")
    assert seen.gres == "gpu:8"
    assert seen.address == "127.0.0.1"
    assert seen.boot_time is not None
    assert seen.slurmd_start_time is not None
    assert seen.reason_at is None


def test_an_unknown_node_is_none(world: World) -> None:
    assert world.port.node("nope", deadline=DEADLINE) is None


def test_drain_sets_flag_reason_and_user(world: World) -> None:
    world.port.drain("gpu-0", REASON, deadline=DEADLINE)
    seen = node(world, "gpu-0")
    assert (seen.is_drain, seen.is_busy, seen.reason, seen.reason_user) == (True, False, REASON, "slurm")
    assert seen.reason_at is not None
    assert not node(world, "gpu-1").is_drain


def test_repeating_a_drain_changes_nothing(world: World) -> None:
    world.port.drain("gpu-0", REASON, deadline=DEADLINE)
    first = node(world, "gpu-0")
    world.port.drain("gpu-0", REASON, deadline=DEADLINE)
    assert node(world, "gpu-0") == first
    assert world.drains("gpu-0") == 1


def test_a_drain_lets_the_job_run_on(world: World) -> None:
    job_id = world.submit(Spec())
    name = running(world, job_id).nodes[0]
    world.port.drain(name, REASON, deadline=DEADLINE)
    assert node(world, name).is_drain
    assert node(world, name).is_busy
    assert running(world, job_id).nodes == (name,)


def test_no_job_starts_on_a_drained_node(world: World) -> None:
    world.port.drain("gpu-0", REASON, deadline=DEADLINE)
    jobs = [world.submit(Spec()) for _ in range(2)]
    assert {running(world, job_id).nodes[0] for job_id in jobs} == {"gpu-1", "gpu-2"}


def test_resume_clears_drain_and_reason(world: World) -> None:
    world.port.drain("gpu-0", REASON, deadline=DEADLINE)
    world.port.resume("gpu-0", deadline=DEADLINE)
    seen = node(world, "gpu-0")
    assert not seen.is_drain
    assert seen.reason == ""


def test_resume_of_a_node_that_is_not_drained_is_blocked(world: World) -> None:
    with pytest.raises(Blocked, match="resume gpu-0"):
        world.port.resume("gpu-0", deadline=DEADLINE)


def test_a_write_to_an_unknown_node_is_bad_input(world: World) -> None:
    with pytest.raises(BadInput, match="no such node"):
        world.port.drain("nope", REASON, deadline=DEADLINE)


@pytest.mark.parametrize("name", ["ALL", "gpu-[0-2]", "gpu-0,gpu-1", "../jobs", "gpu-0;id", "", "gpu-0\n"])
def test_only_one_literal_node_can_be_drained(world: World, name: str) -> None:
    with pytest.raises(BadInput, match="literal"):
        world.port.drain(name, REASON, deadline=DEADLINE)
    assert not any(n.is_drain for n in world.port.nodes(deadline=DEADLINE))


def test_config_shows_what_the_service_depends_on(world: World) -> None:
    config = world.port.config(deadline=DEADLINE)
    assert (config.kill_wait, config.min_job_age) == (world.kill_wait, world.min_job_age)
    assert config.slurmd_timeout == 30
    assert config.job_file_append is True
    assert config.version.startswith("26.05")
    world.port.ping(deadline=DEADLINE)


def test_the_start_time_moves_when_slurmctld_restarts_and_a_saved_drain_stays(world: World) -> None:
    before = world.port.config(deadline=DEADLINE).started_at
    assert before is not None
    world.port.drain("gpu-0", REASON, deadline=DEADLINE)
    assert world.port.config(deadline=DEADLINE).started_at == before
    world.restart_ctld()
    after = world.port.config(deadline=DEADLINE).started_at
    assert after is not None
    assert after > before
    assert node(world, "gpu-0").is_drain
