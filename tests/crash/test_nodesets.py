"""NodeSets that are not one moving worker a node: DaemonSet mode, and several workers on a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from remediator.audit import chain
from remediator.kube.nodesets import REVISION
from remediator.kube.spare import RETIRED
from remediator.store import commands, outbox
from remediator.store.commands import Command
from tests.crash.test_river import MOMENTS
from tests.fakes.nodesets import CrowdedRiver, DaemonRiver, PinnedRiver
from tests.fakes.river import WORKER, River
from tests.fakes.slurm_ctld import TERMINATING

SICK, SPARE = "gpu-0", "spare-0"
WORKERS: dict[type[River], str] = {River: "w-gpu-0", DaemonRiver: SICK}
NODE_TRACK = [
    f"{step}:{moment}"
    for step in ("evict-pods", "admit-spare", "rejoin-slurm")
    for moment in ("intent", "accepted")
]
BOTH_WORKERS = ["drain-slurm:intent", "drain-slurm:accepted", "release-jobs:accepted", "evict-pods:accepted"]
AFTER_EACH = [moment for moment in MOMENTS if moment.endswith("accepted")]


def sentence(river: River, step: str) -> str:
    (incident,) = river.all_incidents()
    return next(row.sentence for row in river.steps(incident.id) if row.name == step)


def told(river: River, user: str) -> list[str]:
    with river.store.read() as connection:
        waiting = outbox.due(connection, river.clock.now(), 1000)
    return [row.message.text for row in waiting if row.message.audience == f"user:{user}"]


def pages(river: River) -> list[str]:
    with river.store.read() as connection:
        waiting = outbox.due(connection, river.clock.now(), 1000)
    return [row.message.text for row in waiting if row.message.urgency == "page"]


def state(river: River) -> str:
    (incident,) = river.all_incidents()
    return incident.state


def give_back(river: River) -> None:
    """A mended machine is returned."""
    river.kube.reboot(SICK, "boot-mended")
    wanted = Command("c-1", "return", SICK, "ann", river.clock.now())
    with river.store.write() as connection:
        commands.ask(connection, wanted)
    river.turn()
    river.run()


def closed_once(river: River, jobs: list[int]) -> bool:
    """Each job runs as its next restart after one requeue, no place is kept, the record is whole."""
    with river.store.read() as connection:
        whole = chain.verify(connection).ok
    again = [(river.job(job).state, river.job(job).restart_count) for job in jobs]
    asked = [river.slurm.count("requeue", str(job)) for job in jobs]
    states = [incident.state for incident in river.all_incidents()]
    kept = river.slurm.reservations(deadline=5.0)
    wanted = ([("RUNNING", 1)] * len(jobs), [1] * len(jobs), ["closed"], ())
    return whole and (again, asked, states, kept) == wanted


def test_in_daemonset_mode_another_slurm_node_takes_the_place_of_the_sick_one(tmp_path: Path) -> None:
    river = DaemonRiver(tmp_path)
    job = river.submit_job()
    river.xid(SICK)
    river.run()
    assert closed_once(river, [job])
    assert river.worker_node(SPARE) == SPARE
    assert sentence(river, "rejoin-slurm").startswith(
        f"{SPARE} takes jobs again on {SPARE} in place of {SICK}"
    )
    old = river.slurm.node(SICK, deadline=5.0)
    assert old is not None
    assert old.is_down
    assert river.slurm.count("resume", SICK) == 0


@pytest.mark.parametrize("moment", NODE_TRACK)
def test_in_daemonset_mode_a_crash_at_any_moment_repeats_nothing(tmp_path: Path, moment: str) -> None:
    river = DaemonRiver(tmp_path)
    job = river.submit_job(width=4)
    crashed = river.crash_at(moment)
    river.xid(SICK)
    river.run_through_crashes()
    assert crashed == [moment]
    assert closed_once(river, [job])
    assert SPARE in river.job(job).nodes


def test_in_daemonset_mode_the_replacement_joins_the_place_of_the_job_that_waits(tmp_path: Path) -> None:
    river = DaemonRiver(tmp_path)
    job = river.submit_job(width=4)
    river.xid(SICK)
    river.run()
    assert closed_once(river, [job])
    grown = [write for write in river.slurm.writes if write.op == "resize_reservation" and write.effect]
    assert [write.detail.split(",")[-1] for write in grown][-1] == SPARE


def test_in_daemonset_mode_whoever_asks_for_the_old_worker_by_name_is_told(tmp_path: Path) -> None:
    river = DaemonRiver(tmp_path)
    river.submit_job(width=4, user="alice")
    waits = river.submit_job(width=1, user="bob", required_nodes=(SICK,))
    assert river.job(waits).state == "PENDING"
    river.xid(SICK)
    river.run()
    assert f"job {waits} asks for it by name" in sentence(river, "rejoin-slurm")
    assert any(f"job {waits}" in text and SICK in text for text in told(river, "bob"))


def test_all_workers_of_a_machine_are_drained_emptied_evicted_and_back(tmp_path: Path) -> None:
    river = CrowdedRiver(tmp_path)
    both = ("v-gpu-0", "w-gpu-0")
    wide = river.submit_job(width=3)
    narrow = river.submit_job(width=1)
    assert set(both) <= set(river.job(wide).nodes)
    river.xid(SICK)
    river.run()
    assert closed_once(river, [wide])
    assert river.job(narrow).restart_count == 0
    assert [river.slurm.count("drain", worker) for worker in both] == [1, 1]
    assert [river.worker_node(worker) for worker in both] == [SPARE, SPARE]


@pytest.mark.parametrize("moment", BOTH_WORKERS)
def test_with_two_workers_and_two_jobs_a_crash_at_any_moment_repeats_nothing(
    tmp_path: Path, moment: str
) -> None:
    river = CrowdedRiver(tmp_path)
    jobs = [river.submit_job(width=1, required_nodes=()) for _ in range(2)]
    assert [river.job(job).nodes for job in jobs] == [("v-gpu-0",), ("w-gpu-0",)]
    river.crash_at(moment)
    river.xid(SICK)
    river.run_through_crashes()
    assert closed_once(river, jobs)


def test_a_worker_that_came_after_the_incident_was_opened_is_drained_and_evicted_too(tmp_path: Path) -> None:
    river = CrowdedRiver(tmp_path)
    job = river.submit_job(width=1)
    assert river.job(job).nodes == ("v-gpu-0",)
    river.kube.change_pod("slurm", "v-gpu-0", {"metadata": {"labels": {"app.kubernetes.io/name": "unseen"}}})
    river.xid(SICK)
    river.turn()
    river.kube.change_pod("slurm", "v-gpu-0", {"metadata": {"labels": WORKER}})
    river.run()
    assert closed_once(river, [job])
    assert river.slurm.count("drain", "v-gpu-0") == 1
    assert river.worker_node("v-gpu-0") == SPARE


def test_a_pinned_worker_that_finds_no_node_holds_and_goes_on_once_it_does(tmp_path: Path) -> None:
    river = PinnedRiver(tmp_path)
    job = river.submit_job()
    river.xid(SICK)
    river.run(200.0)
    assert state(river) == "held"
    assert "is pinned to gpu-0 (pinToNode); 0/6 nodes are available" in sentence(river, "rejoin-slurm")
    assert len([page for page in pages(river) if "is held" in page]) == 1
    river.unpin()
    river.run()
    assert closed_once(river, [job])
    assert river.worker_node("w-gpu-0") == SPARE


def of_nodeset(river: River, worker: str, revision: str) -> None:
    owner = {"kind": "NodeSet", "name": "worker", "uid": "uid-worker"}
    meta = {"labels": {REVISION: revision}, "ownerReferences": [owner]}
    river.kube.change_pod("slurm", worker, {"metadata": meta})


def test_during_a_rollout_the_jobs_move_and_the_node_waits_until_it_is_over(tmp_path: Path) -> None:
    river = River(tmp_path)
    river.kube.set_nodeset("worker", "new")
    for worker in river.workers:
        of_nodeset(river, worker, "new")
    of_nodeset(river, "w-gpu-3", "old")
    job = river.submit_job()
    river.xid(SICK)
    river.run(60.0)
    assert state(river) == "held"
    assert river.job(job).restart_count == 1
    assert not river.kube.view(SICK).unschedulable
    assert any("NodeSet slurm/worker is being rolled out" in page for page in pages(river))
    of_nodeset(river, "w-gpu-3", "new")
    river.run()
    assert closed_once(river, [job])


def test_a_rollout_that_takes_the_drained_worker_away_is_no_person(tmp_path: Path) -> None:
    river = River(tmp_path)
    river.kube.set_nodeset("worker", "new")
    of_nodeset(river, "w-gpu-0", "old")
    job = river.submit_job()
    river.xid(SICK)
    river.run(30.0)
    condemned = "slurm-operator: Pod (slurm/w-gpu-0) is pending termination for scale-in"
    river.slurm.drain("w-gpu-0", condemned, deadline=5.0)
    river.run(30.0)
    assert state(river) == "held"
    river.kube.remove_pod("slurm", "w-gpu-0")
    river.slurm.writes.clear()
    river.run()
    assert state(river) == "closed"
    assert river.worker_node("w-gpu-0") == SPARE
    assert river.job(job).restart_count == 1


def test_a_worker_that_a_rollout_moved_to_another_machine_is_left_alone_there(tmp_path: Path) -> None:
    river = River(tmp_path, spares=0, no_spare="page")
    river.xid(SICK)
    river.run(30.0)
    river.add_spare("late-0")
    river.kube.remove_pod("slurm", "w-gpu-0")
    river.kube.set_taints(
        "late-0", [{"key": "remediator.dev/worker", "value": "true", "effect": "NoSchedule"}]
    )
    river.run(30.0)
    assert river.worker_node("w-gpu-0") == "late-0"
    seen = river.slurm.node("w-gpu-0", deadline=5.0)
    assert seen is not None
    assert not seen.is_drain
    assert river.slurm.count("drain", "w-gpu-0") == 1
    job = river.submit_job(width=4)
    river.run(30.0)
    assert river.job(job).restart_count == 0


@pytest.mark.parametrize("kind", [River, DaemonRiver])
def test_a_worker_that_our_eviction_left_down_is_resumed_when_its_machine_is_returned(
    tmp_path: Path, kind: type[River]
) -> None:
    river = kind(tmp_path, spares=0)
    (worker,) = river.workers_of(SICK)
    river.xid(SICK)
    river.run()
    seen = river.slurm.node(worker, deadline=5.0)
    assert seen is not None
    assert (seen.is_down, seen.reason) == (True, TERMINATING)
    give_back(river)
    back = river.slurm.node(worker, deadline=5.0)
    assert back is not None
    assert (back.state, back.is_drain, river.worker_node(worker)) == ("IDLE", False, SICK)
    assert river.slurm.count("resume", worker) <= 1
    assert {incident.state for incident in river.all_incidents()} == {"closed"}


def test_an_evicted_worker_that_came_back_because_a_person_uncordoned_is_resumed(tmp_path: Path) -> None:
    river = River(tmp_path)
    river.submit_job(width=1)

    def lift(op: str) -> None:
        if op == "evict":
            keys = [dict(taint.raw) for taint in river.kube.view(SICK).taints if "fenced" not in taint.key]
            river.kube.set_taints(SICK, keys)
            river.kube.uncordon(SICK)

    river.kube.after = lift
    river.xid(SICK)
    river.run()
    assert state(river) == "overridden"
    assert RETIRED not in {taint.key for taint in river.kube.view(SICK).taints}
    back = river.slurm.node("w-gpu-0", deadline=5.0)
    assert back is not None
    assert (back.state, back.is_drain, river.worker_node("w-gpu-0")) == ("IDLE", False, SICK)
    assert river.slurm.count("resume", "w-gpu-0") == 1


@pytest.mark.parametrize("moment", AFTER_EACH)
def test_while_slurmrestd_is_gone_nothing_is_written_and_then_it_goes_on(tmp_path: Path, moment: str) -> None:
    river = River(tmp_path)
    job = river.submit_job()

    def probe(now: str) -> None:
        if now == moment and not gone:
            gone.append(now)
            river.slurm.is_up = False

    gone: list[str] = []
    river.probe = probe
    river.xid(SICK)
    while not gone:
        river.turn()
    river.clock.advance(2.0)
    ours = len(river.slurm.writes), [write.actor for write in river.kube.writes].count("remediator")
    river.run(30.0)
    assert ours == (
        len(river.slurm.writes),
        [write.actor for write in river.kube.writes].count("remediator"),
    )
    river.slurm.is_up = True
    river.run()
    assert closed_once(river, [job])


@pytest.mark.parametrize("kind", [River, DaemonRiver])
def test_a_worker_whose_pod_tolerates_every_taint_is_not_evicted_over_and_over(
    tmp_path: Path, kind: type[River], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        kind, "takes_workers", lambda self, name: name == SICK and not self.worker_node(WORKERS[kind])
    )
    river = kind(tmp_path)
    river.xid(SICK)
    river.run(200.0)
    assert state(river) == "held"
    assert "came back onto gpu-0 after its eviction" in sentence(river, "evict-pods")
    seen = river.slurm.node(WORKERS[kind], deadline=5.0)
    assert seen is not None
    assert seen.is_drain
    assert [write.op for write in river.kube.writes].count("evict") == 1
