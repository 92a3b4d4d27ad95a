"""The collector over whole sysfs trees: what is shown, what is said, what odd files cannot break."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from deploy.lab import sysfs
from remediator.agent.fabric.infiniband import FILE, InfiniBand
from remediator.agent.metrics import Metrics
from remediator.clock import ManualClock
from remediator.model.signal import KernelEvent
from tests.unit.agent.helpers import Node

DOWN = {"state": "1: DOWN", "phys_state": "3: Disabled"}
UP = {"state": "4: ACTIVE", "phys_state": "5: LinkUp"}


class Fabric:
    """A node with a sysfs tree, and a collector that can be started anew."""

    def __init__(self, folder: Path) -> None:
        self.node = Node(folder)
        self.sys = folder / "sys"
        self.clock = ManualClock()
        self.said: list[str] = []
        self.changes: dict[str, Any] = {}
        self.begin()

    def begin(self) -> None:
        """What a restart of the agent does."""
        self.metrics = Metrics()
        settings = self.node.settings("http://127.0.0.1:1", **self.changes)
        self.collector = InfiniBand(settings, self.metrics.fabric, self.clock, self)

    def look(self, seconds: float = 0) -> list[KernelEvent]:
        """Look now, and every ten seconds for so long; all events."""
        found = self.collector.look(self.clock.now(), self.clock.steady())
        for _ in range(int(seconds // 10)):
            self.clock.advance(10)
            found += self.collector.look(self.clock.now(), self.clock.steady())
        return found

    def value(self, name: str, device: str = "mlx5_3", **labels: str) -> float | None:
        number = device.removeprefix("mlx5_")
        where = {"device": device, "port": "1", "rail": number, "gpu": number}
        return self.metrics.registry.get_sample_value(f"remediator_ib_{name}", where | labels)

    def set(self, counter: str, value: int, device: str = "mlx5_3") -> None:
        sysfs.set_counter(self.sys, device, counter, value)

    def port(self, device: str = "mlx5_3", **files: str) -> None:
        sysfs.set_port(self.sys, device, **files)

    def info(self, event: str, **_: Any) -> None:
        self.said.append(event)

    warning = info


@pytest.fixture
def fabric(tmp_path: Path) -> Fabric:
    sysfs.write_tree(tmp_path / "sys")
    return Fabric(tmp_path)


def test_a_port_is_shown_with_its_rail_and_the_gpu_beside_it(fabric: Fabric) -> None:
    assert fabric.look() == []
    assert fabric.value("up") == 1
    assert fabric.value("rate_bytes_per_second") == fabric.value("best_rate_bytes_per_second") == 50e9
    about = {"pci": "0000:5e:00", "netdev": "ib3", "link_layer": "InfiniBand"}
    what = {"firmware": "28.43.2566", "model": "MT4129", "description": ""}
    assert fabric.value("info", **about, **what) == 1
    assert fabric.metrics.registry.get_sample_value("remediator_ib_devices") == 8


def test_counters_begin_at_zero_and_data_counts_in_bytes(fabric: Fabric) -> None:
    fabric.set("port_xmit_data", 1000)
    fabric.set("symbol_error", 9)
    fabric.look()
    assert fabric.value("symbol_errors_total") == 0
    fabric.set("port_xmit_data", 1250)
    fabric.set("symbol_error", 12)
    fabric.set("port_xmit_wait", 5)
    fabric.set("local_ack_timeout_err", 2)
    fabric.set("np_cnp_sent", 4)
    fabric.look()
    assert fabric.value("data_bytes_total", direction="transmitted") == 1000
    assert fabric.value("symbol_errors_total") == 3
    assert fabric.value("wait_ticks_total") == 5
    assert fabric.value("errors_total", type="local_ack_timeout_err") == 2
    assert fabric.value("events_total", type="np_cnp_sent") == 4
    assert fabric.value("carrier_changes_total") == 0


def test_a_counter_that_goes_back_was_reset_and_adds_nothing(fabric: Fabric) -> None:
    fabric.look()
    for value in (40, 3, 5):
        fabric.set("link_downed", value)
        fabric.look()
    assert fabric.value("link_downed_total") == 42
    assert fabric.value("counter_resets_total") == 1


def test_a_counter_at_its_end_is_stuck(fabric: Fabric) -> None:
    fabric.look()
    fabric.set("link_downed", 255)
    fabric.look()
    assert fabric.value("counter_stuck", type="link_downed") == 1
    fabric.set("link_downed", 0)
    fabric.look()
    assert fabric.value("counter_stuck", type="link_downed") is None


def test_what_gives_no_number_is_absent_and_keeps_nothing_else_from_being_read(fabric: Fabric) -> None:
    counters = fabric.sys / "class/infiniband/mlx5_3/ports/1/counters"
    (counters / "symbol_error").write_text("N/A (no PMA)\n")
    (counters / "port_rcv_errors").write_text(f"{2**64 - 1}\n")
    (counters / "link_downed").unlink()
    (counters / "link_downed").mkdir()  # read() of a folder fails as that of a restricted port does
    fabric.look()
    fabric.set("port_xmit_wait", 7)
    fabric.look()
    absent = ("symbol_errors_total", "link_downed_total")
    assert [fabric.value(name) for name in absent] == [None, None]
    assert fabric.value("errors_total", type="port_rcv_errors") is None
    assert fabric.value("unreadable_files") == 2
    assert fabric.value("wait_ticks_total") == 7


def test_an_excluded_device_is_not_even_opened(fabric: Fabric) -> None:
    shutil.rmtree(fabric.sys / "class/infiniband/mlx5_7/ports")
    (fabric.sys / "class/infiniband/mlx5_7/ports").write_text("a read would fail")
    fabric.changes = {"ib_exclude": "mlx5_7"}
    fabric.begin()
    fabric.look()
    assert fabric.metrics.registry.get_sample_value("remediator_ib_devices") == 7


def test_no_infiniband_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "sys" / "class").mkdir(parents=True)
    fabric = Fabric(tmp_path)
    assert fabric.look(60) == []
    assert fabric.said == ["no InfiniBand here"]
    assert fabric.metrics.registry.get_sample_value("remediator_ib_devices") == 0


def test_a_port_down_is_told_once_after_four_minutes_and_again_only_after_it_was_up(fabric: Fabric) -> None:
    fabric.look()
    fabric.port(**DOWN)
    assert fabric.look(230) == []
    (event,) = fabric.look(600)
    assert (event.kind, event.xid, event.pci) == ("ib-port-down", None, "0000:5e:00")
    expected = {"device": "mlx5_3", "port": "1", "rail": "3", "gpu": "3", "what": "down", "state": "1: DOWN"}
    assert event.extra.items() >= expected.items()
    assert fabric.value("up") == 0
    fabric.port(**UP)
    fabric.look()
    fabric.port(**DOWN)
    assert [event.kind for event in fabric.look(300)] == ["ib-port-down"]


def test_a_flap_is_never_a_port_down(fabric: Fabric) -> None:
    fabric.look()
    for _ in range(5):
        fabric.port(**DOWN)
        assert fabric.look(200) == []
        fabric.port(**UP)
        assert fabric.look(10) == []


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({"rate": "200 Gb/sec (4X HDR)"}, "slow"),
        ({"state": "2: INIT", "phys_state": "5: LinkUp"}, "down"),
        ({"state": "4: ACTIVE", "phys_state": "6: LinkErrorRecovery"}, "down"),
    ],
)
def test_anything_less_than_the_port_once_was_is_told(
    fabric: Fabric, files: dict[str, str], what: str
) -> None:
    fabric.look()
    fabric.port(**files)
    (event,) = fabric.look(300)
    assert event.extra["what"] == what
    assert event.extra["best_gbps"] == 400


@pytest.mark.parametrize("files", [{"state": ""}, {"phys_state": "?"}, {"rate": "N/A"}])
def test_a_state_that_cannot_be_read_is_no_fault(fabric: Fabric, files: dict[str, str]) -> None:
    fabric.look()
    fabric.port(**files)
    assert fabric.look(600) == []


def test_a_port_that_never_was_up_is_nobodys_loss(fabric: Fabric) -> None:
    fabric.port(**DOWN)
    assert fabric.look(600) == []
    assert (fabric.value("up"), fabric.value("best_rate_bytes_per_second")) == (0, None)


def test_what_a_port_was_outlives_the_agent_and_the_boot(fabric: Fabric) -> None:
    fabric.look()
    fabric.node.boot.write_text("22222222-2222-2222-2222-222222222222\n")
    fabric.port(**DOWN)
    fabric.begin()
    assert [event.kind for event in fabric.look(300)] == ["ib-port-down"]


def test_a_port_of_no_rail_is_read_and_never_told(fabric: Fabric) -> None:
    fabric.changes = {"ib_rails": "mlx5_0=a"}
    fabric.begin()
    fabric.look()
    for device in ("mlx5_0", "mlx5_3"):
        fabric.port(device, **DOWN)
    assert [event.extra["rail"] for event in fabric.look(300)] == ["a"]
    assert fabric.value("up", rail="") == 0


def test_an_ethernet_port_beside_infiniband_has_no_rail(fabric: Fabric) -> None:
    fabric.port("mlx5_0", link_layer="Ethernet")
    fabric.look()
    assert fabric.value("up", "mlx5_1", rail="0") == 1
    assert fabric.value("up", "mlx5_0", rail="") == 1


def test_where_all_is_ethernet_only_what_sits_beside_a_gpu_has_a_rail(fabric: Fabric) -> None:
    for number in range(8):
        fabric.port(f"mlx5_{number}", link_layer="Ethernet")
    (fabric.sys / "bus/pci/devices/0000:18:00.0/vendor").write_text("0x8086\n")  # no GPU beside mlx5_0
    fabric.look()
    assert fabric.value("up", "mlx5_0", rail="", gpu="") == 1
    assert fabric.value("up", "mlx5_1", rail="0", gpu="0") == 1


def test_an_hca_gone_from_the_bus_is_told_and_its_port_is_down(fabric: Fabric) -> None:
    fabric.look()
    sysfs.unplug(fabric.sys, "mlx5_3")
    (event,) = fabric.look(300)
    assert (event.kind, event.pci, event.extra["rail"]) == ("hca-gone", "0000:5e:00", "3")
    assert fabric.value("up") == 0
    assert fabric.value("up", "mlx5_4") == 1  # the rails of the others stay


def test_an_hca_that_an_agent_before_saw_is_missed_in_the_same_boot_only(fabric: Fabric) -> None:
    fabric.look()
    sysfs.unplug(fabric.sys, "mlx5_3")
    fabric.begin()
    assert [event.kind for event in fabric.look(60)] == ["hca-gone"]
    fabric.node.boot.write_text("22222222-2222-2222-2222-222222222222\n")
    fabric.begin()
    assert fabric.look(600) == []


def test_an_hca_whose_driver_was_unloaded_is_a_port_down(fabric: Fabric) -> None:
    fabric.look()
    shutil.rmtree(fabric.sys / "class/infiniband/mlx5_3")
    assert fabric.look(200) == []
    (event,) = fabric.look(100)
    assert (event.kind, event.extra["what"]) == ("ib-port-down", "driver")


def test_an_hca_that_is_reset_is_not_gone(fabric: Fabric) -> None:
    fabric.look()
    folder = fabric.sys / "class/infiniband"
    for _ in range(3):
        (folder / "mlx5_3").rename(fabric.sys / "away")
        assert fabric.look(20) == []
        (fabric.sys / "away").rename(folder / "mlx5_3")
        assert fabric.look(20) == []


def test_a_sys_that_is_not_there_says_nothing_about_the_hardware(fabric: Fabric) -> None:
    fabric.look()
    fabric.sys.rename(fabric.sys.with_name("unmounted"))
    with pytest.raises(FileNotFoundError):
        fabric.look()


def test_a_pause_between_two_looks_counts_for_nothing(fabric: Fabric) -> None:
    fabric.look()
    fabric.port(**DOWN)
    fabric.look(100)
    fabric.clock.advance(3600)  # the node was frozen
    assert fabric.look(230) == []
    assert [event.kind for event in fabric.look(20)] == ["ib-port-down"]


def test_a_slower_port_is_taken_as_it_is_after_a_week(fabric: Fabric) -> None:
    fabric.look()
    fabric.port(rate="200 Gb/sec (4X HDR)")
    fabric.clock.advance(7 * 86_400 + 1)
    assert fabric.look(600) == []
    assert fabric.value("best_rate_bytes_per_second") == 25e9


def test_a_memory_that_is_damaged_or_cannot_be_kept_stops_nothing(fabric: Fabric) -> None:
    state = fabric.node.root / "state"
    (state / FILE).write_text('{"devices": 7')
    (state / f"{FILE}.new").mkdir()
    fabric.begin()
    assert fabric.look(60) == []
    assert fabric.value("up") == 1
    assert "state cannot be written" in fabric.said
