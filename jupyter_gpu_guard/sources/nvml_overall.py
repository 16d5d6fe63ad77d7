"""How busy a whole device was since the previous reading, at most: for a device that does not measure its processes."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from jupyter_gpu_guard.core.model import Reading, Unknown, Why

from .nvml_samples import SampleCursor

if TYPE_CHECKING:
    from collections.abc import Callable

_WHOLE = 1  # in place of a pid
_UNSIGNED_INT = 1
_FULL = 100
_LONGEST_BETWEEN = 1_500_000  # microseconds; the driver takes a sample at least once a second


class _Row(NamedTuple):
    """A sample of the device in the form of one of a process."""

    timeStamp: int  # noqa: N815 - NVIDIA's name
    smUtil: int  # noqa: N815
    pid: int = _WHOLE
    encUtil: int = 0  # noqa: N815
    decUtil: int = 0  # noqa: N815


class DevicePeak:
    """The highest sample of one kind since the previous reading.

    The highest and not the mean, so that it is never below what one process did. While a device sleeps the driver takes
    no samples, which looks like a driver that fails to: a time without samples is not known.
    """

    def __init__(self) -> None:
        self._cursor = SampleCursor()
        self._read_at = 0.0
        self._hole: Unknown | None = None

    def read(self, ask: Callable[[int], Any], monotonic: float, wall: float) -> Reading:
        """Percent. `ask` takes the stamp of the newest sample already seen."""

        def rows(seen: int) -> list[Any] | Unknown:
            answer = ask(seen)
            if isinstance(answer, Unknown):
                return answer
            kind, samples = answer
            if kind != _UNSIGNED_INT:
                return Unknown(Why.IMPLAUSIBLE, f"the driver's samples are of an unknown type {kind}")
            found = [_Row(sample.timeStamp, sample.sampleValue.uiVal) for sample in samples]
            if any(row.smUtil > _FULL for row in found):
                return Unknown(Why.IMPLAUSIBLE, "the driver's samples are above 100 %")
            passed, self._read_at = monotonic - self._read_at, monotonic
            self._hole = _hole([row.timeStamp for row in found], seen, passed)
            return list(found)

        peak = self._cursor.read(rows, monotonic, wall).of(_WHOLE)
        return peak if isinstance(peak, Unknown) else self._hole or peak


def _hole(stamps: list[int], seen: int, passed: float) -> Unknown | None:
    """Whether the stamps leave out a part of the `passed` seconds since the sample `seen`, in microseconds."""
    newer = sorted(stamp for stamp in stamps if stamp > seen)
    times = [seen, *newer, seen + round(passed * 1e6)]
    if any(later - earlier > _LONGEST_BETWEEN for earlier, later in pairwise(times)):
        return Unknown(Why.NOT_AVAILABLE, "the driver has no samples for a part of the time")
    return None
