"""`remediator return NODE`: what is taken back, what is refused, and a crash at every moment that matters."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from random import Random

import pytest

from remediator.audit import chain
from remediator.errors import Ambiguous
from remediator.kube.fence import CORDON_REASON, DID, FENCED, INCIDENT
from remediator.kube.spare import DETACHED, RETIRED, SpareKeys
from remediator.model.incident import GIVE_BACK, Incident
from remediator.settings import Pool
from remediator.store import commands
from remediator.store.commands import Command
from tests.fakes import river as rivers
from tests.fakes.river import River

SICK, WORKER = "gpu-0", "w-gpu-0"
MOMENTS = [
    f"{step}:{moment}"
    for step in ("accept-node", "unfence-node", "resume-slurm")
    for moment in ("intent", "accepted")
]
OF_REPLACED = [
    f"{step}:{moment}" for step in ("attach-node", "unfence-node") for moment in ("intent", "accepted")
]


@pytest.fixture
def moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> River:
    """The pool moves jobs only; gpu-0 is drained and fenced, its incident closed, the machine rebooted."""
    monkeypatch.setitem(rivers.POOLS, "training", Pool(node_selector={"pool": "training"}, stage="move-jobs"))
    return out_of_service(River(tmp_path))


@pytest.fixture
def replaced(tmp_path: Path) -> River:
    """gpu-0 was replaced and is out of its pool, its incident closed, the machine rebooted."""
    return out_of_service(River(tmp_path))


def out_of_service(river: River) -> River:
    river.submit_job()
    river.xid(SICK)
    river.run()
    assert [incident.state for incident in river.all_incidents()] == ["closed"]
    assert river.kube.view(SICK).unschedulable
    river.kube.reboot(SICK, "boot-repaired")
    river.clock.advance(3600.0)
    return river


def ask(river: River, argument: str = SICK, who: str = "ann") -> str:
    """Write the command as the command line does; its name."""
    wanted = Command(f"c-{river.clock.now()}", "return", argument, who, river.clock.now())
    with river.store.write() as connection:
        commands.ask(connection, wanted)
    return wanted.id


def told(river: River, argument: str = SICK) -> Command:
    """Ask, and the core's answer."""
    name = ask(river, argument)
    river.turn()
    with river.store.read() as connection:
        found = commands.get(connection, name)
    assert found is not None
    assert found.answered_at is not None
    return found


def returns(river: River) -> list[Incident]:
    return [incident for incident in river.all_incidents() if incident.plan == GIVE_BACK]


def assert_in_service(river: River) -> None:
    """Nothing of ours is left on the node; each thing was taken back once."""
    node = river.kube.view(SICK)
    assert {taint.key for taint in node.taints} == {SpareKeys().worker}
    assert not node.unschedulable
    assert not {FENCED, INCIDENT, DID, CORDON_REASON, DETACHED, RETIRED} & set(node.annotations)
    assert [incident.state for incident in returns(river)] == ["closed"]
    with river.store.read() as connection:
        assert chain.verify(connection).ok


def test_a_mended_node_takes_jobs_again(moved: River) -> None:
    assert told(moved).done
    moved.run()
    assert_in_service(moved)
    assert moved.slurm.count("resume", WORKER) == 1
    node = moved.slurm.node(WORKER, deadline=5.0)
    assert node is not None
    assert (node.state, node.is_drain, node.reason) == ("IDLE", False, "")


def test_a_replaced_node_is_in_its_pool_again_and_its_worker_elsewhere_is_left_alone(replaced: River) -> None:
    assert told(replaced).done
    replaced.run()
    assert_in_service(replaced)
    assert replaced.worker_node(WORKER) == "spare-0"
    assert replaced.slurm.count("resume", WORKER) == 0


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_crash_at_any_moment_of_a_return_repeats_nothing(moved: River, moment: str) -> None:
    assert crashes(moved, [moment]) == []
    assert_in_service(moved)
    assert moved.slurm.count("resume", WORKER) == 1
    assert [write.op for write in moved.kube.ours(SICK)].count("patch") == 3  # fenced, proven, unfenced


@pytest.mark.parametrize("moment", OF_REPLACED)
def test_a_crash_at_any_moment_of_a_return_to_the_pool_repeats_nothing(replaced: River, moment: str) -> None:
    before = [write.op for write in replaced.kube.ours(SICK)].count("patch")
    assert crashes(replaced, [moment]) == []
    assert_in_service(replaced)
    assert [write.op for write in replaced.kube.ours(SICK)].count("patch") == before + 3


@pytest.mark.parametrize(("first", "second"), Random(7).sample(list(product(MOMENTS, MOMENTS)), 8))
def test_two_crashes_of_a_return_repeat_nothing(moved: River, first: str, second: str) -> None:
    crashes(moved, [first, second])
    assert_in_service(moved)
    assert moved.slurm.count("resume", WORKER) == 1


@pytest.mark.parametrize("moment", [None, *OF_REPLACED])
def test_a_replaced_node_becomes_a_spare_that_the_next_incident_takes(
    replaced: River, moment: str | None
) -> None:
    assert crashes(replaced, [moment] if moment else [], f"{SICK} as-spare") == []
    node = replaced.kube.view(SICK)
    assert {taint.key for taint in node.taints} == {SpareKeys().spare}
    assert (node.labels.get(SpareKeys().spare), node.unschedulable) == ("true", False)
    assert not {FENCED, INCIDENT, DID, CORDON_REASON, DETACHED, RETIRED} & set(node.annotations)
    replaced.names.append(replaced.names.pop(replaced.names.index(SICK)))
    replaced.xid("gpu-1", seq=50)
    replaced.run()
    assert replaced.worker_node("w-gpu-1") == SICK


def test_a_node_that_still_has_its_worker_becomes_no_spare(moved: River) -> None:
    assert "only a replaced one becomes a spare" in told(moved, f"{SICK} as-spare").answer


def test_nothing_is_returned_in_a_dry_run(tmp_path: Path) -> None:
    river = River(tmp_path, dry_run=True)
    assert "dry_run is on" in told(river).answer
    assert river.kube.writes == []


def crashes(river: River, moments: list[str], argument: str = SICK) -> list[str]:
    """Return the node with crashes at these moments, in this order; those that never came."""
    crashed = river.crash_at(*moments)
    ask(river, argument)
    river.run_through_crashes()
    return moments[len(crashed) :]


def test_a_lost_answer_to_resume_is_looked_up_not_repeated(moved: River) -> None:
    lost: list[str] = []

    def after(name: str, target: str) -> None:
        if name == "resume" and not lost:
            lost.append(target)
            raise Ambiguous(f"resume {target}: the connection broke")

    moved.slurm.after = after
    ask(moved)
    moved.run()
    assert lost == [WORKER]
    assert_in_service(moved)
    assert moved.slurm.count("resume", WORKER) == 1


def test_a_resume_that_slurmctld_forgets_within_30_s_is_given_again(moved: River) -> None:
    ask(moved)
    while moved.slurm.count("resume", WORKER) == 0:
        moved.turn()
    moved.clock.advance(10.0)
    moved.slurm.kill_ctld(forget=1)
    moved.run()
    assert_in_service(moved)
    node = moved.slurm.node(WORKER, deadline=5.0)
    assert node is not None
    assert not node.is_drain


def test_a_return_ends_no_sooner_than_30_s_after_the_resume(moved: River) -> None:
    ask(moved)
    began = moved.clock.now()
    moved.run()
    assert 30.0 <= moved.clock.now() - began < 60.0


def test_somebody_elses_drain_and_cordon_stay(moved: River) -> None:
    moved.kube.annotate(SICK, {DID: "cordon-reason"})  # the fence found the node cordoned already
    moved.slurm.drain(WORKER, "fan is loud, ticket 12", deadline=5.0)
    ask(moved)
    moved.run()
    node = moved.slurm.node(WORKER, deadline=5.0)
    assert node is not None
    assert (node.is_drain, node.reason) == (True, "fan is loud, ticket 12")
    assert moved.slurm.count("resume", WORKER) == 0
    assert moved.kube.view(SICK).unschedulable
    assert FENCED not in {taint.key for taint in moved.kube.view(SICK).taints}
    with moved.store.read() as connection:
        said = " ".join(record["why"] for record in chain.read(connection, returns(moved)[0].id))
    assert "its cordon is somebody else's and stays" in said
    assert "'fan is loud, ticket 12' is somebody else's" in said


def test_a_machine_whose_test_pod_fails_stays_out_and_no_pod_is_left(moved: River) -> None:
    moved.kube.api.trials[SICK] = {"phase": "Failed", "reason": "DeadlineExceeded"}
    assert told(moved).done
    moved.run()
    (returning,) = returns(moved)
    assert returning.state == "closed"
    assert moved.kube.view(SICK).unschedulable
    assert moved.slurm.count("resume", WORKER) == 0
    assert [path for path in moved.kube.api.objects if "remediator-test" in path] == []


def test_a_machine_that_fails_its_acceptance_test_stays_out_and_the_return_ends(moved: River) -> None:
    moved.kube.outside(SICK, "gpu lost", {"status": {"allocatable": {"nvidia.com/gpu": "7"}}})
    writes = len(moved.kube.ours(SICK))
    ask(moved)
    moved.run()
    assert len(moved.kube.ours(SICK)) == writes
    assert moved.slurm.count("resume", WORKER) == 0
    (returning,) = returns(moved)
    assert returning.state == "closed"
    with moved.store.read() as connection:
        last = list(chain.read(connection, returning.id))[-1]
    assert last["action"] == "incident-closed"
    assert "7 of 8 GPUs of gpu-0 are healthy; gpu-0 stays as it was" in last["why"]


def test_where_the_worker_holds_the_gpus_the_nodes_own_word_is_the_test(moved: River) -> None:
    """No pod could get a GPU there; it would be refused for ever."""
    moved.kube.remove_pod("slurm", WORKER)
    moved.kube.add_pod("slurm", WORKER, SICK, labels=rivers.WORKER, gpus=8)
    moved.kube.api.trials[SICK] = REFUSED
    ask(moved)
    moved.run()
    assert_in_service(moved)
    assert moved.slurm.count("resume", WORKER) == 1


REFUSED = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Requested: 8, Available: 0"}
FAILED = {"phase": "Failed", "reason": "Error"}


def test_a_kubelet_that_has_no_gpus_yet_after_the_reboot_is_asked_again(moved: River) -> None:
    moved.kube.api.trials[SICK] = REFUSED
    ask(moved)
    moved.run(20.0)
    assert [incident.state for incident in returns(moved)] == ["open"]
    del moved.kube.api.trials[SICK]  # its device plugin is back
    moved.run()
    assert_in_service(moved)


@pytest.mark.parametrize(("trial", "least", "most"), [(REFUSED, 60.0, 70.0), (FAILED, 0.0, 10.0)])
def test_a_kubelet_without_gpus_gets_a_minute_and_a_failed_test_no_second_one(
    moved: River, trial: dict[str, str], least: float, most: float
) -> None:
    moved.kube.api.trials[SICK] = trial
    ask(moved)
    moved.run()
    (returning,) = returns(moved)
    assert returning.closed_at is not None
    assert least <= returning.closed_at - returning.opened_at <= most
    assert moved.kube.view(SICK).unschedulable
    assert moved.slurm.count("resume", WORKER) == 0
    assert not [path for path in moved.kube.api.objects if "remediator-test" in path]


def test_evidence_of_the_present_boot_is_refused_unless_a_person_says_even_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(rivers.POOLS, "training", Pool(node_selector={"pool": "training"}, stage="move-jobs"))
    river = River(tmp_path)
    river.submit_job()
    river.xid(SICK)
    river.run()
    refused = told(river)
    assert not refused.done
    assert "in its present boot" in refused.answer
    assert "--even-so" in refused.answer
    assert returns(river) == []
    assert told(river, f"{SICK} even-so").done
    river.run()
    assert_in_service(river)


def test_an_open_incident_is_refused_with_its_name(tmp_path: Path) -> None:
    river = River(tmp_path)
    river.submit_job(requeue=False)
    river.xid(SICK)
    river.run(20.0)
    (present,) = river.open_incidents()
    refused = told(river)
    assert not refused.done
    assert f"incident {present.id} (" in refused.answer
    assert "after its incident has closed" in refused.answer


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ("nobody", "there is no node 'nobody'"),
        ("gpu-[0-3]", "there is no node"),
        ("", "there is no node"),
        ("gpu-1", "there is nothing to return"),
    ],
)
def test_what_cannot_be_returned_is_refused_in_a_sentence(moved: River, node: str, says: str) -> None:
    writes = len(moved.slurm.writes), len(moved.kube.writes)
    refused = told(moved, node)
    assert not refused.done
    assert says in refused.answer
    moved.run(5.0)
    assert (len(moved.slurm.writes), len(moved.kube.writes)) == writes


def test_a_second_return_of_the_same_node_is_refused_while_one_runs(moved: River) -> None:
    assert told(moved).done
    assert "is being returned already" in told(moved).answer
    moved.run()
    assert_in_service(moved)


@pytest.mark.parametrize("first", ["", " as-spare"])
@pytest.mark.parametrize("second", ["", " as-spare"])
def test_what_has_been_returned_is_not_returned_again(replaced: River, first: str, second: str) -> None:
    assert told(replaced, SICK + first).done
    replaced.run()
    before = len(replaced.kube.writes)
    again = told(replaced, SICK + second)
    assert not again.done
    assert "there is nothing left to return" in again.answer
    replaced.run(60.0)
    assert len(replaced.kube.writes) == before


def test_a_paused_service_returns_the_node_once_it_is_resumed(moved: River) -> None:
    with moved.store.write() as connection:
        commands.set_paused(connection, "bob")
    writes = len(moved.kube.writes)
    assert "remediator resume" in told(moved).answer
    moved.run(30.0)
    assert len(moved.kube.writes) == writes
    with moved.store.write() as connection:
        commands.set_paused(connection, "")
    moved.run()
    assert_in_service(moved)


@pytest.mark.parametrize("step", ["accept-node", "unfence-node", "resume-slurm"])
def test_a_new_fault_during_a_return_takes_the_node_out_again(moved: River, step: str) -> None:
    """Whatever the return had done by then: in the end the node is drained, fenced and on the record."""
    if step == "accept-node":
        moved.kube.outside(SICK, "down", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    ask(moved)
    while not any(call.row.name == step for call in moved.turn()):
        pass
    moved.xid(SICK, seq=99)
    moved.run()
    node = moved.slurm.node(WORKER, deadline=5.0)
    assert node is not None
    assert node.is_drain
    assert moved.kube.view(SICK).unschedulable
    assert FENCED in {taint.key for taint in moved.kube.view(SICK).taints}
    assert [incident.state for incident in moved.all_incidents()] == ["closed"] * len(moved.all_incidents())
    with moved.store.read() as connection:
        assert any("stopped by a new fault" in record["why"] for record in chain.read(connection))
        assert chain.verify(connection).ok


def test_an_incident_after_a_return_is_a_new_one_and_its_node_can_be_returned_again(moved: River) -> None:
    ask(moved)
    moved.run()
    moved.xid(SICK, seq=99)
    moved.run()
    assert moved.kube.view(SICK).unschedulable
    moved.kube.reboot(SICK, "boot-repaired-again")
    assert told(moved).done
    moved.run()
    assert not moved.kube.view(SICK).unschedulable
    assert [incident.plan for incident in moved.all_incidents()].count(GIVE_BACK) == 2
