"""Nodes and jobs as the rows of a trace tell of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from remediator.model.machine import Machine
from remediator.run.trace import JobRow, NodeRow, default_boot
from remediator.settings import Settings
from slurm_bridge.model import ExitInfo, SlurmJob


@dataclass(frozen=True, slots=True)
class Run:
    """One life of a job; `ended` is None while the trace does not show its end."""

    id: int
    nodes: tuple[str, ...]
    gpus: int
    began: float
    ended: float | None = None
    row: JobRow | None = None
    restarts: int = 0

    def as_slurm(self, end: JobRow) -> SlurmJob:
        """The run that `end` ended, as Slurm would have listed it."""
        row = self.row or end
        return SlurmJob(
            job_id=self.id,
            state=end.state,
            name=row.name,
            user=row.user,
            batch=True,
            requeue=True,
            nodes=self.nodes,
            submit_time=int(self.began),
            start_time=self.began,
            end_time=end.at,
            restart_count=self.restarts,
            exit=ExitInfo("ERROR" if end.code else "SUCCESS", end.code, end.signal or None),
        )


class Cast:
    """Nodes and jobs as the rows of a trace tell of them; the Inventory of a rehearsal."""

    def __init__(self, settings: Settings) -> None:
        self._pools = settings.pools
        self._nodes: dict[str, NodeRow] = {}
        self._boots: dict[str, str] = {}
        self._lives: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self.fenced: dict[str, str] = {}
        self.runs: list[Run] = []
        self._running: dict[int, int] = {}

    def machine(self, name: str) -> Machine | None:
        """A node that the trace has named so far."""
        row = self._nodes.get(name)
        if row is None:
            return None
        pool = self._pools.get(self._pool(row))
        return Machine(
            name=name,
            uid=f"{name}/{self._lives.get(name, 0)}",
            boot_id=self._boots[name],
            pool=self._pool(row) if pool else None,
            stage=pool.stage if pool else "observe",
            restart_failed_jobs=pool.restart_failed_jobs if pool else False,
            slurm_nodes=(name,),
            pool_size=self.pool_size(self._pool(row)),
            fenced_by=self.fenced.get(name),
            shares=self._shares(row) if pool else (),
        )

    def node_of(self, worker: str) -> str | None:
        """A Slurm node has its node's name here."""
        return worker if worker in self._nodes else None

    def pool_size(self, pool: str) -> int:
        """How many nodes of the trace are in a pool."""
        return self._sizes.get(pool, 0)

    def share_size(self, kind: str, value: str) -> int:
        """How many nodes of the trace share this: their pool, leaf or rack."""
        return sum((kind, value) in self._shares(row) for row in self._nodes.values())

    def _shares(self, row: NodeRow) -> tuple[tuple[str, str], ...]:
        found = {"leaf": row.leaf, "rack": row.rack, "pool": self._pool(row)}
        return tuple((kind, value) for kind, value in found.items() if value)

    def appear(self, row: NodeRow) -> None:
        """A node is there, or back under another boot."""
        before = self._nodes.get(row.node)
        if before is not None:
            self._sizes[self._pool(before)] -= 1
        self._nodes[row.node] = row
        self._sizes[self._pool(row)] = self.pool_size(self._pool(row)) + 1
        self._boots[row.node] = row.boot_id or self._boots.get(row.node) or default_boot(row.node)

    def boots(self, node: str, boot_id: str) -> None:
        """Something was seen in this boot of the node."""
        if node and node not in self._nodes:
            self.appear(NodeRow(at=0.0, type="node", node=node))
        if node and boot_id:
            self._boots[node] = boot_id

    def repaired(self, node: str) -> None:
        """Another machine, or a mended one, is in the node's place."""
        self.fenced.pop(node, None)
        self._lives[node] = self._lives.get(node, 0) + 1

    def start(self, row: JobRow) -> None:
        """A job begins, or begins again."""
        for node in row.nodes:
            self.boots(node, "")
        gpus = sum(self._nodes[node].gpus for node in row.nodes) if row.gpus is None else row.gpus
        earlier = [run for run in self.runs if run.id == row.id]
        self._running[row.id] = len(self.runs)
        self.runs.append(Run(row.id, row.nodes, gpus, row.at, row=row, restarts=len(earlier)))

    def end(self, row: JobRow) -> Run | None:
        """The run that this row ends, by its number or by the node that it is on."""
        found = self._running.pop(row.id, None) if not row.node else self._on(row.node)
        if found is None:
            return None
        self.runs[found] = replace(self.runs[found], ended=row.at)
        return self.runs[found]

    def at(self, nodes: Sequence[str], at: float) -> list[Run]:
        """Runs on any of these nodes at that time."""
        there = set(nodes)
        return [
            run
            for run in self.runs
            if there & set(run.nodes) and run.began <= at and (run.ended is None or at <= run.ended)
        ]

    def _on(self, node: str) -> int | None:
        for job, index in self._running.items():
            if node in self.runs[index].nodes:
                return self._running.pop(job)
        return None

    def _pool(self, row: NodeRow) -> str:
        return row.pool or next(iter(self._pools))
