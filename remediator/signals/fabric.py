"""Which raw samples each fault of a port, a link or a GPU's memory is asked for, by who measured it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from remediator.signals.counts import Window


@dataclass(frozen=True, slots=True)
class Names:
    """The labels by which an exporter names a machine (`whole`: all of them are needed, else any) and the
    thing it measures there: one of these sets of labels must be there whole.
    """

    machine: tuple[str, ...]
    things: tuple[tuple[str, ...], ...]
    whole: bool = False

    def of(self, labels: Mapping[str, str]) -> list[tuple[str, str]]:
        """What an alert's labels name; empty when that is not one thing of one machine."""
        there = [name for name in self.machine if labels.get(name)]
        named = [name for things in self.things for name in things if labels.get(name)]
        is_machine = len(there) == len(self.machine) if self.whole else bool(there)
        is_thing = any(all(labels.get(name) for name in things) for things in self.things)
        if not (is_machine and is_thing):
            return []
        return [(name, labels[name]) for name in (*there, *named, *(n for n in _PARTS if labels.get(n)))]


@dataclass(frozen=True, slots=True)
class State:
    """A reading that is `good`, or is not for so long; above `most` it is no reading."""

    metrics: str
    good: float
    window_s: float
    most: float = 7.0


@dataclass(frozen=True, slots=True)
class Slow:
    """A rate below the best one of this port: told by `best`, else its own of the last hour."""

    metrics: str
    best: str = ""
    window_s: float = 240.0


@dataclass(frozen=True, slots=True)
class Counter:
    """Counters that are added up, those whose labels match `only`; or how often a `good` state fell."""

    metrics: str
    window: Window
    only: tuple[tuple[str, str], ...] = ()
    good: float | None = None


Question = State | Slow | Counter
By = Mapping[str, tuple[Question, ...]]

_PARTS = ("link",)
_NODE = ("node", "nodename", "kubernetes_node", "hostname")
NAMES: Mapping[str, Names] = {
    "own-counters": Names(("job", "instance"), (("device", "port"), ("uuid",)), whole=True),
    "node-exporter": Names((*_NODE, "instance"), (("device", "port"),)),
    "dcgm-field": Names((*_NODE, "Hostname"), (("UUID",), ("gpu_uuid",), ("gpu",))),
    "gpud": Names((*_NODE, "instance"), (("uuid",), ("device_port",))),
}
"""By witness."""

_HALF_DAY = Window(12 * 3600.0, least=3)
_IN_TEN_MINUTES = Window(600.0)
# the rule counts windows of ten minutes that began up to an hour ago
_SYMBOLS, _RECOVERIES, _INTEGRITY = (Window(4200.0, least, 600.0, 3) for least in (60, 15, 3))
_MANY_SYMBOLS, _MANY_RECOVERIES = Window(3600.0, 120), Window(600.0, 50, 60.0, 9)
_MINUTES = Window(300.0, 3, 60.0, 3)
_VOLATILE = ("lifetime", "volatile")

_OWN_LINKS = "remediator_nvlink_errors_total"
_DCGM_LINKS = "DCGM_FI_DEV_NVLINK_"
_DCGM_REPLAYS = (
    "REPLAY_ERROR(_COUNT)?_TOTAL|ERROR_DL_REPLAY|REPLAY_TOTAL|RECOVERY_ERROR(_COUNT)?_TOTAL|ERROR_DL_RECOVERY"
    "|RECOVERY_TOTAL|COUNT_LINK_RECOVERY_(SUCCESSFUL_)?EVENTS|RECOVERY_(EVENT|SUCCESSFUL)_TOTAL"
    "|COUNT_LOCAL_LINK_INTEGRITY_ERRORS|INTEGRITY_ERROR_TOTAL"
)


def _flag(own: str, dcgm: str, gpud: str) -> By:
    """A flag that is 0 on a good GPU."""
    names = {"own-counters": own, "dcgm-field": dcgm, "gpud": gpud}
    return {witness: (State(name, 0.0, 60.0, most=1.0),) for witness, name in names.items()}


def _per_second(seconds: float) -> Window:
    return Window(seconds, least=100, per_s=True)


QUESTIONS: Mapping[str, By] = {
    "ib-port-down": {
        "own-counters": (
            State("remediator_ib_up", 1.0, 240.0),
            Slow("remediator_ib_rate_bytes_per_second", "remediator_ib_best_rate_bytes_per_second"),
        ),
        "node-exporter": (
            State("node_infiniband_state_id", 4.0, 240.0),
            State("node_infiniband_physical_state_id", 5.0, 240.0),
            Slow("node_infiniband_rate_bytes_per_second"),
        ),
    },
    "ib-flapping": {
        "own-counters": (
            Counter("remediator_ib_link_downed_total", _HALF_DAY),
            Counter("remediator_ib_up", _HALF_DAY, good=1.0),
            Counter("remediator_ib_carrier_changes_total", Window(3600.0, least=3)),
        ),
        "node-exporter": (
            Counter("node_infiniband_link_downed_total", _HALF_DAY),
            Counter("node_infiniband_state_id", _HALF_DAY, good=4.0),
        ),
        "gpud": (Counter("accelerator_nvidia_infiniband_link_downed", _HALF_DAY),),
    },
    "ib-errors": {
        "own-counters": (
            Counter("remediator_ib_symbol_errors_total", _MANY_SYMBOLS),
            Counter("remediator_ib_link_recoveries_total", _MANY_RECOVERIES),
        ),
        "node-exporter": (
            Counter("node_infiniband_symbol_error_total", _MANY_SYMBOLS),
            Counter("node_infiniband_link_error_recovery_total", _MANY_RECOVERIES),
        ),
    },
    "ib-link-errors": {
        "own-counters": (
            Counter("remediator_ib_symbol_errors_total", _SYMBOLS),
            Counter("remediator_ib_link_recoveries_total", _RECOVERIES),
            Counter("remediator_ib_errors_total", _INTEGRITY, (("type", "local_link_integrity_errors"),)),
        ),
        "node-exporter": (
            Counter("node_infiniband_symbol_error_total", _SYMBOLS),
            Counter("node_infiniband_link_error_recovery_total", _RECOVERIES),
            Counter("node_infiniband_local_link_integrity_errors_total", _INTEGRITY),
        ),
    },
    "nvlink-down": {
        "own-counters": (
            State("remediator_nvlink_up", 1.0, 120.0),
            Counter(_OWN_LINKS, _IN_TEN_MINUTES, (("kind", "recovery_failed"),)),
        ),
        "dcgm-field": (
            Counter(
                f"{_DCGM_LINKS}(COUNT_LINK_RECOVERY_FAILED_EVENTS|RECOVERY_FAILED_TOTAL)", _IN_TEN_MINUTES
            ),
        ),
        "gpud": (State("accelerator_nvidia_nvlink_feature_enabled", 1.0, 120.0),),
    },
    "nvlink-errors": {
        "own-counters": (
            Counter(_OWN_LINKS, _MINUTES, (("kind", "replay|recovery|recovery_succeeded|link_integrity"),)),
        ),
        "dcgm-field": (Counter(f"{_DCGM_LINKS}({_DCGM_REPLAYS})", _MINUTES),),
        "gpud": (Counter("accelerator_nvidia_nvlink_(replay|recovery)_errors", _MINUTES),),
    },
    "nvlink-crc": {
        "own-counters": (
            Counter(_OWN_LINKS, _per_second(60.0), (("kind", "crc_flit|crc_data"),)),
            Counter(_OWN_LINKS, _per_second(60.0), (("kind", "crc|receive"),)),
        ),
        "dcgm-field": (
            Counter(f"{_DCGM_LINKS}CRC_(FLIT|DATA)_ERROR(_COUNT)?_TOTAL", _per_second(120.0)),
            Counter(
                f"{_DCGM_LINKS}(ERROR_DL_CRC|CRC_ERROR_TOTAL|COUNT_RX_ERRORS|RX_ERROR_TOTAL)",
                _per_second(120.0),
            ),
        ),
        "gpud": (Counter("accelerator_nvidia_nvlink_crc_errors", _per_second(120.0)),),
    },
    "gpu-remap-failed": _flag(
        "remediator_gpu_row_remap_failed",
        "DCGM_FI_DEV_ROW_REMAP_FAIL(URE|ED)",
        "accelerator_nvidia_remapped_rows_remapping_failed",
    ),
    "gpu-remap-pending": _flag(
        "remediator_gpu_row_remap_pending",
        "DCGM_FI_DEV_ROW_REMAP_PENDING",
        "accelerator_nvidia_remapped_rows_remapping_pending",
    ),
    "gpu-ecc-uncorrected": {
        "own-counters": (
            Counter("remediator_gpu_ecc_errors_total", _IN_TEN_MINUTES, (("kind", "uncorrected"), _VOLATILE)),
        ),
        "dcgm-field": (Counter("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", _IN_TEN_MINUTES),),
        "gpud": (Counter("accelerator_nvidia_ecc_volatile_total_uncorrected", _IN_TEN_MINUTES),),
    },
    "gpu-sram-uncorrected": {
        "own-counters": (Counter("remediator_gpu_sram_uncorrected_total", _IN_TEN_MINUTES, (_VOLATILE,)),),
    },
}
"""By fault and witness: one of its questions must hold."""
