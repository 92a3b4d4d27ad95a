"""What the fence judges is read while the drain is read back; stale, old or failed looks change nothing."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from remediator.errors import Retry
from remediator.kube.nodes import NodeView
from remediator.model.plan import Again, Done, Outcome
from remediator.workflow.context import Watched
from remediator.workflow.judged import FRESH_S, Ahead
from remediator.workflow.steps.fence_node import FenceNode
from remediator.workflow.together import SideBySide
from remediator.workflow.veto import look_ahead
from tests.unit.workflow.bench import Bench

STEP = FenceNode()
NO = {"metadata": {"labels": {"remediator.dev/no-replace": "true"}}}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def looked(bench: Bench, watched: Watched | None = None) -> Ahead:
    ahead = Ahead()
    look_ahead(replace(bench.see(), ahead=ahead, watched=watched or Watched()))
    return ahead


def fence(bench: Bench, ahead: Ahead, age: float = 0.0) -> tuple[Outcome | None, list[str]]:
    """The act, `age` seconds after the look began, and what it read."""
    asked: list[str] = []
    bench.kube.before = asked.append
    seen = bench.see()
    outcome = STEP.act(replace(seen, now=seen.now + age, ahead=ahead))
    bench.kube.before = lambda _: None
    patched = asked.index("patch nodes/gpu-0") if "patch nodes/gpu-0" in asked else len(asked)
    return outcome, [op for op in asked[:patched] if op.startswith(("get", "list"))]


def test_what_was_read_with_the_drain_is_not_read_again_by_the_fence(bench: Bench) -> None:
    outcome, reads = fence(bench, looked(bench, Watched(node=bench.kube.view)))
    assert isinstance(outcome, Done)
    assert reads == []
    assert bench.kube.view("gpu-0").unschedulable


def test_the_node_of_the_watch_is_not_asked_for(bench: Bench) -> None:
    asked: list[str] = []
    bench.kube.before = asked.append
    looked(bench, Watched(node=bench.kube.view))
    assert "get nodes/gpu-0" not in asked
    assert any(op.startswith("list") for op in asked), "pods are always read"


@pytest.mark.parametrize(("age", "again"), [(FRESH_S, False), (FRESH_S + 0.1, True)])
def test_a_look_that_has_aged_is_taken_again(bench: Bench, age: float, again: bool) -> None:
    outcome, reads = fence(bench, looked(bench), age)
    assert isinstance(outcome, Done)
    assert bool(reads) is again


def test_a_look_is_good_for_one_write(bench: Bench) -> None:
    ahead = looked(bench)
    fence(bench, ahead)
    assert fence(bench, ahead)[1]


def test_a_watch_that_is_behind_writes_nothing_and_the_veto_is_seen_next(bench: Bench) -> None:
    """Whatever the watch has missed is a newer version: the PATCH is refused."""
    behind: NodeView = bench.kube.view("gpu-0")
    bench.kube.outside("gpu-0", "label", NO, "admin")
    outcome, _ = fence(bench, looked(bench, Watched(node=lambda _: behind)))
    assert isinstance(outcome, Again)
    assert bench.kube.ours("gpu-0") == []
    done = STEP.act(bench.see())
    assert isinstance(done, Done)
    assert "not cordoned" in done.sentence


def test_another_machine_in_the_watch_is_left_for_the_fence_to_find_out(bench: Bench) -> None:
    older = replace(bench.kube.view("gpu-0"), uid="another")
    outcome, reads = fence(bench, looked(bench, Watched(node=lambda _: older)))
    assert isinstance(outcome, Done)
    assert reads, "it judged what it read itself"


def test_a_look_that_fails_is_taken_again_by_the_fence(bench: Bench) -> None:
    def fail(op: str) -> None:
        if op.startswith("node"):
            raise Retry("no answer")

    bench.kube.before = fail
    outcome, reads = fence(bench, looked(bench))
    assert isinstance(outcome, Done)
    assert reads


def test_no_thread_waits_for_another_one_that_waits() -> None:
    """More nested pairs than readers: what no thread was free for is asked by who needs it."""
    both = SideBySide()
    crowd = 40
    gate = threading.Barrier(crowd)

    def nested() -> tuple[tuple[int, int], tuple[int, int]]:
        gate.wait(10)
        return both(lambda: both(lambda: 1, lambda: 2), lambda: both(lambda: 3, lambda: 4))

    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(nested()), daemon=True) for _ in range(crowd)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == [((1, 2), (3, 4))] * crowd
