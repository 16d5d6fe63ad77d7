"""The figures of one device as a whole: memory, temperature, power, and how busy it is at the moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.model import Reading, Unknown, Why

if TYPE_CHECKING:
    from .nvml_library import NvmlLibrary

_WITH_RESERVED = 0x02000028  # the version of the structure that tells reserved memory from used memory

# What no device can have: a driver that says more says nothing.
MOST_BYTES = 2**50
_MOST_PERCENT = 100
_MOST_WATTS = 100_000
_COLDEST, _HOTTEST = -100, 200  # degrees Celsius


class Figures:
    """Asks for them by the handle of a device or of a MIG instance."""

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library

    def memory(self, handle: Any) -> tuple[Reading, Reading, Reading]:
        """Bytes in all, used, and kept by the driver."""
        memory = self._library.ask("nvmlDeviceGetMemoryInfo", handle, _WITH_RESERVED, form="reserved")
        if isinstance(memory, Unknown) and memory.why is Why.NOT_SUPPORTED:
            memory = self._library.ask("nvmlDeviceGetMemoryInfo", handle)
        if isinstance(memory, Unknown):
            return memory, memory, memory
        reserved = getattr(memory, "reserved", 0)
        wrong = None
        if not 0 < memory.total <= MOST_BYTES:
            wrong = Unknown(Why.IMPLAUSIBLE, f"the driver says that the device has {memory.total} bytes")
        elif memory.used > memory.total or reserved > memory.total:
            wrong = Unknown(Why.IMPLAUSIBLE, "the driver says that more is used than there is")
        return (wrong, wrong, wrong) if wrong else (memory.total, memory.used, reserved)

    def utilization(self, handle: Any) -> Reading:
        """Percent of the last second or less in which anything computed."""
        rates = self._library.ask("nvmlDeviceGetUtilizationRates", handle)
        return rates if isinstance(rates, Unknown) else _scaled(rates.gpu, 1, _MOST_PERCENT)

    def temperature(self, handle: Any) -> Reading:
        """Degrees Celsius."""
        # The older call is in every driver but will leave `pynvml`; the newer one is the other way round.
        sensor = 0  # the die
        old = "nvmlDeviceGetTemperature"
        name = old if self._library.offers(old) else f"{old}V"
        return _scaled(self._library.ask(name, handle, sensor), 1, _HOTTEST, _COLDEST)

    def power(self, handle: Any) -> Reading:
        """Watts."""
        return _scaled(self._library.ask("nvmlDeviceGetPowerUsage", handle), 1000, _MOST_WATTS)


def _scaled(answer: Any, per_unit: int, most: float, least: float = 0) -> Reading:
    if isinstance(answer, Unknown):
        return answer
    value = float(answer / per_unit)
    return value if least <= value <= most else Unknown(Why.IMPLAUSIBLE, f"the driver says {value:g}")
