"""What of a reading must be known at once. Pure: a state is told when it begins, not while it lasts."""

from __future__ import annotations

from collections.abc import Iterator

from remediator.agent.nvml import table
from remediator.agent.nvml.reading import Reading
from remediator.agent.nvml.table import Key
from remediator.model.signal import KernelEvent

LOST = "gpu-lost"
RECOVERY = "gpu-recovery-action"
REMAP_FAILED = "gpu-remap-failed"
LATE = "gpu-readings-late"
KINDS = (LOST, RECOVERY, REMAP_FAILED, LATE)

Told = tuple[str, ...]


def news(reading: Reading, told: Told) -> tuple[list[KernelEvent], Told]:
    """Events to push, and what has been told then. What cannot be read now leaves what was told as it is.
    That the driver asks for nothing any more is told too.
    """
    before = {fact.partition(" ")[0]: fact for fact in told}
    after = before | dict(_states(reading))
    events = [
        _event(reading, fact or f"{kind} 0", before.get(kind, ""))
        for kind, fact in after.items()
        if before.get(kind, "") != fact and (fact or kind == RECOVERY)
    ]
    return events, tuple(sorted(fact for fact in after.values() if fact))


def _states(reading: Reading) -> Iterator[tuple[str, str]]:
    """Each kind with its present fact, empty when all is well; a kind that is unknown now is left out."""
    yield LOST, LOST if reading.lost else ""
    if reading.lost:
        return
    action = reading.values.get(Key(table.RECOVERY))
    if action is not None:
        yield RECOVERY, f"{RECOVERY} {action:.0f}" if action else ""
    failed = reading.values.get(Key(table.REMAP_FAILED))
    if failed is not None:
        yield REMAP_FAILED, REMAP_FAILED if failed else ""


def _event(reading: Reading, fact: str, before: str) -> KernelEvent:
    kind, _, action = fact.partition(" ")
    gpu = reading.gpu
    extra: dict[str, int | str] = {"gpu": gpu.index, "uuid": gpu.uuid}
    if action:
        extra |= {"recovery_from": int(before.partition(" ")[2] or 0), "recovery_to": int(action)}
    return KernelEvent(
        kind=kind, pci=gpu.pci, extra=extra, raw=f"NVML: GPU {gpu.index} {gpu.pci} {gpu.uuid}: {fact}"
    )
