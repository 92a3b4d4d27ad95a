"""A machine whose agent and slurmd are silent: DOWN, Slurm's one requeue, and no second copy before proof."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remediator.errors import Ambiguous
from remediator.model.signal import SILENT, Signal
from remediator.run.crashes import KINDS
from remediator.signals.lost_runs import LOST_RUN
from remediator.signals.silence import TOLD
from remediator.store import outbox, signals
from remediator.workflow.silence import KUBELET_GRACE_S, OUT_OF_SERVICE
from tests.crash.test_river import chain_is_whole
from tests.fakes.river import WORKER, River
from tests.fakes.slurm_ctld import REQUEUE_DELAY

MUTATING = ("drain-slurm", "fence-node", "hold-place", "release-jobs", "start-jobs", "claim-spare")
MOMENTS = [f"{step}:{moment}" for step in MUTATING for moment in ("intent", "accepted")]
SICK = "w-gpu-0"


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path)


def tell(river: River, node: str = "gpu-0", source: Any = "condition", kind: str = SILENT) -> None:
    """Both witnesses were found silent, as the look at them says every minute."""
    now, boot = river.clock.now(), river.kube.view(node).boot_id
    told = Signal(
        source=source,
        node=node,
        boot_id=boot,
        kind=kind,
        code=None,
        pci=None,
        seen_at=now - 40,
        received_at=now,
        dedupe=f"silent:{node}:{boot}:{int(now)}",
    )
    with river.store.write() as connection:
        signals.insert_new(connection, [told])


def hush(river: River, worker: str = SICK, *, speaks: bool = False) -> None:
    """slurmd of this worker stops (or begins again) to answer."""
    node = river.slurm.node(worker, deadline=5.0)
    assert node is not None
    quiet = {"NOT_RESPONDING"}
    river.slurm.mark(worker, flags=node.flags - quiet if speaks else node.flags | quiet)


def freeze(river: River, *, ready: str = "Unknown") -> None:
    """The host stands still: slurmd, kubelet and agent with it."""
    hush(river)
    river.kube.kill_kubelet("gpu-0")
    patch = {"status": {"conditions": [{"type": "Ready", "status": ready}]}}
    river.kube.outside("gpu-0", "lost", patch)
    tell(river)


def assert_waits(river: River, job: int) -> None:
    """The node is DOWN, the run requeued by Slurm alone, and nobody lifts its delay."""
    seen, node = river.job(job), river.slurm.node(SICK, deadline=5.0)
    assert (seen.state, seen.restart_count) == ("PENDING", 1)
    assert node is not None
    assert node.is_down
    assert node.is_drain
    assert river.slurm.count("set_down", SICK) == 1
    assert not [write for write in river.slurm.writes if write.op in {"requeue", "start_now"}]


def power_off(river: River) -> None:
    """A person confirms that the host is off."""
    taints = [taint.raw for taint in river.kube.view("gpu-0").taints]
    off = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
    river.kube.set_taints("gpu-0", [*map(dict, taints), off])


PROOFS: dict[str, Callable[[River], None]] = {
    "off": power_off,
    "deleted": lambda river: river.kube.remove_node("gpu-0"),
    "new boot": lambda river: river.kube.reboot("gpu-0", "boot-after-power-on"),
}


def test_a_silent_machine_goes_down_and_its_job_waits_for_slurms_own_delay(river: River) -> None:
    job = river.submit_job()
    freeze(river)
    river.run(REQUEUE_DELAY - 15)
    assert_waits(river, job)
    river.run(60.0)
    seen = river.job(job)
    assert (seen.state, seen.restart_count) == ("RUNNING", 1)
    assert SICK not in seen.nodes
    assert river.slurm.count("start_now", str(job)) == 0
    assert chain_is_whole(river)


def test_the_owner_is_not_promised_time_to_save(river: River) -> None:
    river.submit_job()
    freeze(river)
    river.run(10.0)
    with river.store.read() as connection:
        messages = [found.message for found in outbox.due(connection, river.clock.now())]
    (text,) = (message.text for message in messages if message.audience == "user:alice")
    assert "cannot be told to save" in text
    assert "SIGTERM" not in text


@pytest.mark.parametrize("proof", PROOFS)
def test_proof_that_its_processes_are_gone_lifts_the_delay(river: River, proof: str) -> None:
    job = river.submit_job()
    freeze(river)
    river.run(30.0)
    assert_waits(river, job)
    river.names = [name for name in river.names if name != "gpu-0"] if proof == "deleted" else river.names
    PROOFS[proof](river)
    river.run(15.0)
    seen = river.job(job)
    assert (seen.state, seen.restart_count) == ("RUNNING", 1)
    assert SICK not in seen.nodes
    assert river.slurm.count("start_now", str(job)) == 1


def test_a_pod_that_is_gone_is_proof_only_from_a_kubelet_that_lives(river: River) -> None:
    """Ready is a minute old before it turns: until then nobody knows whether the kubelet lives."""
    job = river.submit_job()
    freeze(river, ready="True")
    while not river.slurm.count("set_down", SICK):
        river.turn()
    river.kube.remove_pod("slurm", SICK)
    river.run(KUBELET_GRACE_S - 50)
    assert river.slurm.count("start_now", str(job)) == 0
    river.run(30.0)
    assert river.slurm.count("start_now", str(job)) == 1
    assert river.job(job).state == "RUNNING"


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_crash_at_any_moment_downs_once_and_starts_no_second_copy(river: River, moment: str) -> None:
    job = river.submit_job()
    crashed = river.crash_at(moment)
    freeze(river)
    river.run_through_crashes(60.0)
    assert_waits(river, job)
    power_off(river)
    river.run_through_crashes(20.0)
    assert crashed == [moment]
    seen = river.job(job)
    assert (seen.state, seen.restart_count) == ("RUNNING", 1)
    assert river.slurm.count("set_down", SICK) == 1
    assert river.slurm.count("requeue", str(job)) == 0
    assert chain_is_whole(river)


def test_a_lost_answer_to_the_down_is_looked_up_not_repeated(river: River) -> None:
    job = river.submit_job()
    lost: list[str] = []

    def after(op: str, target: str) -> None:
        if op == "set_down" and not lost:
            lost.append(target)
            raise Ambiguous(f"{op} {target}: the connection broke")

    river.slurm.after = after
    freeze(river)
    river.run(60.0)
    assert lost == [SICK]
    assert_waits(river, job)


def test_a_down_that_slurmctld_forgot_is_set_again(river: River) -> None:
    job = river.submit_job()
    forgot: list[int] = []

    def after(op: str, _target: str) -> None:
        if op == "set_down" and not forgot:
            forgot.append(1)
            river.slurm.kill_ctld(forget=1)

    river.slurm.after = after
    freeze(river)
    river.run(60.0)
    assert (river.job(job).state, river.job(job).restart_count) == ("PENDING", 1)
    assert river.slurm.count("set_down", SICK) == 2


def test_slurms_own_down_and_requeue_are_the_runs_one_requeue(river: River) -> None:
    job = river.submit_job()
    river.slurm._take_down(SICK, "Not responding", "slurm")
    freeze(river)
    river.run(60.0)
    seen = river.job(job)
    assert (seen.state, seen.restart_count) == ("PENDING", 1)
    assert not [write for write in river.slurm.writes if write.op in {"requeue", "start_now", "set_down"}]


def test_a_slurmd_that_answers_again_keeps_its_jobs(river: River) -> None:
    job = river.submit_job()
    freeze(river)

    def before(op: str, _target: str) -> None:
        if op == "drain":
            river.slurm.before = lambda _op, _target: None
            hush(river, speaks=True)

    river.slurm.before = before
    river.run(60.0)
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 0)
    assert river.slurm.count("set_down", SICK) == 0
    assert [found.state for found in river.all_incidents()] == ["held"]


def test_a_veto_keeps_a_silent_machine_up(river: River) -> None:
    job = river.submit_job()
    river.kube.add_pod("slurm", "kept", "gpu-0", labels=WORKER | {"remediator.dev/no-replace": "true"})
    freeze(river)
    river.run(60.0)
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 0)
    assert river.slurm.count("set_down", SICK) == 0
    assert [found.state for found in river.all_incidents()] == ["held"]


KEEPERS: list[dict[str, Any]] = [
    {"batch": False},
    {"requeue": False},
    {"comment": "remediator:leave"},
    {"traits": frozenset({"EXPEDITED_REQUEUE"})},
]


@pytest.mark.parametrize("fields", KEEPERS)
def test_a_job_that_opted_out_or_would_start_at_once_keeps_the_machine_up(
    river: River, fields: dict[str, Any]
) -> None:
    job = river.submit_job(width=1, **fields)
    freeze(river)
    river.run(60.0)
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 0)
    assert river.slurm.count("set_down", SICK) == 0
    assert [found.state for found in river.all_incidents()] == ["held"]


def test_a_down_on_a_run_that_would_not_end_is_no_proof_either(river: River) -> None:
    """The machine died while it saved: Slurm's own delay stands, whatever the incident began with."""
    job = river.submit_job(save=1000.0)
    river.xid("gpu-0")
    while not river.slurm.count("requeue", str(job)):
        river.turn()
    hush(river)
    river.kube.kill_kubelet("gpu-0")
    river.slurm._take_down(SICK, "Not responding", "slurm")
    river.run(60.0)
    assert river.job(job).state == "PENDING"
    assert river.slurm.count("start_now", str(job)) == 0


@pytest.mark.parametrize("kind", [LOST_RUN, *sorted(TOLD | KINDS)])
def test_an_agent_cannot_say_what_only_our_own_looks_find(river: River, kind: str) -> None:
    tell(river, source="agent", kind=kind)
    river.run(30.0)
    assert river.all_incidents() == []
    with river.store.read() as connection:
        assert list(outbox.due(connection, river.clock.now())) == []


def test_an_agent_cannot_say_that_it_is_silent(river: River) -> None:
    river.submit_job()
    hush(river)
    tell(river, source="agent")
    river.run(90.0)
    assert river.all_incidents() == []
    assert river.slurm.writes == []


def test_a_silence_that_has_passed_admits_nobody(tmp_path: Path) -> None:
    river = River(tmp_path, stage="observe")
    tell(river)
    river.run(300.0)
    assert [found.state for found in river.all_incidents()] == ["held"]
    river.pools["training"] = river.pools["training"].model_copy(update={"stage": "full"})
    river.begin()  # settings are read at the start
    river.run(20.0)
    assert river.slurm.writes == []
    tell(river)
    river.run(20.0)
    assert river.slurm.count("drain", SICK) == 1
