"""Running jobs are compared through Prometheus, and only what is found is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from remediator.clock import ManualClock
from remediator.errors import Retry
from remediator.incidents.ranks import RECENT_S
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.observe.metrics import Metrics
from remediator.run import ranks
from remediator.run.lookouts import lookouts
from remediator.run.ranks import Ranks
from remediator.settings import Settings
from remediator.store.engine import open_store
from slurm_bridge.model import SlurmJob
from tests.fakes.prometheus import FakePrometheus
from tests.fakes.slurm import FakeSlurm

NODES = [f"gpu-{number}" for number in range(4)]
START = 1_200_000.0
Level = Callable[[str, float], float]


class World:
    """A Slurm with one job on all nodes, a Prometheus, and what was handed in."""

    def __init__(self) -> None:
        self.clock, self.prometheus, self.metrics = ManualClock(START - 5), FakePrometheus(), Metrics()
        self.slurm = FakeSlurm(self.clock, nodes=NODES)
        self.job = self.submit()
        self.told: list[Signal] = []
        self.fenced: set[str] = set()
        self.store_fails = False
        self.ranks = Ranks(
            self.prometheus, self.slurm, self, self.submit_signals, self.metrics, self.clock, 1800.0
        )

    def submit(self, width: int = 4, gpus: int | None = 4, **fields: object) -> int:
        """A batch job that is running when this returns."""
        job = SlurmJob(
            job_id=0, state="PENDING", name="train", user="alice", batch=True, requeue=True, gpus=gpus
        )
        found = self.slurm.submit(replace(job, **fields), width=width)  # type: ignore[arg-type]
        self.clock.advance(5.0)
        self.slurm.jobs(deadline=5.0)
        return found

    def node_of(self, worker: str) -> str | None:
        return worker

    def machine(self, name: str) -> Machine | None:
        pool = "training" if name in NODES else None
        return Machine(name=name, uid=f"uid-{name}", boot_id=f"boot-{name}", pool=pool)

    def submit_signals(self, found: Sequence[Signal]) -> None:
        if self.store_fails:
            raise Retry("disk full")
        self.told += found

    def runs_for(self, seconds: float, tensor: Level, *, waits: Level = lambda *_: 1.0) -> None:
        """Time passes, and the agents tell of it every 30 s; kernels run all the time."""
        times = [self.clock.now() + 30 * step for step in range(int(seconds / 30))]
        for number, node in enumerate(NODES):
            where = {"job": "agents", "instance": f"10.0.0.{number}:9465"}
            gpu = where | {"gpu": "0", "uuid": f"GPU-{node}", "pci": "0000:18:00"}
            self.prometheus.put(
                "remediator_agent_info", where | {"node": node, "boot_id": "b"}, [(t, 1) for t in times]
            )
            self.prometheus.put(
                "remediator_gpu_tensor_activity_ratio", gpu, [(t, tensor(node, t)) for t in times]
            )
            self.prometheus.put("remediator_gpu_utilization_ratio", gpu, [(t, 1.0) for t in times])
            for rail in ("0", "1"):
                ticks = [waits(node, t) if rail == "1" else 1.0 for t in times]
                counted = [(t, sum(ticks[: index + 1])) for index, t in enumerate(times)]
                self.prometheus.put("remediator_ib_wait_ticks_total", where | {"rail": rail}, counted)
        self.clock.advance(seconds)

    def look(self) -> list[Signal]:
        """What one look finds."""
        before = len(self.told)
        self.ranks.look()
        return self.told[before:]

    def counted(self, outcome: str, reason: str = "") -> float:
        """How often that was the answer."""
        name = "remediator_ranks_compared_total"
        return self.metrics.registry.get_sample_value(name, {"outcome": outcome, "reason": reason}) or 0.0


def stops(at: float) -> Level:
    return lambda _, now: 0.4 if now < at else 0.0


def test_a_job_that_hangs_is_told_once_with_its_run_and_no_node() -> None:
    world = World()
    world.runs_for(5400, stops(START + 3000))
    (found,) = world.look()
    assert (found.source, found.kind, found.node) == ("slurm", "job-stalled", "")
    assert found.detail["run"]["job_id"] == world.job
    assert found.detail["extra"] == {"flat_s": 2280.0, "together": 1, "nodes": 4, "spinning": True}
    assert found.detail["says"] == (
        "job 1 of alice stands still: no tensor work on any of its GPUs for 38 min, "
        "while kernels run all the time; about the end of its work: no evidence against one node: "
        "its 4 nodes show nothing in the 20 min before its end"
    )
    assert world.look() == []
    assert world.counted("stalled") == 2


def test_a_stall_names_the_node_whose_link_went_down_as_it_began() -> None:
    world = World()
    world.runs_for(5400, stops(START + 3000))
    down = [(START + 30 * step, float(step > 90)) for step in range(180)]
    for number, node in enumerate(NODES):
        port = {"job": "agents", "instance": f"10.0.0.{number}:9465", "device": "mlx5_0", "port": "1"}
        moved = down if node == "gpu-1" else [(at, 0.0) for at, _ in down]
        world.prometheus.put("remediator_ib_link_downed_total", port, moved)
    (found,) = world.look()
    assert "evidence points to gpu-1: port mlx5_0/1 went down" in found.detail["says"]
    assert found.detail["nodes"] == ["gpu-1"]


def test_a_job_at_work_is_asked_about_its_last_minutes_only() -> None:
    world = World()
    world.runs_for(5400, lambda *_: 0.4)
    assert world.look() == []
    assert world.counted("works") == 1
    assert all(f"[{RECENT_S:.0f}s:" in query for query in world.prometheus.asked)


def test_a_pause_is_asked_about_again_after_a_while_only() -> None:
    world = World()
    world.runs_for(5400, stops(START + 4500))
    for _ in range(3):
        assert world.look() == []
        world.clock.advance(1.0)
    assert sum("gpu_utilization" in query for query in world.prometheus.asked) == 1
    assert world.counted("works") == 3


def test_a_node_that_lags_with_one_rail_waiting_is_evidence_against_it() -> None:
    world = World()
    slow = lambda node, _: 0.1 if node == "gpu-2" else 0.4  # noqa: E731
    world.runs_for(3600, slow, waits=lambda node, _: 900.0 if node == "gpu-2" else 1.0)
    (found,) = world.look()
    assert (found.source, found.kind, found.node, found.boot_id) == (
        "condition",
        "straggler",
        "gpu-2",
        "boot-gpu-2",
    )
    assert found.detail["says"] == (
        "gpu 0 of gpu-2 does 25% of what job 1's other nodes do, and its rail 1 waits to send"
    )


@pytest.mark.parametrize(
    ("fields", "outcome", "reason"),
    [
        ({"gpus": None}, "unknown", "gpus"),
        ({"gpus": 2}, "unknown", "gpus"),
        ({"gpus": 8}, "unknown", "unread"),
        ({"batch": False}, "works", ""),  # nobody asks: an salloc is idle while its owner thinks
    ],
)
def test_a_job_that_cannot_be_judged_is_counted_and_never_told(
    fields: dict[str, object], outcome: str, reason: str
) -> None:
    world = World()
    world.slurm.cancel(world.job)
    world.clock.advance(5.0)
    world.submit(**fields)  # type: ignore[arg-type]
    world.runs_for(5400, stops(START + 3000))
    assert world.look() == []
    assert world.counted(outcome, reason) == (1.0 if reason else 0.0)


def test_no_answer_is_counted_and_tells_nothing() -> None:
    world = World()
    world.runs_for(5400, stops(START + 3000))
    world.prometheus.silent = True
    assert world.look() == []
    assert world.counted("unknown", "no-answer") == 1
    world.prometheus.silent = False
    assert len(world.look()) == 1


def test_what_the_store_did_not_take_is_told_again() -> None:
    world = World()
    world.runs_for(5400, stops(START + 3000))
    world.store_fails = True
    assert world.look() == []
    world.store_fails = False
    assert len(world.look()) == 1


def test_a_job_that_was_requeued_since_it_was_read_is_not_told_of() -> None:
    world = World()
    world.runs_for(5400, stops(START + 3000))
    world.ranks._jobs.now()
    job = world.slurm.job(world.job, deadline=5.0)
    assert job is not None
    world.slurm.requeue(job, deadline=5.0)
    world.clock.advance(200.0)
    world.slurm.jobs(deadline=5.0)
    again = world.slurm.job(world.job, deadline=5.0)
    assert again is not None
    assert (again.state, again.restart_count) == ("RUNNING", 1)
    assert world.look() == []


def test_a_look_that_has_no_time_left_goes_on_with_the_jobs_it_left(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.runs_for(5400, stops(START + 3000))
    monkeypatch.setattr(ranks, "LOOK_S", -1.0)
    assert world.look() == []
    monkeypatch.setattr(ranks, "LOOK_S", 60.0)
    assert len(world.look()) == 1


@pytest.mark.parametrize(
    ("said", "compares"),
    [
        ({"prometheus": {"url": "http://p:9090"}}, True),
        ({}, False),
        ({"prometheus": {"url": "http://p:9090"}, "stalls": {"flat_s": None}}, False),
    ],
)
def test_jobs_are_compared_where_prometheus_can_be_asked(
    said: dict[str, object], compares: bool, tmp_path: Path
) -> None:
    pools = {"gpu": {"node_selector": {"a": "b"}}}
    base: dict[str, object] = {"cluster": {"name": "c"}, "slurm": {"url": "http://s:1"}, "pools": pools}
    caches: Any = SimpleNamespace(nodes=SimpleNamespace(objects=list), pods=SimpleNamespace(objects=list))
    world, nobody = World(), cast("Any", None)
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    looks = lookouts(
        Settings.model_validate(base | said), world.slurm, nobody, caches, nobody, store, world.metrics,
        world.submit_signals, world.submit_signals, world.clock,
    )  # fmt: skip
    assert ("ranks" in {look.stage for look in looks}) is compares
