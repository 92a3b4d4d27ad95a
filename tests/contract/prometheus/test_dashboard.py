"""Every panel shows something on a Prometheus that holds the series of agent, exporters and controller."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from remediator.signals.sources import PrometheusQuery
from tests.servers.prometheus import Made, prometheus

REPO = Path(__file__).parents[3]
BOARD: dict[str, Any] = json.loads((REPO / "deploy/dashboards/gpus.json").read_text())
PANELS = {panel["title"]: panel for panel in BOARD["panels"]}
TARGETS = [(title, target) for title, panel in PANELS.items() for target in panel["targets"]]
NOW = 1_700_003_600.0
TIMES = [NOW - 15 * back for back in range(60, -1, -1)]
DOCUMENTED = (REPO / "remediator/agent/README.md").read_text() + (
    REPO / "runbooks/reference/metrics.md"
).read_text()
FOREIGN = {
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.4,
    "DCGM_FI_DEV_GPU_UTIL": 100.0,
}
OWN = {
    "remediator_agent_info": ({"node": "gpu-0", "boot_id": "b"}, 1.0),
    "remediator_gpu_tensor_activity_ratio": ({"gpu": "0"}, 0.0),
    "remediator_gpu_utilization_ratio": ({"gpu": "0"}, 1.0),
    "remediator_gpu_slowdown_margin_celsius": ({"gpu": "0"}, 20.0),
    "remediator_ib_wait_ticks_total": ({"device": "mlx5_0", "port": "1", "rail": "0"}, 7.0),
    "remediator_nvlink_errors_total": ({"gpu": "0", "link": "3", "kind": "recovery"}, 1.0),
    "remediator_checkpoint_age_seconds": ({"exported_job": "12", "user": "alice", "jobname": "train"}, 300.0),
}


def made() -> Iterator[Made]:
    where = {"job": "agents", "instance": "10.0.0.1:9465"}
    for metric, (labels, value) in OWN.items():
        grows = metric.endswith("_total")
        yield metric, where | labels, [(at, value + (at - TIMES[0]) * grows) for at in TIMES]
    for metric, value in FOREIGN.items():
        for label in ("Hostname", "hostname"):
            yield metric, {label: f"gpu-{label}", "gpu": "0"}, [(at, value) for at in TIMES]
    ports = {"node": "gpu-0", "device": "mlx5_0", "port": "1"}
    yield "node_infiniband_port_transmit_wait_total", ports, [(at, at - TIMES[0]) for at in TIMES]
    compared = {"outcome": "works", "reason": ""}
    yield "remediator_ranks_compared_total", compared, [(at, at - TIMES[0]) for at in TIMES]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus(tmp_path_factory.mktemp("prometheus"), made()) as url:
        yield url


@pytest.mark.parametrize(("title", "target"), TARGETS, ids=[f"{t}-{one['refId']}" for t, one in TARGETS])
def test_a_panel_shows_what_is_there(server: str, title: str, target: dict[str, Any]) -> None:
    query = target["expr"].replace("$node", ".+").replace("$__rate_interval", "2m")
    answer = PrometheusQuery(server, None, 10)(query, NOW)
    assert isinstance(answer, list)
    named = re.findall(r"{{(\w+)}}", target["legendFormat"])
    hosts = 2 if "Hostname" in target["expr"] else 1
    assert len(answer) == hosts, f"{title}: {query}"
    assert all(set(named) - {"reason"} <= row["metric"].keys() for row in answer)


def test_every_series_of_ours_is_a_documented_one() -> None:
    names = {name for _, target in TARGETS for name in re.findall(r"\bremediator_\w+", target["expr"])}
    assert {name for name in names if f"`{name}`" not in DOCUMENTED} == set()


def test_tensor_activity_stands_beside_gpu_utilisation_and_panels_do_not_overlap() -> None:
    left, right = PANELS["Tensor activity"]["gridPos"], PANELS["GPU utilisation"]["gridPos"]
    assert (left["y"], left["x"] + left["w"]) == (right["y"], right["x"])
    places = [panel["gridPos"] for panel in PANELS.values()]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert apart or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


def test_it_is_a_model_that_grafana_imports() -> None:
    """Its own Prometheus is asked for at import, and no id or uid stands twice."""
    assert {"uid", "title", "schemaVersion", "panels", "templating", "time"} <= BOARD.keys()
    assert "id" not in BOARD
    assert [one["name"] for one in BOARD["templating"]["list"]] == ["datasource", "node"]
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids) == len(PANELS)
    sources = [one["datasource"]["uid"] for panel in PANELS.values() for one in (panel, *panel["targets"])]
    assert set(sources) == {"${datasource}"}
