"""All GPUs of a machine: who is there, who was there, one pass after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from remediator.agent.nvml.device import Device, identify
from remediator.agent.nvml.library import READING, Failed, GpuLost, Library, Unusable
from remediator.agent.nvml.reading import Identity, Pass, Reading

_LOOK_AGAIN = 30
"""Passes with a GPU missing or nameless after which the library begins anew, to see one that came back."""


class Fleet:
    """The GPUs that the library shows, held open from pass to pass."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._devices: list[Device] = []
        self._silent: list[Reading] = []
        self._count = 0
        self._open = False
        self._short = 0

    def read(self, known: Iterable[Identity]) -> Pass:
        """One pass. A GPU of `known` that is no longer there is lost, unless all are gone: then it is not the
        GPUs that are.
        """
        gpus, was_open = tuple(known), self._open
        try:
            return self._pass(gpus)
        except Unusable as error:
            self.close()
            return self.read(gpus) if was_open else Pass(error.state)

    def close(self) -> None:
        """Let go of every GPU."""
        for device in self._devices:
            device.forget()
        self._library.close()
        self._devices, self._silent, self._open = [], [], False

    def _pass(self, known: tuple[Identity, ...]) -> Pass:
        if self._open and self._stale():
            self.close()
        if not self._open:
            self._begin()
        if not self._count:
            self.close()
            return Pass("no_gpu")
        readings = [*map(_read, self._devices), *self._silent]
        there = {reading.gpu.uuid for reading in readings}
        readings += [_gone(gpu) for gpu in known if gpu.uuid not in there and self._is_gone(gpu)]
        readings = list(_named(readings))
        short = any(reading.lost or not reading.gpu.uuid for reading in readings)
        self._short = self._short + 1 if short else 0
        return Pass(READING, tuple(readings))

    def _stale(self) -> bool:
        """Whether the library has to begin anew to see what there is."""
        try:
            return self._library.call("nvmlDeviceGetCount") != self._count or self._short >= _LOOK_AGAIN
        except Failed:
            return True

    def _begin(self) -> None:
        self._library.open()
        self._open, self._short = True, 0
        try:
            driver = str(self._library.call("nvmlSystemGetDriverVersion"))
            self._count = int(self._library.call("nvmlDeviceGetCount"))
        except (Failed, GpuLost):
            raise Unusable("failed") from None
        for index in range(self._count):
            self._meet(index, driver)

    def _meet(self, index: int, driver: str) -> None:
        """A GPU that cannot even say who it is goes by its index."""
        nobody = Identity(index, "", None)
        try:
            handle = self._library.call("nvmlDeviceGetHandleByIndex", index)
            nobody = identify(self._library, index, handle)
            self._devices.append(Device(self._library, handle, nobody, driver))
        except GpuLost:
            self._silent.append(_gone(nobody))
        except Failed as error:
            self._silent.append(Reading(nobody, unread={"identity": error.reason}))

    def _is_gone(self, gpu: Identity) -> bool:
        """Whether the library, asked for this very GPU, knows it as lost or not at all."""
        try:
            self._library.call("nvmlDeviceGetHandleByUUID", gpu.uuid)
        except GpuLost:
            return True
        except Failed as error:
            return error.reason == "not_found"
        return False


def _read(device: Device) -> Reading:
    try:
        return device.read()
    except GpuLost:
        return _gone(device.gpu)


def _gone(gpu: Identity) -> Reading:
    return Reading(gpu, lost=True)


def _named(readings: list[Reading]) -> Iterator[Reading]:
    """One reading a GPU: of two lost ones with one index, the one without a name is left out."""
    named = {reading.gpu.index for reading in readings if reading.lost and reading.gpu.uuid}
    return (reading for reading in readings if reading.gpu.uuid or reading.gpu.index not in named)
