"""What would happen to a node and its jobs if it fell ill now: reads, and decides as the core does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import sqlalchemy as sa

from remediator.actuators.cluster import KubeCluster
from remediator.actuators.spares import LabelledSpares
from remediator.clock import Clock
from remediator.errors import BadInput, RemediatorError, Retry
from remediator.kube import paths, soperator
from remediator.kube.errors import Json
from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.pods import WORKER_SELECTOR, parse_pod
from remediator.kube.readonly import ReadOnlyApi
from remediator.kube.session import Api
from remediator.kube.spare import SpareKeys
from remediator.model.decision import Decision
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.policy.budgets import drain_budget
from remediator.policy.decide import decide
from remediator.policy.rules import Rules
from remediator.policy.vetoes import PROTECTED, rollout, vetoes
from remediator.run.inventory import CachedInventory
from remediator.run.job_outlook import JobOutlook, Saves, job_outlook
from remediator.run.storeview import StoreView
from remediator.settings import Settings
from remediator.store import checkpoints, commands, incidents, spares
from remediator.store.engine import Store
from remediator.workflow.ledger import GUARDED, Ledger
from remediator.workflow.ownership import is_systems
from remediator.workflow.plans import PLANS
from remediator.workflow.steps.survey import run_of
from slurm_bridge.model import Reservation, SlurmConfig, SlurmJob, SlurmNode
from slurm_bridge.reasons import quoted

READ_S = 5.0
Parsed = TypeVar("Parsed")
Read = TypeVar("Read")


class SlurmReads(Protocol):
    """The part of the Slurm port that only reads."""

    def node(self, name: str, *, deadline: float) -> SlurmNode | None:
        """The node's record now."""

    def jobs(self, *, deadline: float) -> tuple[SlurmJob, ...]:
        """All job records."""

    def reservations(self, *, deadline: float) -> tuple[Reservation, ...]:
        """All reservations."""

    def config(self, *, deadline: float) -> SlurmConfig:
        """Slurm's settings."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The whole answer. `mute`: Slurm nodes that do not answer now. `budgets`: what it would draw on, each
    with why it has to wait, if so. `unknown`: what could not be read and is therefore not in it.
    """

    node: str
    pool: str | None
    stage: str
    slurm_nodes: tuple[str, ...]
    fault: str
    action: str
    plan: str
    sentence: str
    jobs: tuple[JobOutlook, ...]
    gpu_hours_at_stake: float
    spare: str | None
    spares_refused: tuple[str, ...]
    without_spare: str
    vetoes: tuple[str, ...]
    maintenance: tuple[str, ...]
    holds: tuple[str, ...]
    mute: tuple[str, ...]
    budgets: dict[str, str]
    unknown: tuple[str, ...]

    @property
    def knows_jobs(self) -> bool:
        """Whether Slurm said which jobs are there: else an empty list says nothing."""
        return not any(found.startswith("jobs:") for found in self.unknown)


class Foresight:
    """Asks everybody a remediation would ask, by reads alone."""

    def __init__(
        self, settings: Settings, store: Store, slurm: SlurmReads, api: Api, rules: Rules, clock: Clock
    ) -> None:
        self._settings = settings
        self._store = store
        self._slurm = slurm
        self._api = ReadOnlyApi(api)
        self._rules = rules
        self._clock = clock
        self._unknown: list[str] = []

    def look(self, name: str, xid: int) -> Outlook:
        """The outlook for one node; BadInput when there is none of exactly this name."""
        self._unknown = []
        nodes = self._list(paths.NODES, parse_node)
        inventory = self._inventory(nodes)
        machine = _demand(inventory.machine(name), name)
        view = next(node for node in nodes if node.name == name)
        with self._store.read() as connection:
            ledger = Ledger(self._settings.budgets, inventory.pool_size)
            decision = self._decide(connection, ledger, machine, xid)
            budgets = self._budgets(connection, ledger, machine, decision)
            holds = _holds(connection, machine)
            taken = set(spares.taken(connection))
        replaces = decision.plan == "replace"
        workers = self._workers(machine)
        mute = tuple(node.name for node in workers if node.is_silent)
        jobs = self._jobs(machine, decision, frozenset(mute))
        spare, refused = self._spare(machine, view, taken) if replaces else (None, ())
        return Outlook(
            node=name,
            pool=machine.pool,
            stage=str(machine.stage_for(decision.tier)),
            slurm_nodes=machine.slurm_nodes,
            fault=f"XID {xid}",
            action=decision.action,
            plan=decision.plan,
            sentence=decision.sentence,
            jobs=jobs,
            gpu_hours_at_stake=round(sum(job.gpu_hours or 0.0 for job in jobs if job.released), 2),
            spare=spare,
            spares_refused=refused,
            without_spare=self._without_spare(machine),
            vetoes=self._vetoes(view),
            maintenance=self._maintenance(machine),
            holds=(*self._dry_run(), *holds, *_foreign(workers), *machine.reports),
            mute=mute,
            budgets=budgets,
            unknown=tuple(self._unknown),
        )

    def _inventory(self, nodes: Iterable[NodeView]) -> CachedInventory:
        named = {node.name: node for node in nodes}
        workers = self._list(paths.PODS, parse_pod, {"labelSelector": WORKER_SELECTOR})
        workers += self._list(paths.PODS, parse_pod, {"labelSelector": soperator.WORKER_SELECTOR})
        return CachedInventory(named.get, named.values, lambda: workers, self._settings.pools)

    def _decide(self, connection: sa.Connection, ledger: Ledger, machine: Machine, xid: int) -> Decision:
        now = self._clock.now()
        situation = StoreView(connection, ledger, now).of(machine)
        signal = Signal(
            source="agent", node=machine.name, boot_id=machine.boot_id, kind="xid", code=xid, pci=None,
            seen_at=now, received_at=now, dedupe="",
        )  # fmt: skip
        return decide(signal, machine, self._rules, situation)

    def _budgets(
        self, connection: sa.Connection, ledger: Ledger, machine: Machine, decision: Decision
    ) -> dict[str, str]:
        steps = [step.name for step in PLANS.get(decision.plan, ())]
        drawn = [drain_budget(decision.tier)] if steps else []
        drawn += [budget for step, budget in GUARDED.items() if step in steps]
        now = self._clock.now()
        return {name: ledger.refused(connection, machine.pool or "", name, now) or "" for name in drawn}

    def _jobs(self, machine: Machine, decision: Decision, mute: frozenset[str]) -> tuple[JobOutlook, ...]:
        names = frozenset(machine.slurm_nodes)
        listed = self._try("jobs", lambda: self._slurm.jobs(deadline=READ_S)) or ()
        config = self._try("KillWait", lambda: self._slurm.config(deadline=READ_S)) or SlurmConfig()
        here = [job for job in listed if job.holds_nodes and names & set(job.nodes)]
        moves = decision.action == "act" and decision.plan in {"replace", "move-jobs"}
        saves = Saves(config.kill_wait, mute, decision.timing if moves else None)
        pool = self._settings.pools.get(machine.pool or "")
        glob = pool.checkpoint_glob if pool else None
        with self._store.read() as connection:
            seen = [checkpoints.of_run(connection, glob, run_of(job, names)) for job in here]
        now = self._clock.now()
        return tuple(
            job_outlook(job, names, saves, saved, now) for job, saved in zip(here, seen, strict=True)
        )

    def _spare(self, machine: Machine, view: NodeView, taken: set[str]) -> tuple[str | None, tuple[str, ...]]:
        driver = LabelledSpares(self._api, self._clock, SpareKeys())
        selector = self._settings.pools[machine.pool or ""].node_selector
        offers = self._try("spares", lambda: driver.offers(selector, view.labels, deadline=READ_S))
        if offers is None:
            return None, ()
        others = [node for node in offers.usable if node.uid != view.uid]  # a sick spare is fenced by then
        free = [node.name for node in others if node.uid not in taken]
        used = tuple(f"{node.name} is another incident's" for node in others if node.uid in taken)
        return (free[0] if free else None), (*offers.refused, *used)

    def _vetoes(self, view: NodeView) -> tuple[str, ...]:
        cluster = KubeCluster(self._api, self._clock)
        pods = self._try("pods (which counts as a veto)", lambda: cluster.pods_on(view.name, deadline=READ_S))
        now = self._clock.now()
        found = vetoes(view, pods or (), self._settings.no_replace_label, PROTECTED, now=now)
        rolling = self._try("NodeSets", lambda: cluster.rollout(pods or (), deadline=READ_S))
        planned = rollout(view.name, rolling or "", now=now)
        return tuple(map(str, (*found, planned) if planned else found))

    def _maintenance(self, machine: Machine) -> tuple[str, ...]:
        found = self._try("reservations", lambda: self._slurm.reservations(deadline=READ_S)) or ()
        now = self._clock.now()
        return tuple(
            f"reservation {one.name} plans maintenance on {name}"
            for one in found
            for name in machine.slurm_nodes
            if one.is_maintenance and name in one.nodes and (one.end is None or now < one.end)
        )

    def _workers(self, machine: Machine) -> list[SlurmNode]:
        read = partial(self._slurm.node, deadline=READ_S)
        found = [self._try(f"Slurm node {name}", partial(read, name)) for name in machine.slurm_nodes]
        return [node for node in found if node is not None]

    def _without_spare(self, machine: Machine) -> str:
        pool = self._settings.pools.get(machine.pool or "")
        return (pool and pool.when_no_spare) or self._settings.spares.when_none

    def _dry_run(self) -> list[str]:
        return ["dry_run is on: nothing is written"] if self._settings.dry_run else []

    def _list(
        self, path: str, parse: Callable[[Json], Parsed | None], params: Mapping[str, str] | None = None
    ) -> list[Parsed]:
        items = self._api.list(path, deadline=READ_S, params=params).items
        found = [one for one in map(parse, items) if one is not None]
        if len(found) != len(items):
            raise Retry(f"list {path}: an object in the answer cannot be read")
        return found

    def _try(self, what: str, read: Callable[[], Read]) -> Read | None:
        try:
            return read()
        except RemediatorError as error:
            self._unknown.append(f"{what}: {error}")
            return None


def _demand(machine: Machine | None, name: str) -> Machine:
    if machine is None:
        raise BadInput("node", f"there is no node {name!r}; see `kubectl get nodes`")
    return machine


def _foreign(workers: Iterable[SlurmNode]) -> list[str]:
    return [
        f"{node.name} carries the reason {quoted(node.reason)} already"
        for node in workers
        if node.reason and not is_systems(node.reason)
    ]


def _holds(connection: sa.Connection, machine: Machine) -> list[str]:
    holds = []
    paused = commands.paused_by(connection)
    if paused:
        holds.append(f"{paused} has paused all writing")
    present = incidents.open_for(connection, machine.key)
    if present is not None:
        holds.append(f"incident {present.id} ({present.cause}) is {present.state} on it: the fault folds in")
    return holds
