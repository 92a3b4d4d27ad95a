"""Whether a signal is evidence about the machine as it runs now."""

from __future__ import annotations

from typing import Literal

from remediator.incidents.evidence import of_this_boot
from remediator.model.faults import ALERTS
from remediator.model.machine import Machine
from remediator.model.signal import Signal

BOOT_LAG_S = 120.0
Boot = Literal["present", "older", "unsettled"]


def of_another(signal: Signal, machine: Machine) -> bool:
    """Whether it may speak of the machine that bore this name before: it names no boot, and what it tells may
    have begun before this one registered.
    """
    since = machine.alerts_from if signal.source in ALERTS else machine.created
    return not signal.boot_id and signal.seen_at < since


def boot_of(signal: Signal, node_boot_id: str, now: float) -> Boot:
    """Evidence is valid for its own boot only.

    A node whose boot is unknown has no present one. The kubelet reports a new boot some seconds after the
    agent does: a fresh mismatch is not settled yet.
    """
    if of_this_boot(signal, node_boot_id, now):
        return "present"
    return "unsettled" if now - signal.received_at < BOOT_LAG_S else "older"
