"""The fence goes straight after the accepted DRAIN, before that is read back, and judges as ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from remediator.errors import Ambiguous, BadInput, Blocked, RemediatorError, Retry
from remediator.kube.nodes import NodeView
from remediator.model.plan import Again, Done, Hold, Outcome, Unknown, Yield
from remediator.workflow.attempt import attempt
from remediator.workflow.calls import Answer, Call, answers
from remediator.workflow.context import Watched
from remediator.workflow.steps import STEPS
from remediator.workflow.steps.fence_node import FenceNode
from remediator.workflow.together import SideBySide
from tests.unit.workflow.bench import Bench

STEP = FenceNode()
NO = {"metadata": {"labels": {"remediator.dev/no-replace": "true"}}}
PATCH = "patch nodes/gpu-0"


@pytest.fixture
def bench() -> Bench:
    return Bench()


class Play:
    """A drain with its fence, as one worker takes them; `asked` is what came to the servers, in order."""

    def __init__(self, bench: Bench, watched: Watched | None = None) -> None:
        self.bench, self.watched = bench, watched or Watched()
        self.asked: list[str] = []
        self.moments: list[str] = []
        bench.kube.before = self.asked.append
        bench.slurm.before = lambda op, _target: self.asked.append(f"slurm {op}")

    def fails(self, op: str, error: RemediatorError, *, after: str) -> None:
        """This operation of Slurm fails once the other one has come."""

        def before(name: str, _target: str) -> None:
            come = f"slurm {after}" in self.asked
            self.asked.append(f"slurm {name}")
            if name == op and come:
                raise error

        self.bench.slurm.before = before

    def run(self) -> tuple[Answer, Answer]:
        """What becomes of both."""
        rows = [self.bench.see(name=name).row for name in ("drain-slurm", "fence-node")]
        drain, fence = (Call(self.bench.incident, row, True, None, (), None) for row in rows)
        first, second = answers(replace(drain, then=fence), self._attempt)
        return first, second

    def _attempt(self, call: Call) -> Outcome | None:
        seen = self.bench.see(name=call.row.name)
        context = replace(seen, go_on=call.go_on, straight_on=call.straight_on, watched=self.watched)
        return attempt(STEPS[call.row.name], context, may_act=call.may_act, probe=self.moments.append)

    def reads(self) -> list[str]:
        """What was asked of Kubernetes before the PATCH."""
        patched = self.asked.index(PATCH) if PATCH in self.asked else len(self.asked)
        return [op for op in self.asked[:patched] if op.startswith(("get", "list"))]


def test_the_fence_stands_before_the_drain_is_read_back(bench: Bench) -> None:
    play = Play(bench)
    drained, fenced = play.run()
    assert isinstance(drained.outcome, Done)
    assert isinstance(fenced.outcome, Done)
    between = play.asked[play.asked.index("slurm drain") : play.asked.index(PATCH)]
    assert "slurm reservations" in between
    assert "slurm node" not in between
    assert "slurm node" in play.asked[play.asked.index(PATCH) :]
    assert play.moments == [
        "drain-slurm:intent", "drain-slurm:accepted", "fence-node:intent", "fence-node:accepted"
    ]  # fmt: skip


def test_a_drain_that_cannot_be_read_back_is_looked_at_again_and_the_fence_stands(bench: Bench) -> None:
    play = Play(bench)
    play.fails("node", Retry("no answer"), after="drain")
    drained, fenced = play.run()
    assert isinstance(drained.outcome, Again)
    assert isinstance(fenced.outcome, Done)
    assert bench.kube.view("gpu-0").unschedulable


def resume(bench: Bench) -> None:
    bench.slurm.resume("w-0", deadline=5.0)


def take_over(bench: Bench) -> None:
    bench.slurm.drain("w-0", "admin: cable", deadline=5.0)


@pytest.mark.parametrize("hand", [resume, take_over])
def test_a_hand_on_the_node_while_the_fence_is_set_wins(bench: Bench, hand: Callable[[Bench], None]) -> None:
    play = Play(bench)
    bench.kube.before = lambda op: hand(bench) if op == PATCH else None
    drained, fenced = play.run()
    assert isinstance(drained.outcome, Yield)
    assert isinstance(fenced.outcome, Done)


def test_a_drain_that_slurmctld_forgot_meanwhile_is_set_again(bench: Bench) -> None:
    bench.clock.advance(60.0)
    play = Play(bench)

    def kill(op: str) -> None:
        if op == PATCH:
            bench.slurm.kill_ctld()
            bench.slurm.resume("w-0", deadline=5.0)

    bench.kube.before = kill
    drained, _ = play.run()
    assert isinstance(drained.outcome, Unknown)


@pytest.mark.parametrize("theirs", [["w-0"], ["w-0", "w-1"]])
@pytest.mark.parametrize("looks", [0, 1])
def test_no_fence_goes_with_the_drain_of_a_machine_of_which_a_worker_is_somebody_elses(
    theirs: list[str], looks: int
) -> None:
    """From the beginning, or since the first look at them."""
    bench = Bench(slurm_nodes=("w-0", "w-1"))
    play = Play(bench)

    def before(op: str, _target: str) -> None:
        if play.asked.count("slurm node") == 2 * looks:
            bench.slurm.before = lambda _op, _target: None
            for name in theirs:
                bench.slurm.drain(name, "admin: cable", deadline=5.0)
            bench.slurm.before = before
        play.asked.append(f"slurm {op}")

    bench.slurm.before = before
    drained, fenced = play.run()
    assert isinstance(drained.outcome, Hold)
    assert fenced.outcome is None
    assert bench.kube.ours("gpu-0") == []
    ours = [write.target for write in bench.slurm.writes if write.detail != "admin: cable"]
    assert ours == [name for name in ("w-0", "w-1") if name not in theirs]


@pytest.mark.parametrize("error", [Retry("x"), Ambiguous("x"), Blocked("x"), BadInput("node", "x")])
def test_a_drain_that_is_not_accepted_takes_no_fence_with_it(bench: Bench, error: RemediatorError) -> None:
    play = Play(bench)
    play.fails("drain", error, after="node")
    drained, fenced = play.run()
    assert not isinstance(drained.outcome, Done)
    assert fenced.outcome is None
    assert bench.kube.ours("gpu-0") == []


def test_somebody_elses_drain_takes_no_fence_with_it(bench: Bench) -> None:
    bench.drain("w-0", reason="admin: cable")
    drained, fenced = Play(bench).run()
    assert isinstance(drained.outcome, Hold)
    assert fenced.outcome is None


def test_a_drain_that_stands_already_takes_the_fence_with_it(bench: Bench) -> None:
    bench.drain("w-0")
    drained, fenced = Play(bench).run()
    assert isinstance(drained.outcome, Done)
    assert isinstance(fenced.outcome, Done)
    assert bench.slurm.writes == []


def test_of_what_it_goes_straight_on_with_the_node_is_the_watchs_and_pods_are_read(bench: Bench) -> None:
    play = Play(bench, Watched(node=bench.kube.view))
    _, fenced = play.run()
    assert isinstance(fenced.outcome, Done)
    assert "get nodes/gpu-0" not in play.reads()
    assert any(op.startswith("list") for op in play.reads())


def test_an_attempt_of_its_own_reads_the_node(bench: Bench) -> None:
    asked: list[str] = []
    bench.kube.before = asked.append
    assert isinstance(STEP.act(replace(bench.see(), watched=Watched(node=bench.kube.view))), Done)
    assert asked.index("get nodes/gpu-0") < asked.index(PATCH)


def test_a_watch_that_is_behind_writes_nothing_and_the_veto_is_seen_next(bench: Bench) -> None:
    """Whatever the watch has missed is a newer version: the PATCH is refused."""
    behind: NodeView = bench.kube.view("gpu-0")
    bench.kube.outside("gpu-0", "label", NO, "admin")
    _, fenced = Play(bench, Watched(node=lambda _: behind)).run()
    assert isinstance(fenced.outcome, Again)
    assert bench.kube.ours("gpu-0") == []
    done = STEP.act(bench.see())
    assert isinstance(done, Done)
    assert "not cordoned" in done.sentence


def test_another_machine_in_the_watch_is_read_anew(bench: Bench) -> None:
    older = replace(bench.kube.view("gpu-0"), uid="another")
    play = Play(bench, Watched(node=lambda _: older))
    _, fenced = play.run()
    assert isinstance(fenced.outcome, Done)
    assert "get nodes/gpu-0" in play.reads()


@pytest.mark.parametrize("veto", [NO, {"metadata": {"labels": {"remediator.dev/no-replace": "?"}}}])
def test_a_veto_leaves_out_the_cordon_here_too(bench: Bench, veto: dict[str, dict[str, object]]) -> None:
    bench.kube.outside("gpu-0", "label", veto, "admin")
    _, fenced = Play(bench, Watched(node=bench.kube.view)).run()
    assert isinstance(fenced.outcome, Done)
    assert "not cordoned" in fenced.outcome.sentence
    assert not bench.kube.view("gpu-0").unschedulable


@pytest.mark.parametrize("op", ["reservations", "list"])
def test_what_cannot_be_read_is_a_veto_here_too(bench: Bench, op: str) -> None:
    play = Play(bench, Watched(node=bench.kube.view))

    def before(name: str) -> None:
        if name.startswith(op):
            raise Retry("no answer")

    bench.kube.before = before
    bench.slurm.before = lambda name, _target: before(name)
    _, fenced = play.run()
    assert isinstance(fenced.outcome, Done)
    assert "not cordoned" in fenced.outcome.sentence


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
