"""What is known of a boot's GPUs beyond one process: which there were, and what was already told of each."""

from __future__ import annotations

from collections.abc import Iterable

from remediator.agent.nvml.reading import Identity
from remediator.agent.state import StateDir
from remediator.model.base import Ours

FILE = "gpus.json"


class Known(Ours):
    """A GPU that was read in this boot, and what was pushed about its present state."""

    index: int
    uuid: str
    pci: str | None
    told: tuple[str, ...] = ()

    @property
    def identity(self) -> Identity:
        """The GPU without what was told."""
        return Identity(self.index, self.uuid, self.pci)


class Memory(Ours):
    """All of them. `visible` is what the container may see: a change of it is no loss of a GPU."""

    boot_id: str
    visible: str
    gpus: tuple[Known, ...] = ()

    def told(self, uuid: str) -> tuple[str, ...]:
        """What was pushed about this GPU."""
        return next((known.told for known in self.gpus if known.uuid == uuid), ())

    def with_all(self, seen: Iterable[Known]) -> Memory:
        """The memory after a pass: what was not seen is still known."""
        by_uuid = {known.uuid: known for known in self.gpus} | {known.uuid: known for known in seen}
        return self.model_copy(update={"gpus": tuple(by_uuid[uuid] for uuid in sorted(by_uuid))})


def load(state: StateDir, boot_id: str, visible: str) -> Memory:
    """What an earlier process of this boot knew, if it could see the same GPUs."""
    found = state.load(FILE, Memory)
    fresh = Memory(boot_id=boot_id, visible=visible)
    return found if found and (found.boot_id, found.visible) == (boot_id, visible) else fresh


def save(state: StateDir, memory: Memory) -> None:
    """Durable when this returns; OSError when it cannot be."""
    state.save(FILE, memory)
