"""Who takes an evicted worker's place: the same Slurm node elsewhere, or one named after its new node."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from remediator.errors import BadInput, Blocked
from remediator.kube.pods import HOSTNAME_OVERRIDE, PodView, is_named_after_node, names_of_node, slurm_node
from remediator.workflow.context import Context
from remediator.workflow.places import place_name

JOINED = "joined"
"""Fact of rejoin-slurm: workers under a new name that were offered to the jobs' places already."""


@dataclass(frozen=True, slots=True)
class Successor:
    """The worker `was` is `name` now, on `pod`'s node; `pod` is None while none was made for it."""

    was: str
    name: str
    pod: PodView | None

    def is_off(self, node: str) -> bool:
        """Whether it is placed, and not on this node."""
        return self.pod is not None and self.pod.node not in {"", node}


def successors(context: Context, spare: str) -> list[Successor]:
    """Where each worker of the sick machine is now. In DaemonSet mode the one on the spare stands for it,
    under the spare's name; the old name does not come back.
    """
    bound = _bound(context)
    found = []
    for was in context.incident.slurm_nodes:
        one = Successor(was, was, context.nodes.worker(was))
        if was in bound and not one.is_off(context.incident.node):
            one = _on_spare(context, was, spare) or one
        found.append(one)
    return found


def widened_places(context: Context, names: Mapping[str, str]) -> dict[str, list[str]]:
    """Places kept for jobs, with the nodes they are to have, where the successor (by a worker's old name) is
    missing in the place of the first job that lost that worker.
    """
    left, found = dict(names), {}
    for run in context.runs:
        mine = [left[was] for was in run.nodes if was in left]
        kept = context.slurm.reservation(place_name(context.incident, run)) if mine else None
        if kept is not None:
            left = {was: name for was, name in left.items() if name not in mine}
            if not set(mine) <= set(kept.nodes):
                found[kept.name] = list(dict.fromkeys([*kept.nodes, *mine]))
    return found


def widen_places(context: Context, names: Mapping[str, str]) -> None:
    """Put successors into the places kept for jobs. Only a help: a refusal is nothing."""
    for place, nodes in widened_places(context, names).items():
        with suppress(Blocked, BadInput):
            context.slurm.resize_reservation(place, nodes)


def stranded(context: Context, names: frozenset[str]) -> list[tuple[str, str]]:
    """Address and user of the waiting jobs that ask for one of these Slurm nodes, which do not come back."""
    waiting = [job for job in context.slurm.jobs() if job.state == "PENDING"]
    return [(job.address, job.user) for job in waiting if not names.isdisjoint(job.required_nodes)]


def _bound(context: Context) -> frozenset[str]:
    node = context.nodes.node(context.incident.node)
    override = node.annotations.get(HOSTNAME_OVERRIDE, "") if node is not None else ""
    return names_of_node(context.incident.node, override)


def _on_spare(context: Context, was: str, spare: str) -> Successor | None:
    for pod in context.nodes.pods_on(spare):
        name = slurm_node(pod)
        if name is not None and is_named_after_node(pod) and not (pod.finished or pod.terminating):
            return Successor(was, name, pod)
    return None
