"""Several sources as one: what is there is joined, what fails is a gap, what is not installed is silent."""

from __future__ import annotations

from pathlib import Path

from jupyter_gpu_guard.core.model import Device, Gap, GpuClient
from jupyter_gpu_guard.protocols import DevicesSeen
from jupyter_gpu_guard.sources.drm import DrmDevices
from jupyter_gpu_guard.sources.several import SeveralDevices
from jupyter_gpu_guard.sources.simulated import SimulatedDevices, prepare


class FakeSource:
    """Shows what it is told to, or raises it."""

    def __init__(self, *answers: DevicesSeen | Exception, simulated: bool = False) -> None:
        self.simulated = simulated
        self.closed = 0
        self._answers = list(answers)

    def read(self) -> DevicesSeen:
        """The next answer; the last one stays."""
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Count it."""
        self.closed += 1


def shown(*uuids: str) -> DevicesSeen:
    """Devices with one process on each."""
    return DevicesSeen(
        tuple(Device(uuid, index, "GPU", 1.0, 0.0) for index, uuid in enumerate(uuids)),
        tuple(GpuClient(uuid, 7, 1.0, 0.0) for uuid in uuids),
    )


def failed(why: str) -> DevicesSeen:
    """Nothing, and why."""
    return DevicesSeen(gaps=(Gap("devices", why),))


def here() -> bool:
    """Its kind of device is here, whatever it shows."""
    return True


def absent() -> bool:
    """There is no sign of its kind of device."""
    return False


def test_devices_are_joined_and_counted_through() -> None:
    """Each keeps its name; the numbers people see are not used twice."""
    several = SeveralDevices((FakeSource(shown("a", "b")), absent), (FakeSource(shown("c")), absent))
    seen = several.read()
    assert [(device.uuid, device.index) for device in seen.devices] == [("a", 0), ("b", 1), ("c", 2)]
    assert [client.device for client in seen.clients] == ["a", "b", "c"]
    assert seen.gaps == ()


def test_a_source_without_devices_is_silent_beside_one_that_has_some() -> None:
    """A driver that is not installed hides nobody."""
    several = SeveralDevices((FakeSource(failed("no driver")), absent), (FakeSource(shown("c")), absent))
    assert several.read().gaps == ()
    assert [device.index for device in several.read().devices] == [0]


def test_a_driver_that_is_here_and_cannot_be_asked_is_a_gap() -> None:
    """Somebody may compute on what it does not show."""
    several = SeveralDevices((FakeSource(failed("mismatch")), here), (FakeSource(shown("c")), absent))
    seen = several.read()
    assert [gap.why for gap in seen.gaps] == ["mismatch"]
    assert [device.uuid for device in seen.devices] == ["c"]


def test_a_driver_that_has_worked_is_missed() -> None:
    """What it showed once may still be in use; and the numbers of the others stay."""
    first = FakeSource(shown("a", "b"), failed("gone"))
    several = SeveralDevices((first, absent), (FakeSource(shown("c")), absent))
    several.read()
    seen = several.read()
    assert [gap.why for gap in seen.gaps] == ["gone"]
    assert [(device.uuid, device.index) for device in seen.devices] == [("c", 2)]


def test_a_source_that_raises_is_a_gap_of_its_own() -> None:
    """The others are read all the same."""
    several = SeveralDevices((FakeSource(OSError("broken")), here), (FakeSource(shown("c")), absent))
    seen = several.read()
    assert [gap.source for gap in seen.gaps] == ["devices"]
    assert "broken" in seen.gaps[0].why
    assert [device.uuid for device in seen.devices] == ["c"]


def test_where_nobody_has_anything_the_first_says_why() -> None:
    """One sentence, and not one for each kind of device that there might be."""
    several = SeveralDevices((FakeSource(failed("one")), absent), (FakeSource(failed("two")), absent))
    assert [gap.why for gap in several.read().gaps] == ["one"]


def test_simulated_is_said_if_any_is(tmp_path: Path) -> None:
    """Real sources together: made-up devices beside a machine without any."""
    prepare(tmp_path / "simulated")
    (tmp_path / "proc").mkdir()
    several = SeveralDevices(
        (DrmDevices(proc=tmp_path / "proc", sys=tmp_path / "sys"), absent),
        (SimulatedDevices(tmp_path / "simulated"), absent),
    )
    assert several.simulated
    seen = several.read()
    assert [device.index for device in seen.devices] == [0, 1]
    assert seen.gaps == ()
    assert not SeveralDevices((FakeSource(shown("a")), absent)).simulated


def test_closing_closes_all() -> None:
    """Each of them, and twice is safe."""
    sources = [FakeSource(shown("a")), FakeSource(shown("b"))]
    several = SeveralDevices(*((source, absent) for source in sources))
    several.close()
    several.close()
    assert [source.closed for source in sources] == [2, 2]
