"""The real Prometheus, asked about GPUs whose samples went wrong in each way that is known."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from remediator.model.faults import GPU_HOT
from remediator.model.machine import Machine
from remediator.signals.inquiry import Inquiry
from remediator.signals.sources import PrometheusQuery
from tests.fakes.fabric import AGENT, SPELLINGS, labels_of, raw_labels, samples
from tests.servers.prometheus import Made, prometheus

NOW = 1_700_003_600.0
TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"


def each(*values: float, newest: float = NOW - 5) -> list[tuple[float, float]]:
    return [(newest - 15 * (len(values) - 1 - index), value) for index, value in enumerate(values)]


def gpu(name: str, samples: list[tuple[float, float]], metric: str = TEMPERATURE, **labels: str) -> Made:
    return metric, {"Hostname": "gpu-1", "gpu": "0", "UUID": f"GPU-{name}", **labels}, samples


HOT = [79.0] * 28
CASES: dict[str, tuple[str, list[Made]]] = {
    "hot": ("holds", [gpu("hot", each(*HOT))]),
    "cool": ("passed", [gpu("cool", each(*[60.0] * 28))]),
    "glitch": ("holds", [gpu("glitch", each(*HOT[:9], 9.2e18, *HOT[10:]))]),
    "absent": ("absent", []),
    "vanished": ("stale", [gpu("vanished", each(*HOT, newest=NOW - 90))]),
    "nan": ("implausible", [gpu("nan", each(*[math.nan] * 28))]),
    "blank": ("implausible", [gpu("blank", each(*[9223372036854775794.0] * 28))]),
    "zero": ("implausible", [gpu("zero", each(*[0.0] * 28))]),
    "millidegrees": ("implausible", [gpu("millidegrees", each(*[79000.0] * 28))]),
    "fahrenheit": ("unit", [gpu("fahrenheit", each(*[104.0] * 28))]),
    "restarted": (
        "holds",
        [
            gpu("restarted", each(*[79.0] * 14, newest=NOW - 155), pod="x"),
            gpu("restarted", each(*[79.0] * 10), pod="y"),
        ],
    ),
    "away": (
        "gap",
        [gpu("away", each(*[79.0] * 14, newest=NOW - 200)), gpu("away", each(*[79.0] * 4), pod="y")],
    ),
    "replicas": ("holds", [gpu("replicas", each(*HOT), prometheus_replica=name) for name in "ab"]),
    "torn": (
        "conflict",
        [
            gpu("torn", each(*HOT), prometheus_replica="a"),
            gpu("torn", each(*[40.0] * 28), prometheus_replica="b"),
        ],
    ),
    "two-exporters": (
        "conflict",
        [
            gpu("two-exporters", each(*HOT)),
            ("remediator_gpu_temperature_celsius", {"uuid": "GPU-two-exporters"}, each(*[40.0] * 28)),
        ],
    ),
    "frozen": (
        "frozen",
        [gpu("frozen", each(*HOT)), gpu("frozen", each(*[412.3] * 28), "DCGM_FI_DEV_POWER_USAGE")],
    ),
}


COUNTS = [(fault, witness, one) for (fault, witness), spelled in SPELLINGS.items() for one in spelled]
MACHINE = Machine(name="gpu-0", uid="u", boot_id="boot-gpu-0", pool="training")


def at_address(labels: dict[str, str], number: int) -> dict[str, str]:
    """Each case is told by an exporter of its own."""
    return {
        name: f"m{number}" if name in {"instance", "node", "hostname"} else value
        for name, value in labels.items()
    }


def counts() -> Iterator[Made]:
    for number, (fault, witness, (metric, extra, goes)) in enumerate(COUNTS):
        yield metric, at_address(raw_labels(fault, witness, extra), number), samples(goes, NOW)
        about = at_address(AGENT, number) | {"node": "gpu-0", "boot_id": "boot-gpu-0"}
        yield "remediator_agent_info", about, samples("set", NOW)
        if goes == "slow" and witness == "own-counters":
            best = at_address(raw_labels(fault, witness, {}), number)
            yield "remediator_ib_best_rate_bytes_per_second", best, each(*[50e9] * 20)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    limit = ("remediator:limit:celsius", {"of": "gpu"}, each(78.0, 78.0))
    made = [one for _, series in CASES.values() for one in series]
    with prometheus(tmp_path_factory.mktemp("prometheus"), [*made, limit, *counts()]) as url:
        yield url


@pytest.mark.parametrize("case", CASES)
def test_each_way_of_samples_to_go_wrong(case: str, server: str) -> None:
    answer = Inquiry(PrometheusQuery(server, None, 10), NOW).answer(GPU_HOT, {"UUID": f"GPU-{case}"})
    assert (answer.reason or answer.outcome) == CASES[case][0]


@pytest.mark.parametrize("number", range(len(COUNTS)), ids=[f"{by}: {one[0]}" for _, by, one in COUNTS])
def test_every_spelling_of_a_count_is_found(number: int, server: str) -> None:
    fault, witness, (_, extra, _goes) = COUNTS[number]
    labels = at_address(labels_of(fault, witness, extra), number)
    answer = Inquiry(PrometheusQuery(server, None, 10), NOW).recount(fault, witness, labels, MACHINE)
    assert answer.outcome == "holds"
