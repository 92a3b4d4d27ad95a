"""Tensor activity by GPM (Hopper and later): what the SMs' tensor cores did between two samples."""

from __future__ import annotations

from typing import Any

from remediator.agent.nvml.library import Failed, GpuLost, Library, Unusable, check

_ANY_TENSOR = 5
_VERSION = 1
_ROUNDED = 101.0


class TensorActivity:
    """Two samples of one GPU, the older and the newer; the second reading is the first that has a value."""

    def __init__(self, library: Library, handle: Any) -> None:
        self._library, self._handle = library, handle
        self._samples: list[Any] | None = None
        self._has_older = False

    def read(self) -> float | None:
        """Percent of time since the last reading; None without an older sample, Failed when unsupported."""
        if self._samples is None:
            self._begin()
        assert self._samples is not None  # noqa: S101 - for the type checker
        had, self._has_older = self._has_older, False
        older, newer = self._samples
        self._library.call("nvmlGpmSampleGet", self._handle, newer)
        self._samples, self._has_older = [newer, older], True
        return self._between(older, newer) if had else None

    def free(self) -> None:
        """Give the samples back."""
        for sample in self._samples or ():
            try:
                self._library.call("nvmlGpmSampleFree", sample)
            except (Failed, GpuLost, Unusable):
                continue  # the library forgets them all when it ends
        self._samples, self._has_older = None, False

    def _begin(self) -> None:
        support = self._library.call("nvmlGpmQueryDeviceSupport", self._handle)
        if not support.isSupportedDevice:
            raise Failed("not_supported")
        self._samples = [self._library.call("nvmlGpmSampleAlloc") for _ in range(2)]

    def _between(self, older: Any, newer: Any) -> float:
        asked = self._library.question("c_nvmlGpmMetricsGet_t")
        asked.version, asked.numMetrics = _VERSION, 1
        asked.sample1, asked.sample2 = older, newer
        asked.metrics[0].metricId = _ANY_TENSOR
        answer = self._library.call("nvmlGpmMetricsGet", asked).metrics[0]
        check(answer.nvmlReturn)
        return 100.0 if 100.0 < answer.value < _ROUNDED else float(answer.value)
