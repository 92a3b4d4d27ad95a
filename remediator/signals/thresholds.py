"""Which readings each threshold fault is asked for in Prometheus, under all the names exporters give them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from remediator.model.faults import GPU_HOT, GPU_HOTTER, GPU_MARGIN, GPU_MEMORY, GPU_SLOWDOWN
from remediator.signals.samples import Band

LIMITS = "remediator:limit:celsius"
"""Series of the site's own limits, by label `of`; they stand in one file of rules, and nowhere else."""


@dataclass(frozen=True, slots=True)
class Labels:
    """How an exporter says which machine, which GPU, and by which label its UUID."""

    machine: tuple[str, ...]
    gpu: tuple[str, ...]
    uuid: str


AGENT = Labels(("job", "instance"), ("gpu", "uuid", "pci"), "uuid")
DCGM = Labels(
    ("node", "nodename", "kubernetes_node", "hostname", "Hostname"), ("gpu", "UUID", "pci_bus_id"), "UUID"
)

GPUD = Labels(("node", "nodename", "kubernetes_node", "hostname", "instance"), ("uuid",), "uuid")


@dataclass(frozen=True, slots=True)
class Spelling:
    """One exporter's series of a reading; `only` is a label and the values it must have one of: series that
    differ in it are one, their largest counts. With a `mask` the value is 1 when it has one of these bits,
    else 0; `plus` is added to it.
    """

    metric: str
    labels: Labels
    only: tuple[str, tuple[str, ...]] = ("", ())
    mask: int = 0
    plus: float = 0.0

    def value(self, raw: float) -> float:
        """The reading in the unit of its band; NaN when it is none."""
        if not self.mask:
            return raw + self.plus
        return float(int(raw) & self.mask != 0) if 0 <= raw < MASKS else math.nan


@dataclass(frozen=True, slots=True)
class Measure:
    """One reading, its band, and the limit: a number, or the site's of this name between `least` and `most`.
    A limit that the GPU itself tells (`own_limit`) goes first. `above_siblings`: what counts is by how much
    it is above the median of the node's other GPUs.
    """

    spellings: tuple[Spelling, ...]
    band: Band
    limit: str | float
    least: float = 0.0
    most: float = 0.0
    own_limit: tuple[Spelling, ...] = ()
    above_siblings: bool = False


MASKS = 2.0**32  # what is above is how DCGM says that there is no mask
_HARDWARE_THERMAL, _SOFTWARE_THERMAL = 0x40, 0x20
# DCGM's and gpud's margin counts from the operating limit: the hardware slows down at -2 or -3, by model.
_LOWEST_OFFSET = 3.0


def _dcgm(name: str, *others: str, **how: Any) -> tuple[Spelling, ...]:
    return tuple(Spelling(f"DCGM_FI_DEV_{one}", DCGM, **how) for one in (name, *others))


def _gpud(name: str, **how: Any) -> Spelling:
    return Spelling(f"accelerator_nvidia_{name}", GPUD, **how)


def _slowed(mask: int, *reasons: str) -> tuple[Spelling, ...]:
    agent = Spelling("remediator_gpu_slowdown", AGENT, ("reason", reasons))
    return (agent, *_dcgm("CLOCK_THROTTLE_REASONS", "CLOCKS_EVENT_REASONS", mask=mask))


_TEMPERATURE = (
    Spelling("remediator_gpu_temperature_celsius", AGENT), *_dcgm("GPU_TEMP", "GPU_TEMP_CELSIUS"),
    _gpud("temperature_current_celsius"),
)  # fmt: skip
_MEMORY = (
    Spelling("remediator_gpu_memory_temperature_celsius", AGENT),
    *_dcgm("MEMORY_TEMP", "MEMORY_TEMP_CELSIUS"),
    _gpud("temperature_current_hbm_celsius"),
)
_MEMORY_LIMIT = (
    Spelling("remediator_gpu_temperature_limit_celsius", AGENT, ("limit", ("memory",))),
    *_dcgm("MEM_MAX_OP_TEMP"),
    _gpud("temperature_mem_max_threshold_celsius"),
)
_MARGIN = (
    Spelling("remediator_gpu_slowdown_margin_celsius", AGENT), *_dcgm("GPU_TEMP_LIMIT", plus=_LOWEST_OFFSET),
    _gpud("temperature_margin_celsius", plus=_LOWEST_OFFSET),
)  # fmt: skip
# gpud knows of the hardware's slowdowns only: its 0 says nothing against another's software slowdown
_SLOWED_BY_HARDWARE = (
    *_slowed(_HARDWARE_THERMAL, "hardware_thermal"),
    _gpud("clock_hw_slowdown_thermal"),
)
_SLOWED = _slowed(_HARDWARE_THERMAL | _SOFTWARE_THERMAL, "hardware_thermal", "thermal")

CELSIUS = (1.0, 130.0)
HOT = Measure(_TEMPERATURE, Band(*CELSIUS, window_s=300), "gpu", least=60, most=110)
HOT_NOW = Measure(_TEMPERATURE, Band(*CELSIUS, window_s=60), "gpu", least=60, most=110)
MARGIN = Measure(_MARGIN, Band(-50, 130, window_s=60, below=True), 0.0)
MEMORY = Measure(_MEMORY, Band(*CELSIUS, window_s=60), "memory", least=60, most=125, own_limit=_MEMORY_LIMIT)
SLOWDOWN = Measure(_SLOWED_BY_HARDWARE, Band(0, 1, window_s=600, share=0.6), 0.5)
HOTTER = Measure(
    _TEMPERATURE, Band(*CELSIUS, window_s=300), "siblings", least=3, most=60, above_siblings=True
)
THROTTLES = Measure(_SLOWED, Band(0, 1, window_s=300, share=0.5), 0.5)

QUESTIONS: Mapping[str, tuple[Measure, ...]] = {
    GPU_HOT: (HOT,),
    # a margin below zero has been read from cool GPUs: the thermometer must agree
    GPU_MARGIN: (MARGIN, HOT_NOW),
    GPU_MEMORY: (MEMORY,),
    GPU_SLOWDOWN: (SLOWDOWN,),
    GPU_HOTTER: (HOTTER, THROTTLES),
}
"""By fault: all of its measures must hold."""

SLOWED_AT_ALL = Measure(_SLOWED, Band(0, 1, window_s=60, share=0), 0.5)

PULSE = _dcgm("POWER_USAGE", "POWER_USAGE_WATTS")
"""A reading that never stands still on a GPU that is read."""

BELIEVED_C = 95.0
"""Above this a GPU that does not say that it is slowed down is read in another unit."""
