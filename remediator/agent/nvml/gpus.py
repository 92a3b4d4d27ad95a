"""The collector of GPUs, and the one that watches over it: a call into a sick driver may never come back."""

from __future__ import annotations

import os
from collections.abc import Iterator

from remediator.agent.boot import read_boot_id
from remediator.agent.collector import Log
from remediator.agent.nvml import memory, watch
from remediator.agent.nvml.fleet import Fleet
from remediator.agent.nvml.library import READING, Library
from remediator.agent.nvml.memory import Known, Memory
from remediator.agent.nvml.reading import Pass
from remediator.agent.nvml.series import GpuSeries
from remediator.agent.settings import AgentSettings
from remediator.agent.state import StateDir
from remediator.clock import Clock
from remediator.errors import BadInput
from remediator.model.signal import KernelEvent

LEAST_LATE_S = 30.0
TRY_AGAIN_S = 60.0
"""How often a machine on which nothing can be read is asked again: its driver may come up later."""
VISIBLE = "NVIDIA_VISIBLE_DEVICES"


class Gpus:
    """Reads every GPU in each look; remembers for the boot which there were and what was told of them."""

    name = "gpu"

    def __init__(self, settings: AgentSettings, clock: Clock, log: Log) -> None:
        self.every_s = settings.gpu_interval_s
        self.late_s = max(LEAST_LATE_S, 3 * self.every_s)
        self.series = GpuSeries(self.age, self.late_s)
        self._clock, self._log = clock, log
        self._boot_id_path = settings.boot_id_path
        self._state = StateDir(settings.state_dir)
        self._fleet = Fleet(Library(settings.nvml_path))
        self._ended = clock.steady()
        self._last = "starting"
        self._again_at = 0.0
        self._saved = self._memory = self._remember(read_boot_id(settings.boot_id_path))
        if not self.every_s:
            self.series.show(Pass("off"), 0.0)

    def age(self) -> float:
        """Seconds since a look ended, or since the process began."""
        return max(0.0, self._clock.steady() - self._ended)

    def look(self, now: float, steady: float) -> Iterator[KernelEvent]:  # noqa: ARG002 - GPUs tell no wall time
        """One reading of all GPUs; what is new about one is an event."""
        self._save()
        if self._last not in {READING, "starting"} and steady < self._again_at:
            self._ended = steady
            return
        self._new_boot()
        found = self._fleet.read([known.identity for known in self._memory.gpus if known.uuid])
        yield from self._news(found)
        self._ended = self._clock.steady()
        self._again_at = steady + TRY_AGAIN_S
        self.series.show(found, self._ended - steady)
        self._say(found)

    def close(self) -> None:
        """Let go of the library; only from the thread that looks."""
        self._fleet.close()

    def _news(self, found: Pass) -> Iterator[KernelEvent]:
        seen: list[Known] = []
        for reading in found.readings:
            gpu = reading.gpu
            events, told = watch.news(reading, self._memory.told(gpu.uuid))
            yield from events
            if gpu.uuid or told:
                seen.append(Known(index=gpu.index, uuid=gpu.uuid, pci=gpu.pci, told=told))
        self._memory = self._memory.with_all(seen)

    def _say(self, found: Pass) -> None:
        """Once, when it begins; then the metric goes on saying it."""
        if found.state == self._last:
            return
        if found.state == READING:
            self._log.info("GPUs are read", gpus=len(found.readings))
        else:
            self._log.info("no GPU is read", why=found.state)
        self._last = found.state

    # --- remembering

    def _remember(self, boot_id: str) -> Memory:
        return memory.load(self._state, boot_id, os.environ.get(VISIBLE, ""))

    def _new_boot(self) -> None:
        try:
            boot_id = read_boot_id(self._boot_id_path)
        except BadInput:
            return
        if boot_id != self._memory.boot_id:
            self._memory = self._remember(boot_id)

    def _save(self) -> None:
        """In the look after: by then the loop has pushed or spooled what that look told."""
        if self._memory == self._saved:
            return
        self._saved = self._memory
        try:
            memory.save(self._state, self._memory)
        except OSError as error:
            self._log.warning("the known GPUs cannot be written", error=error.strerror)


class Lateness:
    """Says when the readings of GPUs have stopped: evidence of a sick driver, and harmless by itself."""

    name = "gpu-lateness"
    every_s = 5.0

    def __init__(self, gpus: Gpus, log: Log) -> None:
        self._gpus, self._log = gpus, log
        self._late = False

    def look(self, now: float, steady: float) -> Iterator[KernelEvent]:  # noqa: ARG002 - only the age counts
        """An event when readings become late."""
        age = self._gpus.age()
        was, self._late = self._late, age > self._gpus.late_s
        if self._late and not was:
            self._log.warning("GPU readings are late", seconds=round(age))
            raw = f"NVML: no reading of the GPUs for {age:.0f} s"
            yield KernelEvent(kind=watch.LATE, extra={"seconds": round(age)}, raw=raw)
        elif was and not self._late:
            self._log.info("GPUs are read again")
