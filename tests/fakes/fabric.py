"""Faults of ports, links and memory as each exporter spells them, in samples of eighty minutes."""

from __future__ import annotations

from collections.abc import Callable

EVERY = 15
AGENT = {"job": "agents", "instance": "10.0.0.1:9465"}
PORT = {"device": "mlx5_0", "port": "1"}
GPU = {"gpu": "0", "uuid": "GPU-a", "pci": "0000:18:00"}
NAMES: dict[str, dict[str, str]] = {
    "own-counters": AGENT,
    "node-exporter": {"node": "gpu-0", "instance": "10.0.0.1:9100"},
    "gpud": {"node": "gpu-0", "instance": "10.0.0.1:15132"},
    "dcgm-field": {"hostname": "gpu-0"},
}
Spelled = tuple[str, dict[str, str], str]
# how each exporter spells a fault: its metric, what its labels say besides, and how the values go
SPELLINGS: dict[tuple[str, str], list[Spelled]] = {
    ("ib-port-down", "own-counters"): [
        ("remediator_ib_up", {}, "bad"),
        ("remediator_ib_rate_bytes_per_second", {}, "slow"),
    ],
    ("ib-port-down", "node-exporter"): [
        ("node_infiniband_state_id", {}, "down"),
        ("node_infiniband_physical_state_id", {}, "unlinked"),
        ("node_infiniband_rate_bytes_per_second", {}, "slow"),
    ],
    ("ib-flapping", "own-counters"): [
        ("remediator_ib_link_downed_total", {}, "rises"),
        ("remediator_ib_carrier_changes_total", {}, "rises"),
        ("remediator_ib_up", {}, "flaps"),
    ],
    ("ib-flapping", "node-exporter"): [("node_infiniband_link_downed_total", {}, "rises")],
    ("ib-flapping", "gpud"): [("accelerator_nvidia_infiniband_link_downed", {}, "rises")],
    ("ib-errors", "own-counters"): [
        ("remediator_ib_symbol_errors_total", {}, "many"),
        ("remediator_ib_link_recoveries_total", {}, "many"),
    ],
    ("ib-errors", "node-exporter"): [
        ("node_infiniband_symbol_error_total", {}, "many"),
        ("node_infiniband_link_error_recovery_total", {}, "many"),
    ],
    ("ib-link-errors", "own-counters"): [
        ("remediator_ib_symbol_errors_total", {}, "many"),
        ("remediator_ib_link_recoveries_total", {}, "many"),
        ("remediator_ib_errors_total", {"type": "local_link_integrity_errors"}, "rises"),
    ],
    ("ib-link-errors", "node-exporter"): [
        ("node_infiniband_symbol_error_total", {}, "many"),
        ("node_infiniband_link_error_recovery_total", {}, "many"),
        ("node_infiniband_local_link_integrity_errors_total", {}, "rises"),
    ],
    ("nvlink-down", "own-counters"): [
        ("remediator_nvlink_up", {"link": "4"}, "bad"),
        ("remediator_nvlink_errors_total", {"link": "4", "kind": "recovery_failed"}, "rises"),
    ],
    ("nvlink-down", "dcgm-field"): [
        ("DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", {}, "rises"),
        ("DCGM_FI_DEV_NVLINK_RECOVERY_FAILED_TOTAL", {}, "rises"),
    ],
    ("nvlink-down", "gpud"): [("accelerator_nvidia_nvlink_feature_enabled", {}, "bad")],
    ("nvlink-errors", "own-counters"): [
        ("remediator_nvlink_errors_total", {"link": "4", "kind": "replay"}, "many"),
        ("remediator_nvlink_errors_total", {"link": "4", "kind": "recovery_succeeded"}, "many"),
    ],
    ("nvlink-errors", "dcgm-field"): [
        ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", {}, "many"),
        ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL", {}, "many"),
        ("DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", {}, "many"),
        ("DCGM_FI_DEV_NVLINK_RECOVERY_EVENT_TOTAL", {}, "many"),
        ("DCGM_FI_DEV_NVLINK_INTEGRITY_ERROR_TOTAL", {}, "many"),
    ],
    ("nvlink-errors", "gpud"): [("accelerator_nvidia_nvlink_recovery_errors", {}, "many")],
    ("nvlink-crc", "own-counters"): [
        ("remediator_nvlink_errors_total", {"link": "4", "kind": "crc_flit"}, "fast"),
        ("remediator_nvlink_errors_total", {"link": "4", "kind": "receive"}, "fast"),
    ],
    ("nvlink-crc", "dcgm-field"): [
        ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL", {}, "fast"),
        ("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", {}, "fast"),
        ("DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS", {}, "fast"),
    ],
    ("nvlink-crc", "gpud"): [("accelerator_nvidia_nvlink_crc_errors", {}, "fast")],
    ("gpu-remap-failed", "own-counters"): [("remediator_gpu_row_remap_failed", {}, "set")],
    ("gpu-remap-failed", "dcgm-field"): [
        ("DCGM_FI_DEV_ROW_REMAP_FAILURE", {}, "set"),
        ("DCGM_FI_DEV_ROW_REMAP_FAILED", {}, "set"),
    ],
    ("gpu-remap-failed", "gpud"): [("accelerator_nvidia_remapped_rows_remapping_failed", {}, "set")],
    ("gpu-remap-pending", "own-counters"): [("remediator_gpu_row_remap_pending", {}, "set")],
    ("gpu-remap-pending", "dcgm-field"): [("DCGM_FI_DEV_ROW_REMAP_PENDING", {}, "set")],
    ("gpu-remap-pending", "gpud"): [("accelerator_nvidia_remapped_rows_remapping_pending", {}, "set")],
    ("gpu-ecc-uncorrected", "own-counters"): [
        ("remediator_gpu_ecc_errors_total", {"kind": "uncorrected", "lifetime": "volatile"}, "rises")
    ],
    ("gpu-ecc-uncorrected", "dcgm-field"): [("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", {}, "rises")],
    ("gpu-ecc-uncorrected", "gpud"): [("accelerator_nvidia_ecc_volatile_total_uncorrected", {}, "rises")],
    ("gpu-sram-uncorrected", "own-counters"): [
        ("remediator_gpu_sram_uncorrected_total", {"lifetime": "volatile"}, "rises")
    ],
}
# values of 80 minutes, by the number of the sample: as the fault has them, and as a well one has
SAMPLES = 321
GOES: dict[str, tuple[Callable[[int], float], Callable[[int], float]]] = {
    "bad": (lambda n: 0.0 if n > 200 else 1.0, lambda n: 1.0),
    "down": (lambda n: 2.0, lambda n: 4.0),
    "unlinked": (lambda n: 2.0, lambda n: 5.0),
    "slow": (lambda n: 25e9 if n > 300 else 50e9, lambda n: 50e9),
    "flaps": (lambda n: float(n % 40 != 0), lambda n: 1.0),
    "set": (lambda n: 1.0, lambda n: 0.0),
    "rises": (lambda n: 7.0 + n // 35, lambda n: 7.0),
    "many": (lambda n: 7.0 + 2 * n, lambda n: 7.0),
    "fast": (lambda n: 2000.0 * n, lambda n: 7.0 + n),
}


def is_port(fault: str) -> bool:
    """Whether it is about a port of the fabric."""
    return fault.startswith("ib-")


def labels_of(fault: str, witness: str, extra: dict[str, str]) -> dict[str, str]:
    """What the alert says: gpud's two labels of a port are made of one."""
    thing = PORT if is_port(fault) else GPU if witness != "dcgm-field" else {"gpu": "0", "UUID": "GPU-a"}
    return {"alertname": "x", **NAMES[witness], **thing, **extra}


def raw_labels(fault: str, witness: str, extra: dict[str, str]) -> dict[str, str]:
    """What the exporter's own series say."""
    if is_port(fault) and witness == "gpud":
        return {**NAMES[witness], "device_port": "mlx5_0_1", **extra}
    return {name: value for name, value in labels_of(fault, witness, extra).items() if name != "alertname"}


def samples(goes: str, now: float, *, well: bool = False) -> list[tuple[float, float]]:
    """As the fault has them (or a well machine), the last one 5 s before `now`."""
    value = GOES[goes][well]
    return [(now - 5 - EVERY * (SAMPLES - 1 - n), value(n)) for n in range(SAMPLES)]
