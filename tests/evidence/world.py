"""A cluster that a trace happens to: the river of the crash suite at the size of hundreds of machines.

Rows become what the service's doors would have taken, in the boot and on the machine that are there by then;
what it decides is done to the fake Slurm and Kubernetes, and a machine that was taken out is mended two hours
later.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from remediator.kube import paths
from remediator.kube.fence import FENCED
from remediator.kube.spare import SpareKeys
from remediator.model.incident import Incident
from remediator.model.signal import Signal
from remediator.run.core import RECONSIDER_S as LEAST_S
from remediator.run.core import Turn
from remediator.run.heartbeats import Heartbeats
from remediator.run.inventory import CachedInventory
from remediator.run.silence import Silence
from remediator.run.trace import (
    AlertRow,
    HostRow,
    JobRow,
    LineRow,
    NodeRow,
    PersonRow,
    Row,
    SignalRow,
    TruthRow,
    signals_of,
)
from remediator.settings import Budgets, Pool
from remediator.signals.job_ends import watch_began
from remediator.store import incidents, signals, steps
from remediator.workflow.calls import Call
from remediator.workflow.silence import OUT_OF_SERVICE
from slurm_bridge.model import SlurmJob
from tests.evidence.caches import Caches
from tests.evidence.monitoring import Monitoring
from tests.evidence.slurm import LeanSlurm
from tests.fakes.river import River

JOB_ENDS_S, SILENT_LOOK_S, SETTLED_S = 30.0, 10.0, 180.0
MENDED_S, PROVEN_OFF_S = 7200.0, 3600.0
PATIENCE_S, RECONSIDER_S = 120.0, 60.0
NEVER = 1e18
PATIENT = frozenset({"await-idle", "await-save"})


class World(River):
    """A Stage. `truths` are the labels whose machines were in service when it happened."""

    slurm: LeanSlurm

    def __init__(
        self, folder: Path, rows: Sequence[Row], *, spares: int, budgets: Budgets | None = None
    ) -> None:
        nodes = tuple(dict.fromkeys(row.node for row in rows if isinstance(row, NodeRow)))
        self._placed = (-1, -1)
        self._waiting = False
        self._caches: Caches | None = None
        self.heartbeats: Heartbeats | None = None
        super().__init__(folder, budgets=budgets or Budgets(), spares=spares, nodes=nodes)
        self.pools = {
            "training": Pool(node_selector={"pool": "training"}, stage="full", restart_failed_jobs=True)
        }
        self.truths: list[TruthRow] = []
        self._leaves = {row.node: row.leaf for row in rows if isinstance(row, NodeRow) and row.leaf}
        for name in self._leaves:
            self._cable(name)
        self.turns = 0
        self._silent: dict[str, frozenset[str]] = {}
        self._ill: dict[str, TruthRow] = {}
        self._bad: dict[str, float] = {}
        self._ids: dict[int, int] = {}
        self._due: list[tuple[float, str, str]] = []
        self._looks = {"jobs": 0.0, "silence": 0.0}
        self._settling_until = 0.0
        self._ended = False
        self._horizon = self._wake_at = 0.0
        self._judge_at = self._reconsider_at = NEVER
        self._open: dict[str, Incident] = {}
        self.begin()
        self._submit([watch_began(self.clock.now())])

    @property
    def caches(self) -> Caches:
        """Made with the first life, when nodes and workers have their names."""
        if self._caches is None:
            self._caches = Caches(self.kube, self.names, self.workers)
        return self._caches

    def new_slurm(self) -> LeanSlurm:
        """See River."""
        return LeanSlurm(self.clock, nodes=tuple(self.workers))

    def begin(self) -> None:
        """See River; the looks at silence begin too."""
        super().begin()
        if not hasattr(self, "truths"):
            return  # the first life, of River's own beginning, sees no row
        self.heartbeats = Heartbeats(self.clock)
        self.silence = Silence(
            self.slurm, self.heartbeats, self.inventory(), self.caches.nodes, lambda: 0.0, self._submit,
            self.outage, self.own, SILENT_LOOK_S,
        )  # fmt: skip
        self.monitoring = Monitoring(self.inventory(), self._submit, self.clock)
        self._hear()

    def inventory(self) -> CachedInventory:
        """See River."""
        caches = self.caches
        return CachedInventory(caches.node, caches.nodes, caches.pods, self.pools, self.budgets.guard)

    # time

    def until(self, at: float) -> None:
        """See Stage: turns while anything is open, and passes over the time in which nothing is."""
        self._horizon, self._wake_at = at, 0.0
        while self.clock.now() < at:
            self._look_around()
            turn_at = min(self._judge_at, self._reconsider_at, self._wake_at if self._open else NEVER)
            if self.answers or self._waiting or self.clock.now() >= turn_at:
                self.turn()
                continue
            self.clock.advance(max(min(at, turn_at, self._next_look()) - self.clock.now(), 0.01))

    def _next_look(self) -> float:
        """When there is something to look at, or for somebody to do."""
        due = [when for when, _, _ in self._due]
        if self._ended:
            due.append(self._looks["jobs"])
        if self.monitoring.busy:
            due.append(self.monitoring.next_look)
        if self._watches_silence():
            due.append(self._looks["silence"])
        return min(due, default=NEVER)

    def pause(self, turn: Turn) -> float:
        """See River; nobody needs a turn before a step is due or a row comes, nor each look at a job that has
        hours to run.
        """
        if turn.calls:
            left = max(self._horizon - self.clock.now(), 0.1)
            return min(PATIENCE_S, left) if all(map(self._is_patient, turn.calls)) else 0.1
        now = self.own.now()
        nothing_soon = turn.wake_at - now >= LEAST_S  # it is no later than that, whatever is due
        self._wake_at = max(self._next_due() if nothing_soon else turn.wake_at, now + 1.0)
        return 0.01

    def _next_due(self) -> float:
        """When the next step or signal is due; what is held is looked at meanwhile."""
        now = self.clock.now()
        with self.store.read() as connection:
            _, step = steps.due(connection, frozenset(), now)
            _, signal = signals.waiting(connection)
        return min(at for at in (step, signal, now + RECONSIDER_S) if at is not None)

    def _submit(self, found: Sequence[Signal]) -> None:
        super()._submit(found)
        self._waiting = self._waiting or bool(found)

    def _is_patient(self, call: Call) -> bool:
        """A look at a job that runs on, or at its machine meanwhile."""
        if call.row.name != "await-empty":
            return call.row.name in PATIENT
        return any(row.name == "await-save" and row.state != "done" for row in self.steps(call.incident.id))

    def turn(self) -> list[Call]:
        """See River; then what has ended since is noticed."""
        self.turns += 1
        calls = super().turn()
        with self.store.read() as connection:
            door = {held.id for held in incidents.held_at_the_door(connection)}
            now_open = {one.id: one for one in incidents.all_open(connection) if one.id not in door}
            first = signals.unhandled(connection, signals.FIRST, 1, NEVER)
            over = [incidents.get(connection, one) for one in self._open.keys() - now_open.keys()]
        self._open, self._waiting = now_open, False
        now = self.clock.now()
        self._judge_at = max(first[0][0].due_at, now + 1.0) if first else NEVER
        self._reconsider_at = now + RECONSIDER_S if door else NEVER
        for incident in over:
            if incident is not None and incident.plan in {"replace", "validate"}:
                self._due.append((self.clock.now() + MENDED_S, "mend", incident.node))
        return calls

    def _look_around(self) -> None:
        now = self.clock.now()
        if self._ended and now >= self._looks["jobs"]:
            self._looks["jobs"], self._ended = now + JOB_ENDS_S, False
            self.watch_jobs()
        if now >= self._looks["silence"] and self._watches_silence():
            self._looks["silence"] = now + SILENT_LOOK_S
            self._hear()
            self.silence.look()
        if self.monitoring.busy and now >= self.monitoring.next_look:
            self.monitoring.look()
        for when, what, node in [one for one in self._due if one[0] <= now]:
            self._due.remove((when, what, node))
            getattr(self, f"_{what}")(node)

    def _watches_silence(self) -> bool:
        """The service looks all the time; here while it lasts and for a while after."""
        lasting = any(what and self._in_service(name) for name, what in self._silent.items())
        return lasting or self.clock.now() < self._settling_until

    def _hear(self) -> None:
        assert self.heartbeats is not None
        for view in self.caches.nodes():
            if "agent" not in self._silent.get(view.name, frozenset()):
                self.heartbeats.heard(view.name, view.boot_id, 0.0)

    # rows

    def take(self, row: Row, number: int) -> None:
        """See Stage."""
        if isinstance(row, LineRow | AlertRow | SignalRow):
            self._see(row, number)
        elif isinstance(row, JobRow):
            self._job(row)
        elif isinstance(row, HostRow):
            self._host(row)
        elif isinstance(row, PersonRow):
            if row.node in self._hosts():
                self.slurm.drain_by("admin", self._hosts()[row.node], row.reason)
        elif isinstance(row, TruthRow):
            self._true(row)

    def _see(self, row: LineRow | AlertRow | SignalRow, number: int) -> None:
        node = self._place(row)
        if isinstance(row, AlertRow) and row.alert.get("status") == "resolved":
            self.monitoring.end(row)
        view = self.caches.node(node) if node else None
        if view is None or not self._in_service(node):
            return
        found = signals_of(row, number, node=node, boot=view.boot_id)
        if isinstance(row, AlertRow):
            self.monitoring.take(row.model_copy(update={"node": node}), found)
        else:
            self._submit(found)

    def _place(self, row: LineRow | AlertRow | SignalRow) -> str:
        """The row's node, or the one that its job's rank runs on by now; empty when it runs no more."""
        if row.job is None:
            return row.node
        job_id = self._ids.get(row.job, -1)
        job = self.slurm.job(job_id, deadline=5.0) if self.slurm.is_known(job_id) else None
        if job is None or job.state != "RUNNING" or row.rank >= len(job.nodes):
            return ""
        return self.homes[job.nodes[row.rank]]

    def _job(self, row: JobRow) -> None:
        if row.state == "RUNNING":
            seen = SlurmJob(
                job_id=0, state="PENDING", name=row.name, user=row.user, batch=True, requeue=True,
                gpus=8 * len(row.nodes),
            )  # fmt: skip
            self._ids[row.id] = self.slurm.submit(seen, width=len(row.nodes), save=5.0)
            self.slurm.settle()
            return
        self.slurm.settle()
        for job_id in self._meant(row):
            if row.state == "COMPLETED":
                self.slurm.cancel(job_id)
            elif self.slurm.job(job_id, deadline=5.0).state == "RUNNING":  # type: ignore[union-attr]
                self.slurm.fail(job_id, row.code)
                self._ended = True

    def _meant(self, row: JobRow) -> list[int]:
        if not row.node:
            return [found for found in [self._ids.get(row.id, -1)] if self.slurm.is_known(found)]
        worker = self._hosts().get(row.node)
        return self.slurm.on(worker) if worker and row.node in self._ill else []

    def _host(self, row: HostRow) -> None:
        worker = self._hosts().get(row.node)
        if worker is None or not self._in_service(row.node):
            return
        now = self.clock.now()
        self._hear()  # as all the time before, in which nobody looked
        self._silent[row.node] = frozenset(row.silent)
        self._settling_until = now + SETTLED_S
        self.slurm.hush(worker, silent="slurmd" in row.silent)
        ready = "Unknown" if "kubelet" in row.silent else "True"
        self.kube.outside(
            row.node, "kubelet", {"status": {"conditions": [{"type": "Ready", "status": ready}]}}
        )
        (self.kube.kill_kubelet if "slurmd" in row.silent else self.kube.revive_kubelet)(row.node)
        if "slurmd" in row.silent:
            self._due.append((now + PROVEN_OFF_S, "power_off", row.node))

    def _true(self, row: TruthRow) -> None:
        there = tuple(name for name in row.nodes if self._in_service(name))
        if not there:
            return
        self.truths.append(row.model_copy(update={"nodes": there}))
        for name in there:
            self._ill[name] = row
            if row.hardware != "well":
                self.kube.api.trials[name] = {"phase": "Failed"}
                self._show_gpus(name, 7)
                self._bad[name] = max(row.until, self._bad.get(name, 0.0))
                self._due.append((row.until, "heal", name))

    def _show_gpus(self, name: str, healthy: int) -> None:
        self.kube.outside(name, "gpus", {"status": {"allocatable": {"nvidia.com/gpu": str(healthy)}}})

    # what people and the operator do

    def _heal(self, node: str) -> None:
        """Whoever found a fault that nobody acted on has mended it by hand."""
        if self._bad.get(node, float("inf")) <= self.clock.now() and self.caches.node(node) is not None:
            del self._bad[node]
            self.kube.api.trials.pop(node, None)
            self._show_gpus(node, 8)

    def _power_off(self, node: str) -> None:
        """Somebody confirms that a silent host is off."""
        view = self.caches.node(node)
        if view is None or "slurmd" not in self._silent.get(node, frozenset()):
            return
        off = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
        self.kube.set_taints(node, [*(dict(taint.raw) for taint in view.taints), off])
        for path in [
            path for path, obj in self.kube.api.objects.items() if obj["spec"].get("nodeName") == node
        ]:
            del self.kube.api.objects[path]
        self.caches.changed()

    def _mend(self, node: str) -> None:
        """Another machine of that name is a spare, or takes the place of one that the pool lacks."""
        view = self.caches.node(node)
        if view is None or FENCED not in {taint.key for taint in view.taints}:
            return
        self.kube.remove_node(node)
        self.kube.revive_kubelet(node)
        self.monitoring.forget(node)
        self.kube.api.trials.pop(node, None)
        self._ill.pop(node, None)
        self._bad.pop(node, None)
        self._silent.pop(node, None)
        if self.homeless:
            labels, taints = {"pool": "training"}, (SpareKeys().worker,)
            self.kube.add_node(
                node, labels=labels, taints=taints, boot_id=f"boot-{node}-{self.clock.now():.0f}"
            )
        else:
            self.kube.add_spare(node, {"pool": "training"})
        self._cable(node)
        self.caches.changed()
        self._hear()

    def _cable(self, node: str) -> None:
        """Whatever machine bears the name, it is behind the same leaf."""
        if node in self._leaves:
            labels = {SpareKeys().leaf: self._leaves[node]}
            self.kube.outside(node, "label", {"metadata": {"labels": labels}})

    def slinky(self) -> None:
        """See River; looks only where something was written."""
        if self.caches.state() == self._placed:
            return
        for worker in self.workers:
            if worker not in self.homeless and paths.pod("slurm", worker) not in self.kube.api.objects:
                self.homeless.add(worker)
                self.slurm.stop_worker(worker)
        taken = {home for worker, home in self.homes.items() if worker not in self.homeless}
        for worker in sorted(self.homeless):
            free = [name for name in self.names if name not in taken and self._takes(name)]
            if free:
                self.homeless.remove(worker)
                taken.add(free[0])
                self.place(worker, free[0])
                self.caches.changed()
        self._placed = self.caches.state()

    def _takes(self, name: str) -> bool:
        view = self.caches.node(name)
        only = {SpareKeys().worker}
        return view is not None and {taint.key for taint in view.taints} == only and not view.unschedulable

    def _in_service(self, name: str) -> bool:
        """A worker is on it: neither a spare nor taken out."""
        return name in self._hosts()

    def _hosts(self) -> dict[str, str]:
        return {home: worker for worker, home in self.homes.items() if worker not in self.homeless}
