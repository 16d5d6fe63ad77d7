"""Exact compute per process where an administrator has switched the driver's accounting on.

The driver adds up the utilisation of each process for as long as it lives. The difference of two sums is the mean over
the whole time between, however long that was: no sample can be missed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.model import Reading, Unknown, Why, is_known

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from .nvml_samples import Computed

_PER_PERCENT = 100  # the sums count hundredths of a percent
_FULL = 100


@dataclass(frozen=True)
class _Sums:
    """What the driver had added up for one process by the previous reading. `since` tells a reused pid apart."""

    since: int
    count: int
    compute: int
    memory: int


class Accounting:
    """The sums of one device, by pid of this machine: not for a container, where a pid may be another one's."""

    def __init__(self) -> None:
        self._before: dict[int, _Sums] = {}
        self._means: dict[int, tuple[float, float]] = {}

    def read(self, ask: Callable[[int], Any], pids: Collection[int]) -> Unknown | None:
        """Ask for the sums of `pids`. Unknown: the driver does not tell; it is to be asked again when it accounts."""
        before, self._before, self._means = self._before, {}, {}
        for pid in pids:
            answer = ask(pid)
            if isinstance(answer, Unknown):
                if answer.why is not Why.NOT_AVAILABLE:
                    self._before = {}
                    return answer
                continue  # a process that began before the accounting is not in it
            now = _Sums(answer.startTime, answer.sampleCount, answer.sumGpuUtil, answer.sumFbUtil)
            self._before[pid] = now
            then = before.get(pid)
            if then is not None and then.since == now.since and now.count > then.count:
                samples = (now.count - then.count) * _PER_PERCENT
                self._means[pid] = (now.compute - then.compute) / samples, (now.memory - then.memory) / samples
        return None

    def of(self, pid: int, computed: Computed) -> Reading:
        """Percent of this process: the larger of the exact mean and of what the samples say of further engines.

        The sums know the compute engine alone. Where the samples say nothing, only a process that has not used the
        device's memory either has surely done nothing.
        """
        if pid not in self._means:
            return computed.of(pid)
        compute, memory = self._means[pid]
        if not (0 <= compute <= _FULL and 0 <= memory <= _FULL):
            return Unknown(Why.IMPLAUSIBLE, "the driver's accounting contradicts itself")
        others = computed.apart_from_compute(pid)
        if is_known(others):
            return max(compute, others)
        return 0.0 if compute == memory == 0 else others
