"""The reference page of the numbers: every name on /metrics with its help text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry

from deploy.docs.table import code, head, table
from remediator.agent.metrics import Metrics as AgentMetrics
from remediator.observe.metrics import Metrics

SENTENCES = (
    "Both processes also have `process_…` of the Prometheus client. Names end as Prometheus shows them.",
)
COLUMNS = ("name", "type", "labels", "meaning")


def page() -> str:
    """The whole page."""
    controller, agent = Metrics(), AgentMetrics()
    controller.watch_age("nodes", lambda: 0.0)  # its labels are there once something is watched
    agent.speak_for("node", "boot")
    agent.count_xid(79, None)
    parts = (("Controller", controller.registry), ("Agent", agent.registry))
    lines = [*head("Metrics", *SENTENCES)]
    for title, registry in parts:
        lines += [f"\n## {title}", *table(COLUMNS, _rows(registry))]
    return "\n".join(lines) + "\n"


def _rows(registry: CollectorRegistry) -> Iterator[tuple[str, ...]]:
    for family in sorted(registry.collect(), key=lambda one: one.name):
        if family.name.startswith("remediator_"):
            ending = {"counter": "_total", "info": "_info"}.get(family.type, "")
            yield code(family.name + ending), family.type, _labels(family), family.documentation


def _labels(family: Any) -> str:
    names = {name for sample in family.samples for name in sample.labels} - {"le"}
    return ", ".join(map(code, sorted(names)))
