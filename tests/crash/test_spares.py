"""Spares that are missing, fail, or are wanted by two: one spare per incident, and none of it twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from remediator.audit import chain
from remediator.clock import rfc3339
from remediator.errors import Ambiguous
from remediator.kube import paths
from remediator.kube.acceptance import PROOF
from remediator.kube.errors import Json
from remediator.kube.spare import CLAIM, RETIRED
from remediator.model.incident import Incident
from remediator.store.schema import outbox
from remediator.workflow.context import NoSpare
from tests.fakes.river import River

FAILED: Json = {
    "phase": "Failed",
    "containerStatuses": [
        {"state": {"terminated": {"reason": "Error", "message": "warming up\nGPU 3: dead"}}}
    ],
}
NO_IMAGE: Json = {
    "phase": "Pending",
    "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}],
}
MOMENTS = [
    f"{step}:{moment}"
    for step in ("claim-spare", "validate-spare", "admit-spare")
    for moment in ("intent", "accepted")
]


def pages(river: River) -> list[str]:
    with river.store.read() as connection:
        query = sa.select(outbox.c.text).where(outbox.c.urgency == "page")
        return list(connection.execute(query).scalars())


def trials_made(river: River) -> list[str]:
    return [write.node for write in river.kube.writes if write.op == "create"]


def pods_left(river: River) -> list[str]:
    return [path for path in river.kube.api.objects if "remediator-test" in path]


def claims(river: River) -> int:
    with river.store.read() as connection:
        return [record["action"] for record in chain.read(connection)].count("spare-claimed")


def one(river: River) -> Incident:
    (found,) = river.all_incidents()
    return found


def sentence(river: River, step: str) -> str:
    return next(row.sentence for row in river.steps(one(river).id) if row.name == step)


@pytest.mark.parametrize(
    ("policy", "state", "says"),
    [
        ("go-on", "closed", "the node is not replaced"),
        ("wait", "open", "waits for a spare"),
        ("page", "held", "no spare"),
    ],
)
def test_without_a_spare_the_job_moves_and_the_node_waits_as_the_pool_wants(
    tmp_path: Path, policy: NoSpare, state: str, says: str
) -> None:
    river = River(tmp_path, spares=0, no_spare=policy)
    job = river.submit_job()
    river.xid("gpu-0")
    river.run(60.0)
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 1)
    assert one(river).state == state
    assert says in sentence(river, "claim-spare")
    assert any("no spare" in page for page in pages(river)) == (policy == "page")
    assert (river.worker_node("w-gpu-0") == "gpu-0") == (policy != "go-on")


def test_a_pool_may_have_a_policy_of_its_own(tmp_path: Path) -> None:
    river = River(tmp_path, spares=0, no_spare="wait", no_spare_of={"training": "page"})
    river.xid("gpu-0")
    river.run(30.0)
    assert one(river).state == "held"


@pytest.mark.parametrize("policy", ["wait", "page"])
def test_a_spare_that_comes_later_is_taken_by_the_same_incident(tmp_path: Path, policy: NoSpare) -> None:
    river = River(tmp_path, spares=0, no_spare=policy)
    river.xid("gpu-0")
    river.run(30.0)
    river.add_spare("spare-0")
    river.run()
    assert one(river).state == "closed"
    assert river.worker_node("w-gpu-0") == "spare-0"


def test_a_spare_that_fails_its_test_is_retired_with_a_page_and_the_next_comes_in(tmp_path: Path) -> None:
    river = River(tmp_path, spares=2)
    river.kube.api.trials["spare-0"] = FAILED
    river.submit_job()
    river.xid("gpu-0")
    river.run()
    assert one(river).state == "closed"
    assert river.worker_node("w-gpu-0") == "spare-1"
    failed = river.kube.view("spare-0")
    assert failed.annotations[RETIRED].endswith("acceptance test failed: GPU 3: dead")
    assert RETIRED in {taint.key for taint in failed.taints}
    assert CLAIM not in failed.annotations
    assert [page for page in pages(river) if "spare-0 is retired" in page]
    assert pods_left(river) == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_crash_while_a_spare_fails_neither_tests_nor_admits_twice(tmp_path: Path, moment: str) -> None:
    river = River(tmp_path, spares=2)
    river.kube.api.trials["spare-0"] = FAILED
    crashed = river.crash_at(moment, moment, moment)
    river.xid("gpu-0")
    river.run_through_crashes()
    assert crashed
    assert one(river).state == "closed"
    assert river.admitted() == ["spare-1"]
    assert len(trials_made(river)) == len(set(trials_made(river))) == 2
    assert pods_left(river) == []


@pytest.mark.parametrize("spares", [1, 2])
@pytest.mark.parametrize("policy", ["go-on", "wait", "page"])
def test_two_incidents_never_share_a_spare(tmp_path: Path, spares: int, policy: NoSpare) -> None:
    river = River(tmp_path, spares=spares, no_spare=policy)
    river.xid("gpu-0")
    river.xid("gpu-1")
    river.run(120.0)
    states = sorted(incident.state for incident in river.all_incidents())
    without = {"go-on": "closed", "wait": "open", "page": "held"}[policy]
    assert states == sorted(["closed", "closed" if spares == 2 else without])
    assert len(river.admitted()) == spares
    where = {river.worker_node("w-gpu-0"), river.worker_node("w-gpu-1")}
    assert where & {"spare-0", "spare-1"} == set(river.admitted())
    assert claims(river) <= 3


def test_a_gpu_pod_that_comes_onto_a_claimed_spare_lets_the_next_one_in(tmp_path: Path) -> None:
    river = River(tmp_path, spares=2)

    def probe(now: str) -> None:
        if now == "detach-node:accepted":
            river.kube.add_pod("ml", "notebook", "spare-0", gpus=1)

    river.probe = probe
    river.xid("gpu-0")
    river.run()
    assert river.worker_node("w-gpu-0") == "spare-1"
    assert river.kube.pod("ml", "notebook") is not None
    assert CLAIM not in river.kube.view("spare-0").annotations


def test_a_test_that_cannot_be_started_holds_and_condemns_no_spare(tmp_path: Path) -> None:
    river = River(tmp_path, spares=2)
    river.kube.api.trials |= {"spare-0": NO_IMAGE, "spare-1": NO_IMAGE}
    river.xid("gpu-0")
    river.run(60.0)
    assert one(river).state == "held"
    assert "acceptance.image" in sentence(river, "validate-spare")
    assert RETIRED not in river.kube.view("spare-0").annotations
    assert pods_left(river) == []
    river.kube.api.trials.clear()
    river.run(700.0)
    assert one(river).state == "closed"
    assert river.worker_node("w-gpu-0") == "spare-0"


@pytest.mark.parametrize(
    ("age", "boot", "made"), [(3600, "", 0), (25 * 3600, "", 1), (3600, "an-older-boot", 1), (-3600, "", 1)]
)
def test_only_a_fresh_proof_of_this_boot_stands_for_a_test(
    tmp_path: Path, age: float, boot: str, made: int
) -> None:
    river = River(tmp_path)
    boot = boot or river.kube.view("spare-0").boot_id
    river.kube.annotate("spare-0", {PROOF: f"{rfc3339(river.clock.now() - age)} {boot} passed"})
    river.xid("gpu-0")
    river.run()
    assert river.worker_node("w-gpu-0") == "spare-0"
    assert len(trials_made(river)) == made
    assert PROOF not in river.kube.view("spare-0").annotations  # it takes work now: the proof is used up


def test_a_lost_answer_to_the_start_of_a_test_starts_no_second(tmp_path: Path) -> None:
    river = River(tmp_path)
    lost: list[str] = []

    def after(op: str) -> None:
        if "create" in op and op.endswith("/pods") and not lost:
            lost.append(op)
            raise Ambiguous(f"{op}: the connection broke")

    river.kube.after = after
    river.xid("gpu-0")
    river.run()
    assert lost
    assert len(trials_made(river)) == 1
    assert one(river).state == "closed"


def test_a_test_that_never_ends_fails_at_its_deadline(tmp_path: Path) -> None:
    river = River(tmp_path, spares=2)
    river.kube.api.trials["spare-0"] = {"phase": "Running"}
    river.xid("gpu-0")
    river.run(200.0)
    assert river.admitted() == []
    river.run(300.0)
    assert river.admitted() == ["spare-1"]
    assert "did not end within 300 s" in river.kube.view("spare-0").annotations[RETIRED]


def test_a_spare_that_is_gone_after_its_claim_makes_room_for_the_next(tmp_path: Path) -> None:
    river = River(tmp_path, spares=2)

    def probe(now: str) -> None:
        if now == "claim-spare:accepted" and "spare-0" in river.names:
            river.names.remove("spare-0")
            river.kube.remove_node("spare-0")

    river.probe = probe
    river.xid("gpu-0")
    river.run()
    assert river.worker_node("w-gpu-0") == "spare-1"


def test_a_node_that_was_a_spare_once_can_be_one_again(tmp_path: Path) -> None:
    river = River(tmp_path)
    river.xid("gpu-0")
    river.run()
    assert river.worker_node("w-gpu-0") == "spare-0"
    river.kube.remove_pod("slurm", "w-gpu-0")
    river.make_spare("spare-0")
    river.xid("gpu-1")
    river.run()
    assert [incident.state for incident in river.all_incidents()] == ["closed", "closed"]
    assert river.admitted() == ["spare-0"]


def test_the_verdict_is_on_the_record(tmp_path: Path) -> None:
    river = River(tmp_path)
    passed: dict[str, Any] = {"state": {"terminated": {"message": "8 GPUs, 0 errors\n"}}}
    river.kube.api.trials["spare-0"] = {"phase": "Succeeded", "containerStatuses": [passed]}
    river.xid("gpu-0")
    river.run()
    assert "acceptance test passed: 8 GPUs, 0 errors" in sentence(river, "validate-spare")
    assert paths.pods("slurm") in " ".join(
        f"/api/v1/{request.split(' ')[1]}" for request in river.kube.api.requests if "create" in request
    )


@pytest.mark.parametrize("moment", ["", "admit-spare:intent", "admit-spare:accepted"])
def test_the_replacement_goes_to_the_job_that_waits_in_its_place_not_to_an_older_rival(
    tmp_path: Path, moment: str
) -> None:
    river = River(tmp_path)
    victim = river.submit_job(width=2)
    others = [river.submit_job(width=1) for _ in range(2)]
    rival = river.submit_job(width=1)
    assert river.job(victim).nodes == ("w-gpu-0", "w-gpu-1")
    river.crash_at(moment)
    river.xid("gpu-0")
    river.run_through_crashes()
    assert one(river).state == "closed"
    assert (river.job(victim).state, river.job(victim).restart_count) == ("RUNNING", 1)
    assert set(river.job(victim).nodes) == {"w-gpu-0", "w-gpu-1"}
    assert river.worker_node("w-gpu-0") == "spare-0"
    assert river.job(rival).state == "PENDING"
    assert [river.job(other).restart_count for other in others] == [0, 0]
    assert river.slurm.reservations(deadline=5.0) == ()
