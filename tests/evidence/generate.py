"""A labelled trace from a seed: machines, jobs on them, what breaks, and what only looks like it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from remediator.clock import rfc3339
from remediator.run.trace import (
    AlertRow,
    Hardware,
    HostRow,
    JobRow,
    LineRow,
    NodeRow,
    PersonRow,
    Row,
    TruthRow,
    default_boot,
)
from tests.evidence import mix
from tests.evidence.mix import LEFT, Shape

START = 1_800_000_000.0
DAY_S, HOUR_S = 86_400.0, 3600.0
LEAF, RACK = 16, 8
FAULT_S = 6 * HOUR_S  # so long an action is about this fault; then somebody has mended it by hand
WIDTHS = (1, 1, 1, 1, 2, 2, 4, 4, 8, 16)
IDLE = 0.1  # part of the machines that no job is planned for


@dataclass(frozen=True)
class Size:
    """How much trace; `rate` multiplies the published rate of faults, of which there would be few."""

    nodes: int = 400
    days: float = 25.0
    rate: float = 1.0
    seed: int = 1

    @property
    def node_days(self) -> float:
        """What was asked for."""
        return self.nodes * self.days


class Generator:
    """One trace; `rows` gives it in the order of time."""

    def __init__(self, size: Size) -> None:
        self._size = size
        self._random = Random(size.seed)
        self._end = START + size.days * DAY_S
        self._names = [f"gpu-{number:04}" for number in range(size.nodes)]
        self._rows: list[Row] = []
        self._faults = self._jobs = 0

    def rows(self) -> list[Row]:
        """Everything."""
        self._rows += [self._node(index) for index in range(self._size.nodes)]
        self._workload()
        for _ in range(self._count(mix.PER_NODE_DAY * self._size.rate * self._size.node_days)):
            self._break()
        for name, rate in mix.NOISE_PER_NODE_DAY.items():
            for _ in range(self._count(rate * self._size.node_days)):
                self._noise(name)
        for name, rate in mix.SITE_PER_DAY.items():
            for _ in range(self._count(rate * self._size.days)):
                getattr(self, f"_{name}")(self._some_time())
        kept = [row for row in self._rows if row.at <= self._end]
        return sorted(kept, key=lambda row: row.at)

    # machines and jobs

    def _node(self, index: int) -> NodeRow:
        name = self._names[index]
        return NodeRow(
            at=START, type="node", node=name, pool="training", gpus=8, boot_id=default_boot(name),
            leaf=f"leaf-{index // LEAF}", rack=f"rack-{index // RACK}",
        )  # fmt: skip

    def _workload(self) -> None:
        at, last = 0, int(len(self._names) * (1 - IDLE))
        while at < last:
            width = min(self._random.choice(WIDTHS), last - at)
            self._group(tuple(self._names[at : at + width]))
            at += width

    def _group(self, nodes: tuple[str, ...]) -> None:
        at = START + self._random.uniform(1, HOUR_S)
        while at < self._end:
            lasts = min(self._random.lognormvariate(math.log(8 * HOUR_S), 0.8), 4 * DAY_S)
            self._job(nodes, at, lasts)
            at += lasts + self._random.uniform(120, 900)

    def _job(self, nodes: tuple[str, ...], at: float, lasts: float) -> None:
        self._jobs += 1
        job, user = self._jobs, f"user-{self._random.randrange(40)}"
        self._rows.append(
            JobRow(at=at, type="job", id=job, user=user, name=f"run-{job}", nodes=nodes, gpus=8 * len(nodes))
        )
        if self._random.random() < mix.CRASHES:
            self._crash(job, nodes, at + lasts * self._random.uniform(0.05, 0.95))
        self._rows.append(JobRow(at=at + lasts, type="job", id=job, state="COMPLETED"))

    def _crash(self, job: int, nodes: tuple[str, ...], at: float) -> None:
        """The program fails: with a line on one machine, with its teardown's lines on all, or with none."""
        self._truth("application crash", at, nodes, "well")
        shape = self._random.random()
        if shape < 0.3:
            rank = self._random.randrange(len(nodes))
            text = self._random.choice((mix.ENGINE, mix.MEMORY))
            self._line(text, at - 2.0, nodes[rank], job=job, rank=rank)
        elif shape < 0.6 and len(nodes) > 1:
            self._teardown(job, nodes, at)
        again = self._random.random() < 0.2  # its own bug, which comes back
        for extra in range(3 if again else 1):
            self._rows.append(JobRow(at=at + 900 * extra, type="job", id=job, state="FAILED", code=1))

    def _teardown(self, job: int, nodes: tuple[str, ...], at: float) -> None:
        for rank, node in enumerate(nodes):
            for _ in range(self._random.randint(1, 6)):
                self._line(LEFT, at + self._random.uniform(0, 3), node, job=job, rank=rank)

    # faults

    def _break(self) -> None:
        (cause,) = self._random.choices(list(mix.LLAMA), weights=list(mix.LLAMA.values()))
        shapes = mix.SHAPES[cause]
        (shape,) = self._random.choices(shapes, weights=[one.share for one in shapes])
        at, index = self._some_time(), self._random.randrange(len(self._names))
        nodes = self._leaf(index) if shape.alert == "leaf" else (self._names[index],)
        lasts = 2 * HOUR_S if shape.host == "person" else FAULT_S
        self._truth(f"{cause}: {shape.name}", at, nodes, shape.hardware, lasts)
        for node in nodes:
            self._show(shape, at + self._random.uniform(0, 0.5 if len(nodes) == 1 else 30.0), node)

    def _show(self, shape: Shape, at: float, node: str) -> None:
        bus = f"{self._random.choice((0x18, 0x2A, 0x3A, 0x5D, 0x9A, 0xAB, 0xBA, 0xDB)):02x}"
        for number, text in enumerate(shape.lines):
            self._line(text.replace("{bus}", bus), at + 0.2 * number, node)
        if shape.alert in {"leaf", "IbPortDown"}:
            self._link(at, node)
        elif shape.alert == "GpuHot":
            self._hot(at, node, 88.0, FAULT_S)
        elif shape.alert:
            self._hot(at, node, 9.223372036854776e18, 60.0)
        if shape.host == "person":
            self._rows.append(
                PersonRow(at=at, type="person", node=node, reason=f"DIMM swap, ticket {at:.0f}")
            )
            self._rows.append(PersonRow(at=at + 2 * HOUR_S, type="person", node=node))
        elif shape.host:
            self._silence(at, node, FAULT_S, "agent", "slurmd", "kubelet")
        if shape.crash_s is not None:
            late = self._random.uniform(0.2, 1.0) * shape.crash_s
            self._rows.append(JobRow(at=at + late, type="job", node=node, state="FAILED", code=1))

    # what is no fault of a machine

    def _noise(self, name: str) -> None:
        at, node = self._some_time(), self._random.choice(self._names)
        self._truth(name, at, (node,), "well", HOUR_S)
        if name == "impossible temperature":
            value = self._random.choice((9.223372036854776e18, 0.0, -1.0, 82_505.0, 2_147_483_632.0))
            self._hot(at, node, value, 60.0)
        elif name == "exporter restart":
            self._alert("GpuXidByDcgm", at, node, witness="dcgm-xid", gpu="3", xid="79")
        elif name == "agent restart":
            self._silence(at, node, self._random.uniform(20, 240), "agent")
        else:
            code = "45" if name == "xid 45 alone" else "999"
            self._line(LEFT.replace(": 45,", f": {code},"), at, node)

    def _cooling(self, at: float) -> None:
        """A row of racks gets hot: 24 machines within ten minutes."""
        first = self._random.randrange(max(1, len(self._names) - 24))
        nodes = tuple(self._names[first : first + 24])
        self._truth("cooling", at, nodes, "well", HOUR_S)
        for node in nodes:
            self._hot(at + self._random.uniform(0, 600), node, 84.0, 1800.0)

    def _partition(self, at: float) -> None:
        """Four in ten agents and kubelets are not heard for some minutes; Slurm hears all its daemons."""
        nodes = tuple(name for name in self._names if self._random.random() < 0.4)
        self._truth("partition", at, nodes, "well", HOUR_S)
        lasts = self._random.uniform(120, 900)
        for node in nodes:
            self._silence(at, node, lasts, "agent", "kubelet")

    def _storm(self, at: float) -> None:
        """The widest job that runs then is torn down: XID 45 on every machine it used."""
        ends = {row.id: row.at for row in self._rows if isinstance(row, JobRow) and row.state == "COMPLETED"}
        running = [
            row
            for row in self._rows
            if isinstance(row, JobRow) and row.nodes and row.at < at - 60 and ends[row.id] > at + 60
        ]
        if running:
            job = max(running, key=lambda row: len(row.nodes))
            self._truth("xid 45 storm", at, job.nodes, "well", HOUR_S)
            self._teardown(job.id, job.nodes, at)
            self._rows.append(JobRow(at=at + 1, type="job", id=job.id, state="FAILED", code=1))

    # rows

    def _truth(
        self, label: str, at: float, nodes: tuple[str, ...], hardware: Hardware, lasts: float = FAULT_S
    ) -> None:
        self._faults += 1
        self._rows.append(
            TruthRow(
                at=at, type="truth", fault=f"fault-{self._faults}", label=label, nodes=nodes,
                hardware=hardware, until=at + lasts,
            )
        )  # fmt: skip

    def _line(self, text: str, at: float, node: str, *, job: int | None = None, rank: int = 0) -> None:
        line = text.replace("{bus}", "18")
        self._rows.append(LineRow(at=at, type="line", node=node, line=line, job=job, rank=rank))

    def _link(self, at: float, node: str) -> None:
        self._alert("IbPortDown", at, node, fault="ib-port-down", witness="own-counters",
                    job="agents", instance=f"{node}:9465", device="mlx5_3", port="1", rail="3")  # fmt: skip

    def _hot(self, at: float, node: str, value: float, lasts: float) -> None:
        self._alert("GpuHot", at, node, lasts, fault="gpu-hot", gpu="3", UUID=f"GPU-{node}",
                    value=f"{value:g}")  # fmt: skip

    def _alert(self, name: str, at: float, node: str, lasts: float = 600.0, **labels: str) -> None:
        alert: dict[str, Any] = {
            "labels": {"alertname": name, "node": node, **labels},
            "startsAt": rfc3339(at),
        }
        self._rows.append(AlertRow(at=at, type="alert", alert=alert | {"status": "firing"}, node=node))
        over = alert | {"status": "resolved", "endsAt": rfc3339(at + lasts)}
        self._rows.append(AlertRow(at=at + lasts, type="alert", alert=over, node=node))

    def _silence(self, at: float, node: str, lasts: float, *what: Any) -> None:
        self._rows.append(HostRow(at=at, type="host", node=node, silent=what))
        self._rows.append(HostRow(at=at + lasts, type="host", node=node))

    def _leaf(self, index: int) -> tuple[str, ...]:
        first = index // LEAF * LEAF
        return tuple(self._names[first : first + LEAF])

    def _some_time(self) -> float:
        return START + self._random.uniform(HOUR_S, self._size.days * DAY_S - HOUR_S)

    def _count(self, mean: float) -> int:
        """As many as a Poisson process brings."""
        at, found = self._random.expovariate(1.0), 0
        while at < mean:
            at, found = at + self._random.expovariate(1.0), found + 1
        return found


def written(rows: list[Row]) -> Iterator[str]:
    """The trace as lines of its file."""
    for row in rows:
        yield row.model_dump_json(exclude_defaults=True)
