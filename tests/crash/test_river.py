"""The thin river end to end on fake servers, and a crash at every moment that matters."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from remediator.audit import chain
from remediator.errors import Ambiguous
from remediator.model.machine import Machine
from remediator.run.inventory import CachedInventory
from remediator.store import outbox
from tests.fakes.river import River

MUTATING = (
    "drain-slurm",
    "fence-node",
    "hold-place",
    "release-jobs",
    "start-jobs",
    "free-place",
    "claim-spare",
    "validate-spare",
    "evict-pods",
    "detach-node",
    "admit-spare",
)
MOMENTS = [f"{step}:{moment}" for step in MUTATING for moment in ("intent", "accepted")]


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path)


def chain_is_whole(river: River) -> bool:
    with river.store.read() as connection:
        return chain.verify(connection).ok


def assert_moved_once(river: River, job: int, sick: str = "gpu-0") -> None:
    """One drain, one requeue, one spare, the job running again, no place kept, the incident closed."""
    seen = river.job(job)
    assert (seen.state, seen.restart_count) == ("RUNNING", 1)
    assert river.slurm.count("drain", f"w-{sick}") == 1
    assert river.slurm.count("requeue", str(job)) == 1
    ours = [write.op for write in river.kube.ours(sick)]
    assert ours.count("patch") == 2  # the fence, then out of the pool
    assert river.kube.view(sick).unschedulable
    assert river.admitted() == ["spare-0"]
    assert river.worker_node(f"w-{sick}") == "spare-0"
    assert river.slurm.reservations(deadline=5.0) == ()
    assert [incident.state for incident in river.all_incidents()] == ["closed"]
    assert chain_is_whole(river)


def test_a_kernel_line_ends_with_the_job_running_elsewhere(river: River) -> None:
    job = river.submit_job()
    assert river.job(job).nodes == ("w-gpu-0", "w-gpu-1")
    river.xid("gpu-0")
    river.run()
    assert_moved_once(river, job)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("save", [0.0, 1.0, 5.0])
def test_a_crash_at_any_moment_repeats_nothing(river: River, moment: str, save: float) -> None:
    job = river.submit_job(save=save)
    crashed = river.crash_at(moment)
    river.xid("gpu-0")
    river.run_through_crashes()
    assert crashed == [moment]
    assert_moved_once(river, job)


@pytest.mark.parametrize(("first", "second"), Random(7).sample(list(product(MOMENTS, MOMENTS)), 60))
def test_two_crashes_repeat_nothing(tmp_path: Path, first: str, second: str) -> None:
    river = River(tmp_path)
    job = river.submit_job()
    river.crash_at(first, second)
    river.xid("gpu-0")
    river.run_through_crashes()
    assert_moved_once(river, job)


@pytest.mark.parametrize("op", ["drain", "requeue", "start_now"])
def test_a_lost_answer_of_slurm_is_looked_up_not_repeated(river: River, op: str) -> None:
    job = river.submit_job()
    lost: list[str] = []

    def after(name: str, target: str) -> None:
        if name == op and not lost:
            lost.append(target)
            raise Ambiguous(f"{name} {target}: the connection broke")

    river.slurm.after = after
    river.xid("gpu-0")
    river.run()
    assert len(lost) == 1
    assert_moved_once(river, job)


def test_a_lost_answer_of_kubernetes_is_looked_up_not_repeated(river: River) -> None:
    job = river.submit_job()
    lost: list[str] = []

    def after(op: str) -> None:
        if op.startswith("patch") and not lost:
            lost.append(op)
            raise Ambiguous(f"{op}: the connection broke")

    river.kube.after = after
    river.xid("gpu-0")
    river.run()
    assert len(lost) == 1
    assert_moved_once(river, job)


def test_the_same_line_three_times_and_after_restarts_is_one_incident(river: River) -> None:
    job = river.submit_job()
    for seq in (1, 2, 3):
        river.xid("gpu-0", seq=seq)
        river.xid("gpu-0", seq=seq)
    river.turn()
    river.begin()
    river.xid("gpu-0", seq=2)
    river.run()
    river.xid("gpu-0", seq=4)
    river.run(5.0)
    assert_moved_once(river, job)


def test_slurm_unreachable_means_no_write_anywhere_and_then_it_goes_on(river: River) -> None:
    job = river.submit_job()
    river.slurm.is_up = False
    river.xid("gpu-0")
    river.run(30.0)
    assert river.slurm.writes == []
    assert river.kube.writes == []
    assert [incident.state for incident in river.all_incidents()] == ["open"]
    river.slurm.is_up = True
    river.run()
    assert_moved_once(river, job)


def test_an_unknown_node_is_recorded_and_nothing_is_written(river: River) -> None:
    for name in ("nobody", "gpu-0,gpu-1", "ALL", "gpu-[0-3]", "$(touch x)"):
        river.xid(name)
    river.run(3.0)
    assert river.slurm.writes == []
    assert river.kube.writes == []
    assert river.all_incidents() == []


def test_one_signal_that_breaks_the_judge_does_not_stop_the_others(
    river: River, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = river.submit_job()
    real = CachedInventory.machine

    def machine(self: CachedInventory, name: str) -> Machine | None:
        if name == "gpu-3":
            raise KeyError(name)
        return real(self, name)

    monkeypatch.setattr(CachedInventory, "machine", machine)
    river.xid("gpu-3")
    river.xid("gpu-0")
    river.run()
    assert_moved_once(river, job)


def test_evidence_of_an_older_boot_never_acts(river: River) -> None:
    river.xid("gpu-0", boot="boot-of-yesterday")
    river.run(3.0)
    assert river.all_incidents() == []
    river.clock.advance(200.0)
    river.run(3.0)
    assert river.all_incidents() == []
    assert river.slurm.writes == []


def test_a_fresh_signal_waits_for_the_kubelet_to_report_the_new_boot(river: River) -> None:
    river.xid("gpu-0", boot="boot-after-power-on")
    river.run(3.0)
    assert river.all_incidents() == []
    river.kube.reboot("gpu-0", "boot-after-power-on")
    river.run(60.0)
    assert len(river.all_incidents()) == 1


def test_a_persons_drain_reason_is_kept_and_the_incident_is_held(river: River) -> None:
    river.slurm.drain("w-gpu-0", "admin: swapping a cable", deadline=5.0)
    river.slurm.writes.clear()
    job = river.submit_job(width=1)
    river.xid("gpu-0")
    river.run(30.0)
    assert river.slurm.writes == []
    assert river.kube.writes == []
    assert [incident.state for incident in river.all_incidents()] == ["held"]
    assert river.job(job).restart_count == 0


def test_a_resumed_node_is_left_alone_and_its_job_not_requeued(river: River) -> None:
    job = river.submit_job()

    def before(op: str, _target: str) -> None:
        if op == "requeue":
            raise AssertionError("requeued although a person resumed the node")

    river.slurm.before = before
    river.xid("gpu-0")
    while not river.kube.ours("gpu-0"):
        river.turn()
    river.slurm.before = lambda _op, _target: None
    river.slurm.resume("w-gpu-0", deadline=5.0)
    river.slurm.before = before
    river.run(20.0)
    assert river.job(job).restart_count == 0
    assert [incident.state for incident in river.all_incidents()] == ["overridden"]


def test_a_drain_slurmctld_forgot_is_asserted_again(river: River) -> None:
    job = river.submit_job(save=5.0)
    river.xid("gpu-0")
    while not river.slurm.count("drain", "w-gpu-0"):
        river.turn()
    for _ in range(3):
        river.turn()
    river.clock.advance(1.0)
    forgotten = river.slurm.node("w-gpu-0", deadline=5.0)
    assert forgotten is not None
    river.slurm.kill_ctld()
    river.slurm.mark("w-gpu-0", flags=forgotten.flags - {"DRAIN"})
    river.run()
    assert river.slurm.count("drain", "w-gpu-0") == 2
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 1)
    assert "w-gpu-0" not in river.job(job).nodes
    assert chain_is_whole(river)


def test_two_incidents_on_one_job_requeue_it_once(river: River) -> None:
    job = river.submit_job()
    river.xid("gpu-0")
    river.xid("gpu-1")
    river.run()
    seen = river.job(job)
    assert (seen.state, seen.restart_count, seen.nodes) == ("RUNNING", 1, ("w-gpu-2", "w-gpu-3"))
    assert river.slurm.count("requeue", str(job)) == 1
    assert [incident.state for incident in river.all_incidents()] == ["closed", "closed"]


LEFT_ALONE: list[dict[str, Any]] = [{"batch": False}, {"requeue": False}, {"comment": "x remediator:leave"}]


@pytest.mark.parametrize("fields", LEFT_ALONE)
def test_a_job_that_may_not_be_requeued_is_left_until_it_ends(river: River, fields: dict[str, Any]) -> None:
    job = river.submit_job(width=1, **fields)
    river.xid("gpu-0")
    river.run(600.0)
    (held,) = river.all_incidents()
    assert held.state == "held"
    assert told(river) == ["user:alice", "operators"]
    assert river.job(job).state == "RUNNING"
    assert river.slurm.count("requeue", str(job)) == 0
    assert river.slurm.count("drain", "w-gpu-0") == 1
    with river.store.read() as connection:
        intents = [r["step"] for r in chain.read(connection) if r["action"] == "intent"]
    assert "release-jobs" not in intents
    river.slurm.cancel(job)
    river.run(60.0)
    assert [(found.id, found.state) for found in river.all_incidents()] == [(held.id, "closed")]
    assert told(river) == ["user:alice", "operators", "operators"]  # held, closed; the owner knows the rest


def test_a_job_whose_owner_lets_it_go_after_all_moves_in_the_same_incident(river: River) -> None:
    """Nobody is called a second time: what was held for ten minutes is not ten minutes late."""
    job = river.submit_job(save=5.0, comment="remediator:leave")
    river.xid("gpu-0")
    river.run(600.0)
    (held,) = river.all_incidents()
    assert (held.state, river.job(job).restart_count) == ("held", 0)
    river.slurm.comment(job, "")
    river.run(60.0)
    assert_moved_once(river, job)
    assert told(river) == ["user:alice", "operators", "user:alice", "operators"]


def told(river: River) -> list[str]:
    """Who got a message, in order."""
    with river.store.read() as connection:
        return [message.message.audience for message in outbox.due(connection, river.clock.now())]


def test_a_job_that_ignores_term_is_requeued_after_killwait(river: River) -> None:
    job = river.submit_job(save=1000.0)
    river.xid("gpu-0")
    river.run()
    assert_moved_once(river, job)


def test_slurmctld_that_forgets_a_requeue_is_asked_again(river: River) -> None:
    job = river.submit_job()
    forgot: list[int] = []

    def after(op: str, _target: str) -> None:
        if op == "requeue" and not forgot:
            forgot.append(1)
            river.slurm.kill_ctld(forget=1)

    river.slurm.after = after
    river.xid("gpu-0")
    river.run()
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 1)


def test_every_write_of_a_server_has_its_intent_and_outcome(river: River) -> None:
    river.submit_job()
    river.xid("gpu-0")
    river.run()
    with river.store.read() as connection:
        records = list(chain.read(connection))
    for step, writes in (("drain-slurm", 1), ("fence-node", 1), ("release-jobs", 1), ("start-jobs", 1)):
        mine = [record for record in records if record["step"] == step]
        assert [record["action"] for record in mine].count("intent") == writes
        assert mine[-1]["action"] == "outcome"
        assert mine[-1]["outcome"] == "done"
    assert all(record["epoch"] == 1 for record in records)
    assert records[-1]["action"] == "incident-closed"


@pytest.mark.slow  # seven minutes of the machine's life, some seconds of ours
@pytest.mark.parametrize("moment", ["force-down:intent", "force-down:accepted"])
def test_a_crash_while_a_job_is_forced_off_sets_the_node_down_once(river: River, moment: str) -> None:
    river.slurm.kill_wait = 1000
    job = river.submit_job(save=240.0)
    crashed = river.crash_at(moment)
    river.xid("gpu-0")
    river.run_through_crashes(600.0)
    assert crashed == [moment]
    assert river.slurm.count("set_down", "w-gpu-0") == 1
    assert_moved_once(river, job)
