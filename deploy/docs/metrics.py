"""The reference page of the numbers: every name on /metrics with its help text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry

from deploy.docs.table import code, head, table
from remediator.agent.checkpoint_view import View
from remediator.agent.fabric.counters import CEILINGS, FAMILIES, Totals
from remediator.agent.fabric.metrics import Look, Shown
from remediator.agent.fabric.ports import Port
from remediator.agent.fabric.topology import Place
from remediator.agent.metrics import Metrics as AgentMetrics
from remediator.agent.nvml.reading import Identity, Pass, Reading
from remediator.agent.nvml.series import GpuSeries
from remediator.agent.nvml.table import TABLE, Key
from remediator.model.checkpoint import JobKey
from remediator.model.signal import KernelEvent
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
    agent.count_fault(KernelEvent(kind="xid", xid=79), begins=True)
    agent.count_fault(KernelEvent(kind="sxid", extra={"sxid": 20034}), begins=True)
    _show_a_port(agent)
    agent.registry.register(_gpus())
    view = View(JobKey(job="7"), "step_1", (0.0,), 1.0, 1.0, (), writing=False)
    agent.show_checkpoints(lambda: (("/shared/{job}/*", 0.0, (view,)),), lambda: 0.0)
    parts = (("Controller", controller.registry), ("Agent", agent.registry))
    lines = [*head("Metrics", *SENTENCES)]
    for title, registry in parts:
        lines += [f"\n## {title}", *table(COLUMNS, _rows(registry))]
    return "\n".join(lines) + "\n"


def _show_a_port(agent: AgentMetrics) -> None:
    """Families show their labels once there is something to label."""
    stuck = {"symbol_error": CEILINGS["symbol_error"]}
    counters = dict.fromkeys((*FAMILIES, "port_rcv_errors", "np_cnp_sent"), 0) | stuck
    port = Port("mlx5_0", "1", "4: ACTIVE", "5: LinkUp", rate=0.0, counters=counters)
    totals = Totals()
    totals.take(counters)
    agent.fabric.look = Look((Shown(("mlx5_0", "1"), "0", Place(), port, best=0.0, totals=totals),))


def _gpus() -> GpuSeries:
    """The series of one GPU that says everything."""
    series = GpuSeries(lambda: 0.0, 1.0)
    values = {Key(one, one.labels): 0.0 for one in TABLE}
    series.show(Pass("reading", (Reading(Identity(0, "", None), values=values, unread={"": ""}),)), 0.0)
    return series


def _rows(registry: CollectorRegistry) -> Iterator[tuple[str, ...]]:
    for family in sorted(registry.collect(), key=lambda one: one.name):
        if family.name.startswith("remediator_"):
            ending = {"counter": "_total", "info": "_info"}.get(family.type, "")
            yield code(family.name + ending), family.type, _labels(family), family.documentation


def _labels(family: Any) -> str:
    names = {name for sample in family.samples for name in sample.labels} - {"le"}
    return ", ".join(map(code, sorted(names)))
