"""Where jobs run: the machines under Slurm's nodes, as the caches know them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from remediator.model.machine import Machine


class Hosts(Protocol):
    """What the caches know of machines and of the Slurm nodes on them."""

    def machine(self, name: str) -> Machine | None:
        """The node of exactly this name, or None."""

    def node_of(self, worker: str) -> str | None:
        """The node a Slurm node is on; None while it is on none."""


def machines_in_pools(hosts: Hosts, workers: Iterable[str]) -> list[Machine]:
    """The machines under these Slurm nodes, each once, in their order; those of no pool are left out."""
    names = dict.fromkeys(hosts.node_of(worker) for worker in workers)
    machines = [hosts.machine(name) for name in names if name]
    return [machine for machine in machines if machine is not None and machine.pool is not None]
