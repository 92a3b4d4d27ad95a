"""The real Prometheus, asked what the ranks of jobs did: the agent's series, dcgm-exporter's, broken ones."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from remediator.incidents.ranks import RECENT_S, compare
from remediator.model.ranks import KERNELS, TENSOR, WAITS, Work
from remediator.signals.rank_readings import rank_readings
from remediator.signals.sources import PrometheusQuery
from tests.servers.prometheus import Made, prometheus

NOW = 1_700_003_600.0
TIMES = [NOW - 15 * back for back in range(400, 1, -1)]
NODES = [f"gpu-{number}" for number in range(5)]


def agents(nodes: list[str], replica: str) -> list[Made]:
    """Each hangs for the last 40 min, one port waits, and a scrape is lost now and then."""
    made: list[Made] = []
    for number, node in enumerate(nodes):
        where = {"job": "agents", "instance": f"10.0.0.{number}:9465", "replica": replica}
        times = [at for index, at in enumerate(TIMES) if index % 7]
        gpu = where | {"gpu": "0", "uuid": f"GPU-{node}", "pci": "0000:18:00"}
        hangs = [(at, 0.4 if at < NOW - 2400 else 0.0) for at in times]
        made += [
            ("remediator_agent_info", where | {"node": node, "boot_id": "b"}, [(at, 1.0) for at in times]),
            ("remediator_gpu_tensor_activity_ratio", gpu, hangs),
            ("remediator_gpu_utilization_ratio", gpu, [(at, 1.0) for at in times]),
            ("remediator_ib_wait_ticks_total", where | {"rail": "2"}, [(at, at - TIMES[0]) for at in times]),
        ]
    return made


def dcgm(node: str, label: str, value: float) -> list[Made]:
    samples = [(at, 0.4 if at < NOW - 2400 else value) for at in TIMES]
    return [
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", {label: node, "gpu": "0"}, samples),
        ("DCGM_FI_DEV_GPU_UTIL", {label: node, "gpu": "0"}, [(at, 100.0) for at in TIMES]),
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    made = [*agents(NODES[:3], "a"), *agents(NODES[:3], "b"), *dcgm(NODES[3], "Hostname", 0.0)]
    made += [*dcgm(NODES[4], "hostname", 0.0), *dcgm("nan", "Hostname", math.nan)]
    made += dcgm("blank", "Hostname", 9223372036854775794.0)
    with prometheus(tmp_path_factory.mktemp("prometheus"), made) as url:
        yield url


def found(server: str, nodes: list[str]) -> tuple[str, str, bool | None]:
    ask = PrometheusQuery(server, None, 10)
    tracks = rank_readings(ask, nodes, (TENSOR, KERNELS, WAITS), NOW - 30, 6000)
    finding = compare(Work(tuple(nodes), len(nodes), TIMES[0]), tracks, NOW - 30, 1800.0)
    return finding.outcome, finding.reason, finding.spinning


def test_a_job_on_nodes_of_agents_and_of_both_dcgm_exporters_is_seen_to_hang(server: str) -> None:
    assert found(server, NODES) == ("stalled", "", True)


@pytest.mark.parametrize("bad", ["nan", "blank", "absent", "no name; at all"])
def test_a_node_without_readings_leaves_the_job_unknown(server: str, bad: str) -> None:
    assert found(server, [*NODES, bad])[:2] == ("unknown", "unread")


def test_a_rail_is_read_once_however_many_servers_scrape_it(server: str) -> None:
    ask = PrometheusQuery(server, None, 10)
    waits = rank_readings(ask, NODES, (WAITS,), NOW - 30, RECENT_S)
    assert {(one.node, one.place) for one in waits} == {(node, "rail 2") for node in NODES[:3]}
    assert all(len(one.samples) == 9 for one in waits)
