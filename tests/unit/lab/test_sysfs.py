from __future__ import annotations

from pathlib import Path

import pytest

from deploy.lab import sysfs
from deploy.lab.errors import LabError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    sysfs.write_tree(tmp_path)
    return tmp_path


def test_a_new_node_is_healthy(tree: Path) -> None:
    ports = sorted(tree.glob("class/infiniband/*/ports/1"))
    assert [port.parts[-3] for port in ports] == [f"mlx5_{number}" for number in range(8)]
    assert {(port / "state").read_text() for port in ports} == {"4: ACTIVE\n"}
    assert {file.read_text() for port in ports for file in port.glob("*counters/*")} == {"0\n"}


@pytest.mark.parametrize(
    ("counter", "folder"), [("symbol_error", "counters"), ("rnr_nak_retry_err", "hw_counters")]
)
def test_a_counter_is_set_where_the_kernel_keeps_it(tree: Path, counter: str, folder: str) -> None:
    sysfs.set_counter(tree, "mlx5_3", counter, 7)
    assert (tree / "class/infiniband/mlx5_3/ports/1" / folder / counter).read_text() == "7\n"


def test_an_hca_hangs_beside_its_gpu_until_it_falls_off(tree: Path) -> None:
    hca = (tree / "class/infiniband/mlx5_3/device").resolve()
    gpu = (tree / "bus/pci/devices/0000:5d:00.0").resolve()
    assert (hca.parent, (hca / "vendor").read_text()) == (gpu.parent, "0x15b3\n")
    sysfs.unplug(tree, "mlx5_3")
    assert (hca.exists(), gpu.exists(), (tree / "class/infiniband/mlx5_3").exists()) == (False, True, False)
    sysfs.plug(tree, "mlx5_3")
    assert (tree / "class/infiniband/mlx5_3/device").resolve() == hca
    assert (tree / "bus/pci/devices/0000:5e:00.0/vendor").read_text() == "0x15b3\n"


def test_temperatures_are_thousandths_of_a_degree(tree: Path) -> None:
    sysfs.set_temperature(tree, 5, 91.5)
    assert (tree / "class/hwmon/hwmon5/temp1_input").read_text() == "91500\n"


def test_what_does_not_exist_is_refused_with_what_does(tree: Path) -> None:
    with pytest.raises(LabError, match="mlx5_0"):
        sysfs.set_counter(tree, "../mlx5_0", "symbol_error", 1)
    with pytest.raises(LabError, match="link_downed"):
        sysfs.set_counter(tree, "mlx5_0", "no_such", 1)
    with pytest.raises(LabError, match="phys_state"):
        sysfs.set_port(tree, "mlx5_0", status="4: ACTIVE")
    with pytest.raises(LabError, match="hwmon0"):
        sysfs.set_temperature(tree, 9, 50)
    with pytest.raises(LabError, match="none"):
        sysfs.set_temperature(tree / "empty", 0, 50)
