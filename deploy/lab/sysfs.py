"""A node's fake /sys tree in the kernel's own layout: InfiniBand ports, GPUs beside them, temperatures."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from deploy.lab.errors import LabError
from deploy.lab.spec import GPU_PCI

COUNTERS = (
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "VL15_dropped",
)
HW_COUNTERS = (
    "duplicate_request",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_transport_retries_exceeded",
    "resp_cqe_error",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "rp_cnp_handled",
)
_PORT = {
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "rate": "400 Gb/sec (4X NDR)",
    "link_layer": "InfiniBand",
    "lid": "0x1",
}
IDLE_CELSIUS = 34


def write_tree(root: Path) -> None:
    """A healthy 8-GPU node: eight HCAs with one active port each, eight cool GPUs."""
    for number, pci in enumerate(GPU_PCI):
        _write_device(root / "class" / "infiniband" / f"mlx5_{number}")
        _write_bridge(root, number, int(pci.split(":")[1], 16))
        sensor = root / "class" / "hwmon" / f"hwmon{number}"
        sensor.mkdir(parents=True)
        _put(sensor / "name", "nvidia_gpu")
        _put(sensor / "device_pci", pci)
        _put(sensor / "temp1_input", str(IDLE_CELSIUS * 1000))


def _write_device(device: Path) -> None:
    port = device / "ports" / "1"
    for folder, names in (("counters", COUNTERS), ("hw_counters", HW_COUNTERS)):
        (port / folder).mkdir(parents=True)
        for name in names:
            _put(port / folder / name, "0")
    for name, text in _PORT.items():
        _put(port / name, text)
    _put(device / "hca_type", "MT4129")
    _put(device / "fw_ver", "28.43.2566")


def _write_bridge(root: Path, number: int, bus: int) -> None:
    """A PCI bridge with a GPU and, on the next bus, its HCA, which has a network interface."""
    bridge = root / "devices" / f"pci0000:{bus - 1:02x}" / f"0000:{bus - 1:02x}:01.0"
    gpu, hca = bridge / f"0000:{bus:02x}:00.0", bridge / f"0000:{bus + 1:02x}:00.0"
    listed = root / "bus" / "pci" / "devices"
    listed.mkdir(parents=True, exist_ok=True)
    for folder, vendor, kind in ((gpu, "0x10de", "0x030200"), (hca, "0x15b3", "0x020700")):
        folder.mkdir(parents=True)
        _put(folder / "vendor", vendor)
        _put(folder / "class", kind)
        (listed / folder.name).symlink_to(os.path.relpath(folder, listed))
    device, interface = (
        root / "class" / "infiniband" / f"mlx5_{number}",
        root / "class" / "net" / f"ib{number}",
    )
    (device / "device").symlink_to(os.path.relpath(hca, device))
    (hca / "net" / interface.name).mkdir(parents=True)
    interface.mkdir(parents=True)
    _put(interface / "carrier_changes", "2")
    _put(interface / "dev_port", "0")


def set_port(root: Path, device: str, **files: str) -> None:
    """Write a port's files, such as state="1: DOWN", phys_state="3: Disabled", rate="200 Gb/sec (4X HDR)"."""
    port = _below(root / "class" / "infiniband", device, "device") / "ports" / "1"
    for name, text in files.items():
        _put(_below(port, name, "file"), text)


def unplug(root: Path, device: str) -> None:
    """The HCA is gone, from its class and from the PCI bus."""
    folder = _below(root / "class" / "infiniband", device, "device")
    hca = (folder / "device").resolve()
    away = root / "unplugged" / device
    away.mkdir(parents=True)
    (away / "pci").symlink_to(os.path.relpath(hca, away))
    (root / "bus" / "pci" / "devices" / hca.name).rename(away / "listed")
    hca.rename(away / "hca")
    folder.rename(away / "class")


def plug(root: Path, device: str) -> None:
    """The HCA that was unplugged is back."""
    away = _below(root / "unplugged", device, "unplugged device")
    hca = away / (away / "pci").readlink()
    (away / "class").rename(root / "class" / "infiniband" / device)
    (away / "hca").rename(hca)
    (away / "listed").rename(root / "bus" / "pci" / "devices" / hca.name)
    shutil.rmtree(away)


def set_counter(root: Path, device: str, counter: str, value: int) -> None:
    """Write a port's counter; LabError when the device or the counter does not exist."""
    port = _below(root / "class" / "infiniband", device, "device") / "ports" / "1"
    for folder in ("counters", "hw_counters"):
        if counter in {file.name for file in (port / folder).iterdir()}:
            _put(port / folder / counter, str(value))
            return
    raise LabError(f"no counter {counter!r}; there are {', '.join(sorted(COUNTERS + HW_COUNTERS))}")


def set_temperature(root: Path, gpu: int, celsius: float) -> None:
    """Write a GPU's temperature (the file holds thousandths of a degree)."""
    sensor = _below(root / "class" / "hwmon", f"hwmon{gpu}", "GPU sensor")
    _put(sensor / "temp1_input", str(round(celsius * 1000)))


def _below(folder: Path, name: str, what: str) -> Path:
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    if name not in names:
        raise LabError(f"no {what} {name!r} on this node; there are: {', '.join(names) or 'none'}")
    return folder / name


def _put(path: Path, text: str) -> None:
    path.write_text(f"{text}\n")
