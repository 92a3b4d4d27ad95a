"""The series about GPUs: one row a metric; `README.md` of the agent is their table for people."""

from __future__ import annotations

from typing import Literal, NamedTuple

GPU_LABELS = ("gpu", "uuid", "pci")
"""Index, UUID and PCI address: on every series of a GPU or of one of its links."""


class Series(NamedTuple):
    """A metric's ending behind `remediator_`, its kind, the labels beside those of the GPU, its help."""

    name: str
    kind: Literal["gauge", "counter"]
    labels: tuple[str, ...]
    help: str


class Key(NamedTuple):
    """One series of one GPU: the metric, and the values of the labels of its own."""

    series: Series
    labels: tuple[str, ...] = ()


LOST = Series("gpu_lost", "gauge", (), "1: seen in this boot, and gone now.")
INFO = Series("gpu_info", "gauge", ("model", "driver"), "What the GPU is; always 1.")
MIG = Series("gpu_mig", "gauge", (), "1: cut into MIG instances; several readings are absent then.")
TEMPERATURE = Series("gpu_temperature_celsius", "gauge", (), "Temperature of the core.")
MEMORY_TEMPERATURE = Series("gpu_memory_temperature_celsius", "gauge", (), "Temperature of the HBM.")
MARGIN = Series(
    "gpu_thermal_margin_celsius", "gauge", (), "Degrees left to the operating limit (T.Limit); signed."
)
OFFSET = Series(
    "gpu_thermal_offset_celsius", "gauge", ("limit",), "The margin at which a limit is reached; signed."
)
LIMIT = Series(
    "gpu_temperature_limit_celsius", "gauge", ("limit",), "Temperature at which a limit is reached."
)
SLOWDOWN_MARGIN = Series(
    "gpu_slowdown_margin_celsius",
    "gauge",
    (),
    "Degrees left until the hardware slows down: margin less offset, else limit less temperature.",
)
SLOWDOWN = Series("gpu_slowdown", "gauge", ("reason",), "1: this slows the clocks now.")
SLOWDOWN_SECONDS = Series(
    "gpu_slowdown_seconds", "counter", ("reason",), "Time for which this slowed the clocks."
)
ECC = Series(
    "gpu_ecc_errors",
    "counter",
    ("kind", "lifetime"),
    "ECC errors; volatile since the driver was loaded, aggregate since the board was made.",
)
SRAM = Series("gpu_sram_uncorrected", "counter", ("lifetime",), "Uncorrected ECC errors of the SRAM alone.")
REMAP_PENDING = Series("gpu_row_remap_pending", "gauge", (), "1: a row is remapped by the next reset.")
REMAP_FAILED = Series("gpu_row_remap_failed", "gauge", (), "1: a row could not be remapped.")
REMAPPED = Series("gpu_remapped_rows", "gauge", ("cause",), "Rows remapped so far.")
RECOVERY = Series(
    "gpu_recovery_action",
    "gauge",
    (),
    "What the driver asks for: 0 nothing, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset, "
    "5 recover IMEX, 6 bus reset, 7 system reboot.",
)
PCIE_REPLAYS = Series("gpu_pcie_replays", "counter", (), "PCIe packets sent again.")
UTILIZATION = Series(
    "gpu_utilization_ratio",
    "gauge",
    (),
    "Share of time with any kernel running: says nothing about work done.",
)
TENSOR = Series(
    "gpu_tensor_activity_ratio",
    "gauge",
    (),
    "Share of time with the tensor cores busy, since the last reading.",
)
NVLINK_UP = Series("nvlink_up", "gauge", ("link",), "1: the link is active or asleep; 0: it is down.")
NVLINK_ERRORS = Series("nvlink_errors", "counter", ("link", "kind"), "Errors of a link by kind.")

TABLE = (
    LOST, INFO, MIG, TEMPERATURE, MEMORY_TEMPERATURE, MARGIN, OFFSET, LIMIT, SLOWDOWN_MARGIN, SLOWDOWN,
    SLOWDOWN_SECONDS, ECC, SRAM, REMAP_PENDING, REMAP_FAILED, REMAPPED, RECOVERY, PCIE_REPLAYS, UTILIZATION,
    TENSOR, NVLINK_UP, NVLINK_ERRORS,
)  # fmt: skip
