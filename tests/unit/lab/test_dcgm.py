"""The lab's dcgm-exporter speaks as NVIDIA's does."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from deploy.lab import dcgm
from deploy.lab.errors import LabError
from deploy.lab.spec import GPU_PCI


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    dcgm.clear(tmp_path)
    return tmp_path


def samples(folder: Path) -> list[Sample]:
    return [
        sample
        for family in text_string_to_metric_families(dcgm.page(folder, "gpu-0"))
        for sample in family.samples
    ]


def raised(folder: Path) -> list[tuple[str, str, float]]:
    return [(s.name, s.labels.get("health_watch", ""), s.value) for s in samples(folder) if s.value]


def test_a_healthy_node_shows_every_gpu_and_nothing_raised(folder: Path) -> None:
    assert raised(folder) == []
    found = [sample.labels for sample in samples(folder) if sample.name == "DCGM_FI_DEV_XID_ERRORS"]
    assert [labels["gpu"] for labels in found] == [str(gpu) for gpu in range(len(GPU_PCI))]
    assert found[1]["pci_bus_id"] == "00000000:2A:00.0"
    assert {labels["Hostname"] for labels in found} == {"gpu-0"}
    assert len({labels["UUID"] for labels in found}) == len(GPU_PCI)


def test_what_is_set_is_shown_until_the_host_engine_starts_anew(folder: Path) -> None:
    dcgm.set_gauge(folder, 3, "xid", 79)
    dcgm.set_gauge(folder, 3, "PCIE", 20)
    assert raised(folder) == [("DCGM_FI_DEV_XID_ERRORS", "", 79), ("DCGM_EXP_GPU_HEALTH_STATUS", "PCIE", 20)]
    dcgm.clear(folder)
    assert raised(folder) == []


def test_what_a_gpu_does_is_shown_only_where_it_was_set(folder: Path) -> None:
    dcgm.set_gauge(folder, 3, "tensor", 40)
    dcgm.set_gauge(folder, 3, "utilization", 100)
    assert raised(folder) == [
        ("DCGM_FI_DEV_GPU_UTIL", "", 100),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "", 0.4),
    ]
    of = {sample.labels["gpu"] for sample in samples(folder) if sample.name.startswith("DCGM_FI_PROF")}
    assert of == {"3"}


def test_what_does_not_exist_is_refused_with_what_does(folder: Path) -> None:
    with pytest.raises(LabError, match="0 to 7"):
        dcgm.set_gauge(folder, 8, "xid", 79)
    with pytest.raises(LabError, match="THERMAL"):
        dcgm.set_gauge(folder, 0, "HEAT", 20)
    with pytest.raises(LabError, match="no GPUs"):
        dcgm.set_gauge(folder / "sys-0", 0, "xid", 79)
