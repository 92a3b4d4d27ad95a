"""NVML itself, through NVIDIA's own binding: opened late, and what is wrong with it as a word."""

from __future__ import annotations

import ctypes
import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "libnvidia-ml.so.1"
READING = "reading"
STATES = (
    READING, "starting", "off", "no_gpu", "no_binding", "no_library", "no_driver", "no_permission",
    "library_driver_mismatch", "driver_too_old", "failed",
)  # fmt: skip
"""What a process can say about NVML."""

_SUCCESS, _GPU_IS_LOST = 0, 15
_STATES = {
    4: "no_permission", 9: "no_driver", 12: "no_library", 13: "driver_too_old", 18: "library_driver_mismatch",
}  # fmt: skip
_REASONS = {
    1: "uninitialized", 2: "invalid_argument", 3: "not_supported", 4: "no_permission", 6: "not_found",
    9: "no_driver", 10: "timeout", 13: "driver_too_old", 15: "gpu_lost", 16: "reset_required",
    21: "no_data", 27: "not_ready", 999: "unknown",
}  # fmt: skip
# What a new start of the library may mend; the rest is one GPU's trouble.
_GONE = frozenset({1, 9, 12, 18})


class Unusable(Exception):
    """Nothing can be read from any GPU; `state` is one of STATES."""

    def __init__(self, state: str) -> None:
        super().__init__(state)
        self.state = state


class GpuLost(Exception):
    """The driver says of one GPU that it is lost."""


class Failed(Exception):
    """One call has no answer; `reason` is a word for a label."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def word(code: int) -> str:
    """A return code as a word for a label."""
    return _REASONS.get(code, f"error_{code}")


def check(code: int) -> None:
    """Raise what a field's own return code means."""
    if code == _SUCCESS:
        return
    if code == _GPU_IS_LOST:
        raise GpuLost
    raise Failed(word(code))


class Library:
    """The binding's functions, each call's error made one of ours. Not for two threads at once: calls on
    several devices at a time have been seen to crash the driver.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._module: ModuleType | None = None
        self._questions: dict[str, Any] = {}

    def open(self) -> None:
        """Load what is not loaded yet and begin; Unusable when that cannot be."""
        if self._module is None:
            self._module = self._load()
        try:
            self._module.nvmlInit()
        except self._module.NVMLError as error:
            raise Unusable(_STATES.get(error.value, "failed")) from None

    def close(self) -> None:
        """End it; what was asked before is forgotten."""
        try:
            self.call("nvmlShutdown")
        except (Failed, GpuLost, Unusable):
            return  # it had not begun

    def call(self, name: str, *arguments: Any) -> Any:
        """The binding's function `name`; Failed, GpuLost or Unusable when it has no answer."""
        module = self._module
        if module is None:
            raise Unusable("starting")
        try:
            return getattr(module, name)(*arguments)
        except module.NVMLError as error:
            if error.value in _GONE:
                raise Unusable(_STATES.get(error.value, "failed")) from None
            check(error.value)
            raise
        except UnicodeDecodeError:
            raise Failed("garbage") from None

    def question(self, name: str) -> Any:
        """The binding's structure `name`, the same one each time: this of GPM takes 19 KB."""
        if name not in self._questions:
            self._questions[name] = getattr(self._module, name)()
        return self._questions[name]

    def _load(self) -> ModuleType:
        """What is loaded here, by name or by path, is what the binding gets when it asks by the name."""
        try:
            ctypes.CDLL(str(self._path or NAME))
        except OSError:
            raise Unusable("no_library") from None
        try:
            return importlib.import_module("pynvml")  # 3 MB that a machine without GPUs does not need
        except ImportError:
            raise Unusable("no_binding") from None
