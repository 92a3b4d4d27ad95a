"""Kinds of fault that an alert may name by its label `fault`: a closed list, a word outside it is refused."""

from __future__ import annotations

GPU_HOT = "gpu-hot"
GPU_HOTTER = "gpu-hotter-than-siblings"
GPU_MARGIN = "gpu-margin-gone"
GPU_MEMORY = "gpu-memory-hot"
GPU_SLOWDOWN = "gpu-thermal-slowdown"

ALERTS = frozenset({"webhook", "backfill"})
"""Sources of signals that are alerts."""

LOOKS_BACK_S = 600.0
"""What an alert tells may be so much older than its start, if its rule looks back as far: a Prometheus that
was restarted, or evaluates late, lets it begin while its window still holds samples of before.
"""

THERMAL = frozenset({GPU_HOT, GPU_HOTTER, GPU_MARGIN, GPU_MEMORY, GPU_SLOWDOWN})

SOFT = frozenset({GPU_HOT, GPU_HOTTER})
"""Of these some minutes' delay harms nothing; a failing cooling shows on other nodes meanwhile."""

COUNTED = frozenset(
    {
        "gpu-ecc-uncorrected",
        "gpu-remap-failed",
        "gpu-remap-pending",
        "gpu-sram-uncorrected",
        "ib-errors",
        "ib-flapping",
        "ib-link-errors",
        "ib-port-down",
        "nvlink-crc",
        "nvlink-down",
        "nvlink-errors",
    }
)
"""Faults that an alert tells with its witness, as it does an XID; an agent may tell them too."""

ASKED_AGAIN = THERMAL | COUNTED
"""Faults by a threshold: an alert of one says nothing before Prometheus' samples have said so too."""

FABRIC = ("ib-", "hca-")
"""How the kinds about ports and adapters begin."""

NAMED = ASKED_AGAIN
"""All that an alert may name."""

JOB_STALLED = "job-stalled"
"""A running job none of whose GPUs works any more."""

STRAGGLER = "straggler"
"""A node that lags behind its own job's other nodes, with waits on one rail."""

OF_RANKS = frozenset({JOB_STALLED, STRAGGLER})
"""What only the service's own comparison of ranks can say."""
