"""How busy one MIG instance is: counters of the hardware, read twice.

The driver measures no process there, and no utilisation either; on Hopper and later it counts by instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.model import Reading, Unknown, Why

if TYPE_CHECKING:
    from collections.abc import Callable

    from .nvml_library import NvmlLibrary

SHORTEST_SECONDS = 0.2  # the counters are refreshed every 0.1 s

# Any work of the compute engine, share of multiprocessors; then decoders, picture decoders, optical flow.
_COMPUTE = (1, 2)
_OTHER_ENGINES = (*range(30, 38), *range(40, 48), 50)
_FULL = 100.0
_ROUNDING = 0.5


class InstanceMeter:
    """The counters of one instance. It keeps one sample, so that each reading covers all the time since the last."""

    def __init__(self, library: NvmlLibrary, monotonic: Callable[[], float]) -> None:
        self._library = library
        self._monotonic = monotonic
        self._sample: Any = None
        self._spare: Any = None
        self._taken_at = 0.0
        self._is_supported = False
        self._last: Reading = Unknown(Why.FIRST_READING)

    def read(self, handle: Any, parent: Any) -> Reading:
        """Percent of the busiest engine since the previous reading, by the handles of the instance and of its GPU."""
        if not self._is_supported:
            support = self._library.ask("nvmlGpmQueryDeviceSupport", handle)
            if isinstance(support, Unknown):
                return support
            if not support.isSupportedDevice:
                return Unknown(Why.NOT_SUPPORTED, "the device does not count compute by instance")
            self._is_supported = True
        now = self._monotonic()
        if self._sample is not None and now - self._taken_at < SHORTEST_SECONDS:
            return self._last
        self._last = self._read(handle, parent)
        self._taken_at = now
        return self._last

    def close(self) -> None:
        """Give the samples back; they belong to the driver. It can be read again afterwards."""
        for sample in (self._sample, self._spare):
            if sample is not None:
                self._library.release("nvmlGpmSampleFree", sample)
        self._sample = self._spare = None

    def _read(self, handle: Any, parent: Any) -> Reading:
        fresh = self._library.ask("nvmlGpmSampleAlloc") if self._spare is None else self._spare
        if isinstance(fresh, Unknown):
            return fresh
        self._spare = fresh
        taken = self._library.ask("nvmlGpmSampleGet", handle, fresh)
        if isinstance(taken, Unknown) and taken.why is Why.NOT_SUPPORTED:
            number = self._library.ask("nvmlDeviceGetGpuInstanceId", handle)
            if not isinstance(number, Unknown):
                taken = self._library.ask("nvmlGpmMigSampleGet", parent, number, fresh)
        if isinstance(taken, Unknown):
            return taken  # the older sample stays: the next reading covers this time too
        older, self._sample, self._spare = self._sample, fresh, self._sample
        return Unknown(Why.FIRST_READING) if older is None else self._between(older, fresh)

    def _between(self, older: Any, newer: Any) -> Reading:
        metrics = (*_COMPUTE, *_OTHER_ENGINES)
        wanted = self._library.structure("c_nvmlGpmMetricsGet_t")
        wanted.version, wanted.numMetrics, wanted.sample1, wanted.sample2 = 1, len(metrics), older, newer
        for place, metric in enumerate(metrics):
            wanted.metrics[place].metricId = metric
        answer = self._library.ask("nvmlGpmMetricsGet", wanted)
        if isinstance(answer, Unknown):
            return answer
        busiest = 0.0
        for metric in answer.metrics[: answer.numMetrics]:
            refused = self._library.refusal(metric.nvmlReturn)
            if refused is None and not 0 <= metric.value <= _FULL + _ROUNDING:  # true of what is no number, too
                return Unknown(Why.IMPLAUSIBLE, "the driver's counters contradict themselves")
            if refused is None:
                busiest = max(busiest, min(metric.value, _FULL))
            elif metric.metricId == _COMPUTE[0] or refused.why not in {Why.NOT_SUPPORTED, Why.NOT_AVAILABLE}:
                return refused  # an engine that the instance does not have is no reason to doubt the others
        return busiest
