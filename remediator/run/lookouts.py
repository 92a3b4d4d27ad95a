"""The one list of looks that a controller takes, each in a thread of its own."""

from __future__ import annotations

from remediator.clock import Clock
from remediator.observe.metrics import Metrics
from remediator.run.backfill import query_of
from remediator.run.caches import Caches
from remediator.run.conditions import Began, NodeConditions
from remediator.run.drains import Drains, LastList
from remediator.run.inventory import CachedInventory
from remediator.run.job_ends import JobEnds
from remediator.run.looks import Look, Submit
from remediator.run.ranks import Ranks
from remediator.run.slow_saves import SlowSaves
from remediator.run.soperator import Soperator
from remediator.settings import Settings
from remediator.signals import conditions, reporters
from remediator.store.engine import Store
from slurm_bridge.port import SlurmPort


def lookouts(
    settings: Settings,
    slurm: SlurmPort,
    listed: LastList,
    caches: Caches,
    inventory: CachedInventory,
    store: Store,
    metrics: Metrics,
    submit: Submit,
    ended: Submit,
    clock: Clock,
) -> list[Look]:
    """All of them; nobody has looked yet. `ended` takes what the look at ended jobs finds."""
    nodes, pods = caches.nodes.objects, caches.pods.objects
    idle_s = settings.slurm.poll_idle_s
    globs = {name: pool.checkpoint_glob for name, pool in settings.pools.items() if pool.checkpoint_glob}
    table, watched = reporters.load(overlay=settings.policy.overlay), Began(store, conditions.WATCH)
    ask, flat_s = query_of(settings), settings.stalls.flat_s
    compared = (
        []
        if ask is None or flat_s is None
        else [Ranks(ask, slurm, inventory, submit, metrics, clock, flat_s)]
    )
    return [
        *compared,
        JobEnds(slurm, ended, clock, settings.slurm.job_ends_s),
        Soperator(slurm, inventory, nodes, submit, clock, idle_s),
        NodeConditions(table, inventory, nodes, pods, watched, metrics, submit, clock),
        Drains(listed, inventory, nodes, store, submit, clock),
        SlowSaves(slurm, globs, store, submit, clock),
    ]
