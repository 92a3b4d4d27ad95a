"""Each panel of the dashboard shows the lab's real series: our agents' and dcgm-exporter's, as scraped.

What needs a job of many minutes is in test_stalls.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from deploy.lab.api import Lab
from deploy.lab.spec import GPUS_PER_NODE, NODES
from deploy.lab.sysfs import IDLE_CELSIUS
from tests.e2e.helpers import wait_for
from tests.e2e.panels import TARGETS, Rows, Target, nodes_offered

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

SPINS, WORKS, WARM, LINK = 0, 1, 2, 3
"""GPUs: one runs kernels and computes nothing, one computes, one is warm, one has a link that recovers."""
RAIL = 5
NODE = next(spec.name for spec in reversed(NODES) if spec.gpus)
"""At first it is the spare; no job runs anywhere while these tests do."""
GPU_NODES = [spec.name for spec in NODES if spec.gpus]
EVERY_PLACE = {(node, str(number)) for node in GPU_NODES for number in range(GPUS_PER_NODE)}
"""GPUs, or rails: there is one beside each GPU."""
WARM_CELSIUS, SLOWS_AT = 60, 89
_WAITED = count(1)

Check = Callable[[Rows], bool]


def each(least: float, most: float, known: dict[int, float]) -> Check:
    """One of every GPU, none beyond its range, and those of the node's GPUs that are known as they are."""

    def holds(rows: Rows) -> bool:
        seen = {gpu: rows.get((NODE, str(gpu))) for gpu in known}
        return rows.keys() == EVERY_PLACE and seen == known and all(least <= v <= most for v in rows.values())

    return holds


def only(place: int) -> Check:
    """A count in every place that grows in one of the node's, and in no other of them."""

    def holds(rows: Rows) -> bool:
        grows = {key for key, value in rows.items() if key[0] == NODE and value > 0}
        return rows.keys() == EVERY_PLACE and grows == {(NODE, str(place))}

    return holds


CHECKS: dict[Target, Check] = {
    Target("Tensor activity", "A"): each(0, 1, {SPINS: 0.0, WORKS: 0.4}),
    Target("Tensor activity", "B"): lambda rows: rows == {(NODE, str(WORKS)): 0.4},
    Target("GPU utilisation", "A"): each(0, 1, {SPINS: 1.0, WORKS: 1.0}),
    Target("GPU utilisation", "B"): lambda rows: rows == {(NODE, str(WORKS)): 1.0},
    Target("GPUs that run kernels and compute nothing", "A"): lambda rows: rows.get((NODE,)) == 1.0,
    Target("Thermal margin", "A"): each(
        0, SLOWS_AT, {WARM: SLOWS_AT - WARM_CELSIUS, WORKS: SLOWS_AT - IDLE_CELSIUS}
    ),
    Target("InfiniBand waits", "A"): only(RAIL),
    Target("NVLink recoveries", "A"): only(LINK),
}
OF_A_JOB = {
    Target("Running jobs compared with their past and their ranks", "A"),
    Target("Checkpoint age", "A"),
}
NOT_IN_THE_LAB = {Target("InfiniBand waits", "B")}
"""node_exporter's; tests/contract/prometheus has it."""


@pytest.fixture(scope="module")
def node(lab: Lab) -> Iterator[str]:
    """A node on which every panel has something to show."""
    say, dcgm = lab.inject.nvml, lab.inject.dcgm
    try:
        for gpu, tensor in ((SPINS, 0), (WORKS, 40)):
            say(NODE, gpu, "tensor", tensor)
            say(NODE, gpu, "utilization", 100)
        lab.inject.heat(NODE, WARM, WARM_CELSIUS)
        dcgm(NODE, WORKS, "tensor", 40)
        dcgm(NODE, WORKS, "utilization", 100)
        yield NODE
    finally:
        for gpu in (SPINS, WORKS):
            say(NODE, gpu, "tensor", 0)
            say(NODE, gpu, "utilization", 0)
        lab.inject.heat(NODE, WARM, IDLE_CELSIUS)


def goes_on(lab: Lab, node: str) -> None:
    """Counters of a rail and a link grow."""
    number = next(_WAITED)
    lab.inject.counter(node, f"mlx5_{RAIL}", "port_xmit_wait", 1000 * number)
    lab.inject.nvml(node, LINK, "field.162.0", number)


@pytest.mark.parametrize("target", sorted(set(TARGETS) - OF_A_JOB - NOT_IN_THE_LAB), ids=str)
def test_a_panel_shows_what_the_lab_does(lab: Lab, node: str, target: Target) -> None:
    rows: Rows = {}

    def shows() -> bool:
        goes_on(lab, node)
        rows.clear()
        rows.update(target.rows())
        return CHECKS[target](rows)

    try:
        wait_for(f"{target} to be right", shows, 90, every=1.0)
    except TimeoutError as late:
        raise AssertionError(f"{late}: {rows}") from None
    own = {key for key in rows if key[0] == node}
    assert target.rows(node).keys() == own
    others = [other for other in GPU_NODES if other != node]
    assert target.rows(f"({'|'.join(others)})").keys() == rows.keys() - own
    assert target.rows("no-such-node") == {}


@pytest.mark.usefixtures("lab")
def test_people_may_choose_every_node_with_an_agent() -> None:
    wait_for("all agents", lambda: nodes_offered() == sorted(GPU_NODES), 90, every=0.5)
