"""Taint and cordon on exactly the incident's machine."""

from __future__ import annotations

import pytest

from remediator.errors import Blocked, GiveUp
from remediator.kube.fence import FENCED
from remediator.model.plan import Again, Done, Yield
from remediator.workflow.steps.fence_node import FenceNode
from tests.unit.workflow.bench import Bench

STEP = FenceNode()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_open_node_wants_its_fence_and_gets_it(bench: Bench) -> None:
    assert STEP.check(bench.see()) is None
    STEP.act(bench.see())
    node = bench.kube.view("gpu-0")
    assert [(taint.key, taint.value, taint.effect) for taint in node.taints] == [(FENCED, "i1", "NoSchedule")]
    assert node.unschedulable
    assert isinstance(STEP.verify(bench.see()), Done)
    assert isinstance(STEP.check(bench.see()), Done)


def test_a_cordon_alone_is_not_our_fence(bench: Bench) -> None:
    bench.kube.cordon("gpu-0")
    assert STEP.check(bench.see()) is None


def test_a_taint_without_its_cordon_is_a_persons_word(bench: Bench) -> None:
    STEP.act(bench.see())
    bench.kube.uncordon("gpu-0")
    found = STEP.check(bench.see())
    assert isinstance(found, Yield)
    assert found.side == "kubernetes"


@pytest.mark.parametrize("cordoned_before", [False, True])
@pytest.mark.parametrize("what", ["cordon", "taint", "everything"])
def test_a_fence_that_stood_and_is_gone_is_a_persons_word(
    bench: Bench, what: str, cordoned_before: bool
) -> None:
    if cordoned_before:
        bench.kube.cordon("gpu-0")
    done = STEP.act(bench.see())
    assert isinstance(done, Done)
    gone = dict.fromkeys(bench.kube.view("gpu-0").annotations) if what == "everything" else {}
    spec: dict[str, object] = {"unschedulable": None} if what == "cordon" else {"taints": []}
    bench.kube.outside("gpu-0", "edit", {"metadata": {"annotations": gone}, "spec": spec}, by="admin")
    found = STEP.check(bench.see(facts=done.facts))
    assert isinstance(found, Yield)
    assert len(bench.kube.ours("gpu-0")) == 1


def test_a_fence_that_stands_is_seen_again(bench: Bench) -> None:
    done = STEP.act(bench.see())
    assert isinstance(done, Done)
    assert STEP.check(bench.see(facts=done.facts)) == done


def test_a_persons_uncordon_is_not_undone(bench: Bench) -> None:
    STEP.act(bench.see())
    bench.kube.uncordon("gpu-0")
    found = STEP.act(bench.see())
    assert isinstance(found, Yield)
    assert "uncordoned" in found.sentence
    assert not bench.kube.view("gpu-0").unschedulable


def test_a_node_that_changes_while_it_is_judged_is_judged_again(bench: Bench) -> None:
    """A veto that comes in between is seen: the write is for the very version that was judged."""
    veto = {"metadata": {"labels": {"remediator.dev/no-replace": "true"}}}

    def label(op: str) -> None:
        if op == "patch nodes/gpu-0":
            bench.kube.before = lambda _: None
            bench.kube.outside("gpu-0", "label", veto, "admin")

    bench.kube.before = label
    assert isinstance(STEP.act(bench.see()), Again)
    assert bench.kube.ours("gpu-0") == []
    done = STEP.act(bench.see())
    assert isinstance(done, Done)
    assert "not cordoned" in done.sentence


def test_a_node_that_another_incident_fences_is_not_done_and_not_written(bench: Bench) -> None:
    bench.kube.fence(bench.kube.view("gpu-0"), "i2", "remediator: i2 x", cordon=True, deadline=5.0)
    before = bench.kube.view("gpu-0")
    assert STEP.check(bench.see()) is None
    with pytest.raises(Blocked):
        STEP.act(bench.see())
    assert bench.kube.view("gpu-0") == before


def test_another_machine_under_the_name_is_never_fenced(bench: Bench) -> None:
    bench.kube.add_node("gpu-0")
    for attempt in (STEP.check, STEP.act):
        with pytest.raises(GiveUp):
            attempt(bench.see())
    assert bench.kube.ours("gpu-0") == []


def test_a_node_that_is_gone_is_for_a_person(bench: Bench) -> None:
    bench.kube.remove_node("gpu-0")
    with pytest.raises(GiveUp, match="gpu-0"):
        STEP.check(bench.see())


def test_the_intent_names_the_node(bench: Bench) -> None:
    assert "gpu-0" in STEP.intention(bench.incident, None)
