"""One GPU through NVML: its identity, then one reading after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from remediator.agent.nvml import table
from remediator.agent.nvml.decode import (
    CELSIUS,
    COUNT,
    FLAG,
    MARGINS,
    PERCENT,
    Range,
    Unread,
    contradicts,
    slowdown_margin,
    value_of,
)
from remediator.agent.nvml.fields import LINK_COUNT, MOST_LINKS, Field, fields
from remediator.agent.nvml.gpm import TensorActivity
from remediator.agent.nvml.library import Failed, Library, check
from remediator.agent.nvml.reading import Identity, Reading
from remediator.agent.nvml.table import Key
from remediator.agent.pci import device as pci_of

_ASK_AGAIN = 60
"""Readings after which fields that were not supported are asked for again: MIG may have been switched."""
_TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
_REASONS = {"power_cap": 0x4, "hardware": 0x8, "thermal": 0x20, "hardware_thermal": 0x40, "power_brake": 0x80}
_LIMITS = {"shutdown": 0, "slowdown": 1, "memory": 2, "gpu": 3}
_UNCORRECTED, _SRAM = 1, 7
_LIFETIMES = {"volatile": 0, "aggregate": 1}
_UP = frozenset({1, 2})  # active, asleep


def identify(library: Library, index: int, handle: Any) -> Identity:
    """Who the GPU is; GpuLost or Failed when it cannot say."""
    uuid = str(library.call("nvmlDeviceGetUUID", handle))
    try:
        bus = str(library.call("nvmlDeviceGetPciInfo", handle).busId)
    except UnicodeDecodeError:
        raise Failed("garbage") from None
    return Identity(index, uuid, pci_of(bus).pci)


class _Found:
    """Values and failures of one reading."""

    def __init__(self) -> None:
        self.values: dict[Key, float] = {}
        self._failed: dict[tuple[str, Key], str] = {}

    def put(self, name: str, key: Key, raw: float, allowed: Range) -> None:
        value = value_of(raw, allowed)
        if isinstance(value, Unread):
            self.fail(name, key, value.reason)
        else:
            self.values.setdefault(key, value)

    def fail(self, name: str, key: Key, reason: str) -> None:
        self._failed.setdefault((name, key), reason)

    def get(self, series: table.Series, *labels: str) -> float | None:
        return self.values.get(Key(series, labels))

    def unread(self) -> Mapping[str, str]:
        """By name; what another field of the same series could say is not missing."""
        return {name: why for (name, key), why in self._failed.items() if key not in self.values}


class Device:
    """A GPU with its handle. Fields that it does not support are left out of most readings."""

    def __init__(self, library: Library, handle: Any, gpu: Identity, driver: str) -> None:
        self.gpu = gpu
        self._library, self._handle = library, handle
        self._tensor = TensorActivity(library, handle)
        self._info = Key(table.INFO, (self._text("nvmlDeviceGetName"), driver))
        self._links = self._link_count()
        self._fields = fields(self._links)
        self._unsupported: dict[tuple[int, int], str] = {}
        self._readings = 0

    def read(self) -> Reading:
        """Everything it says now; GpuLost or Unusable when that is nothing."""
        if self._readings % _ASK_AGAIN == 0:
            self._unsupported.clear()
        self._readings += 1
        found = _Found()
        found.values[self._info] = 1.0
        self._numbered(found)
        self._link_states(found)
        self._temperatures(found)
        self._work(found)
        self._reasons(found)
        for lifetime, code in _LIFETIMES.items():
            key = Key(table.SRAM, (lifetime,))
            self._ask(found, f"sram_{lifetime}", key, COUNT, "nvmlDeviceGetMemoryErrorCounter",
                      _UNCORRECTED, code, _SRAM)  # fmt: skip
        return Reading(self.gpu, values=found.values, unread=found.unread())

    def forget(self) -> None:
        """Give back what it holds in the library."""
        self._tensor.free()

    # --- numbered fields

    def _numbered(self, found: _Found) -> None:
        asked = [field for field in self._fields if (field.number, field.scope) not in self._unsupported]
        try:
            answers = self._library.call(
                "nvmlDeviceGetFieldValues", self._handle, [(field.number, field.scope) for field in asked]
            )
        except Failed as error:
            for field in asked:
                found.fail(field.name, field.key, error.reason)
            return
        for field, answer in zip(asked, answers, strict=True):
            self._take(found, field, answer)
        for field in self._fields:
            if (why := self._unsupported.get((field.number, field.scope))) is not None:
                found.fail(field.name, field.key, why)

    def _take(self, found: _Found, field: Field, answer: Any) -> None:
        try:
            check(answer.nvmlReturn)
            raw = getattr(answer.value, _TYPES[answer.valueType])
        except Failed as error:
            if error.reason in {"not_supported", "invalid_argument"}:
                self._unsupported[field.number, field.scope] = error.reason
            found.fail(field.name, field.key, error.reason)
        except IndexError:
            found.fail(field.name, field.key, "implausible")
        else:
            if field.key.series is table.NVLINK_UP:
                raw = float(raw in _UP) if raw in range(4) else raw
            found.put(field.name, field.key, raw, field.allowed)

    def _link_states(self, found: _Found) -> None:
        """By the older function, where the field is not supported."""
        for link in range(self._links):
            key = Key(table.NVLINK_UP, (str(link),))
            if key not in found.values:
                self._ask(found, "nvlink_state", key, FLAG, "nvmlDeviceGetNvLinkState", link)

    def _link_count(self) -> int:
        try:
            answer = self._library.call("nvmlDeviceGetFieldValues", self._handle, [LINK_COUNT])[0]
            check(answer.nvmlReturn)
            count = int(getattr(answer.value, _TYPES[answer.valueType]))
        except (Failed, IndexError):
            return 0
        return count if 0 <= count <= MOST_LINKS else 0

    # --- functions

    def _ask(
        self,
        found: _Found,
        name: str,
        key: Key,
        allowed: Range,
        function: str,
        *arguments: Any,
        pick: Callable[[Any], float] = lambda answer: answer,
    ) -> None:
        try:
            raw = pick(self._library.call(function, self._handle, *arguments))
        except Failed as error:
            found.fail(name, key, error.reason)
        else:
            found.put(name, key, raw, allowed)

    def _temperatures(self, found: _Found) -> None:
        self._ask(found, "temperature", Key(table.TEMPERATURE), CELSIUS, "nvmlDeviceGetTemperature", 0)
        for limit, code in _LIMITS.items():
            key = Key(table.LIMIT, (limit,))
            self._ask(found, f"limit_{limit}", key, CELSIUS, "nvmlDeviceGetTemperatureThreshold", code)
        key = Key(table.MARGIN)
        self._ask(found, "thermal_margin", key, MARGINS, "nvmlDeviceGetMarginTemperature")
        margin, offset = found.values.get(key), found.get(table.OFFSET, "slowdown")
        celsius = found.get(table.TEMPERATURE)
        if margin is not None and contradicts(margin, offset, celsius):
            del found.values[key]
            found.fail("thermal_margin", key, "contradiction")
            return
        left = slowdown_margin(margin, offset, celsius, found.get(table.LIMIT, "slowdown"))
        if left is not None:
            found.values[Key(table.SLOWDOWN_MARGIN)] = left

    def _work(self, found: _Found) -> None:
        self._ask(found, "mig", Key(table.MIG), FLAG, "nvmlDeviceGetMigMode", pick=lambda modes: modes[0])
        key = Key(table.UTILIZATION)
        self._ask(
            found, "utilization", key, PERCENT, "nvmlDeviceGetUtilizationRates", pick=lambda rates: rates.gpu
        )
        key = Key(table.TENSOR)
        try:
            percent = self._tensor.read()
        except Failed as error:
            found.fail("tensor_activity", key, error.reason)
        else:
            if percent is not None:
                found.put("tensor_activity", key, percent, PERCENT)

    def _reasons(self, found: _Found) -> None:
        keys = {name: Key(table.SLOWDOWN, (name,)) for name in _REASONS}
        try:
            mask = self._mask()
        except Failed as error:
            for name, key in keys.items():
                found.fail(f"slowdown_{name}_now", key, error.reason)
            return
        for name, bit in _REASONS.items():
            found.put(f"slowdown_{name}_now", keys[name], float(bool(mask & bit)), FLAG)

    def _mask(self) -> int:
        """Drivers before 535 know the reasons by their older name."""
        try:
            mask = self._library.call("nvmlDeviceGetCurrentClocksEventReasons", self._handle)
        except Failed:
            mask = self._library.call("nvmlDeviceGetCurrentClocksThrottleReasons", self._handle)
        if mask >= 2**32:
            raise Failed("blank")
        return int(mask)

    def _text(self, function: str) -> str:
        try:
            return str(self._library.call(function, self._handle))
        except Failed:
            return ""
