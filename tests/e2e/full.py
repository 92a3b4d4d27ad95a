"""A pool at stage `full`: nodes leave it, spares come in, and a person brings the repaired node back."""

from __future__ import annotations

from remediator.kube.fence import FENCED
from remediator.kube.spare import RETIRED, SpareKeys
from tests.e2e.helpers import Json, Site

KEYS = SpareKeys()


def has_whole_pool(site: Site) -> bool:
    """One node behind the spare taint, none retired."""
    found = [taints(node) for node in nodes(site).values()]
    return [KEYS.spare in keys for keys in found].count(True) == 1 and not any(RETIRED in k for k in found)


def was_replaced(site: Site, node: str, worker: str, spare: str) -> bool:
    """The node is out of the pool and fenced, and its Slurm worker runs on the spare."""
    found = nodes(site)
    out = {FENCED, RETIRED} <= taints(found[node]) and KEYS.worker not in taints(found[node])
    spare_in = taints(found[spare]) == {KEYS.worker} and site.node_of(worker) == spare
    return out and spare_in and bool(found[node]["spec"].get("unschedulable"))


def nodes(site: Site) -> dict[str, Json]:
    """Every Kubernetes node by name."""
    return {node["metadata"]["name"]: node for node in site.lab.api.get("/api/v1/nodes")["items"]}


def taints(node: Json) -> set[str]:
    """The keys of a node's taints."""
    return {taint["key"] for taint in node["spec"].get("taints", [])}


def spares(site: Site) -> list[str]:
    """Nodes that wait behind the spare taint."""
    return [name for name, node in nodes(site).items() if KEYS.spare in taints(node)]
