"""What holds for any pod, node and Slurm record."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from deploy.lab.slinky import plan
from deploy.lab.slinky.model import REASON_PREFIX, KubeNode, SlurmNode, WorkerPod

STATES = ("IDLE", "ALLOCATED", "MIXED", "DOWN", "UNKNOWN")
FLAGS = ("DRAIN", "UNDRAIN", "COMPLETING", "NOT_RESPONDING", "FAIL", "DYNAMIC_NORM", "SOMETHING_NEW")
REASONS = st.one_of(
    st.just(""),
    st.text(max_size=30).map(REASON_PREFIX.__add__),
    st.text(max_size=30),
    st.just("Not responding"),
)
RECORDS = st.builds(
    lambda base, flags, reason: SlurmNode("worker-0", frozenset({base, *flags}), reason),
    st.sampled_from(STATES),
    st.sets(st.sampled_from(FLAGS)),
    REASONS,
)
PODS = st.builds(
    WorkerPod,
    st.just("slurm"),
    st.just("worker-0"),
    uid=st.just("u"),
    node=st.just("gpu-0"),
    phase=st.sampled_from(["Pending", "Running", "Failed"]),
    ready_since=st.one_of(st.none(), st.floats(0, 1e6)),
    terminating=st.booleans(),
    cordoned=st.booleans(),
)
NODES = st.builds(
    KubeNode,
    st.just("gpu-0"),
    unschedulable=st.booleans(),
    cordon_reason=st.one_of(st.none(), st.text(max_size=400)),
)


def after(pod: WorkerPod, record: SlurmNode, actions: tuple[plan.Action, ...]) -> tuple[WorkerPod, SlurmNode]:
    """The world once both servers have obeyed."""
    for action in actions:
        if isinstance(action, plan.SetCordon):
            pod = replace(pod, cordoned=action.on)
        elif isinstance(action, plan.SetSlurm):
            assert action.state in ("DRAIN", "UNDRAIN")
            gained = {"DRAIN"} if action.state == "DRAIN" else set()
            state = record.state - {"DRAIN", "UNDRAIN"} | gained
            record = replace(record, state=frozenset(state), reason=action.reason or "")
    return pod, record


@given(PODS, NODES, RECORDS)
def test_foreign_reason_is_never_touched(pod: WorkerPod, node: KubeNode, record: SlurmNode) -> None:
    if record.reason and not record.reason.startswith(REASON_PREFIX):
        assert plan.cordon(pod, node, record) == ()
        assert plan.keep(pod, node, record) == ()


@given(PODS, NODES, RECORDS)
def test_cordon_and_keep_never_kill(pod: WorkerPod, node: KubeNode, record: SlurmNode) -> None:
    for action in plan.cordon(pod, node, record) + plan.keep(pod, node, record):
        assert not isinstance(action, plan.DeletePod)
        assert not isinstance(action, plan.SetSlurm) or action.state in ("DRAIN", "UNDRAIN")


@given(PODS, NODES, RECORDS)
def test_a_second_pass_has_nothing_left_to_do(pod: WorkerPod, node: KubeNode, record: SlurmNode) -> None:
    for _ in range(2):
        pod, record = after(pod, record, plan.cordon(pod, node, record))
        pod, record = after(pod, record, plan.keep(pod, node, record))
    assert plan.cordon(pod, node, record) + plan.keep(pod, node, record) == ()


@given(PODS, NODES, RECORDS)
def test_every_reason_written_is_the_operators_own(pod: WorkerPod, node: KubeNode, record: SlurmNode) -> None:
    for action in plan.cordon(pod, node, record) + plan.condemn(pod, record):
        if isinstance(action, plan.SetSlurm) and action.state == "DRAIN":
            assert action.reason is not None
            assert action.reason.startswith(REASON_PREFIX)


@given(st.text(max_size=600))
def test_sanitized_text_is_one_short_line(text: str) -> None:
    clean = plan.sanitize(text)
    assert len(clean) <= plan.MAX_REASON
    assert clean == clean.strip()
    assert not any(c in clean for c in "\t\n\r\x00\x07\x1b\x7f\x9f")
    assert plan.sanitize(clean) == clean


@given(st.sets(st.integers(0, 20)), st.integers(0, 12))
def test_scaling_meets_the_replicas(ordinals: set[int], replicas: int) -> None:
    pods = [WorkerPod("slurm", f"worker-{n}", uid=str(n)) for n in ordinals]
    missing, out = plan.missing_ordinals(pods, replicas), plan.condemned(pods, replicas)
    assert not set(missing) & ordinals
    assert len(set(missing)) == len(missing)
    assert len(pods) + len(missing) - len(out) == replicas
    assert not (missing and out)
