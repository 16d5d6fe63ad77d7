"""AMD and Intel devices from checked-in /proc and /sys trees, whose counters a test moves on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from fake_tree import FakeTree

from jupyter_gpu_guard.core.model import DeviceState, GpuClient, Unknown, Why, is_known
from jupyter_gpu_guard.protocols import DevicesSeen
from jupyter_gpu_guard.sources.drm import DrmDevices

GIB = 2.0**30
MIB = 2**20
FIRST, SECOND = "AMD-7d4a1b2c3e5f6071", "AMD-7d4a1b2c3e5f6099"
RADEON, SLEEPER = "DRM-0000:0b:00.0", "DRM-0000:2d:00.0"
ARC, FLEX, INTEGRATED = "DRM-0000:03:00.0", "DRM-0000:4d:00.0", "DRM-0000:00:02.0"


class Machine:
    """A tree with a clock, and the devices in it."""

    def __init__(self, folder: Path, name: str, *, namespaced: bool = False, uid: int | None = None) -> None:
        self.tree = FakeTree(folder / name, name)
        self.now = 1000.0
        names = folder / "pci.ids"
        names.write_text("# a list\n1002  AMD/ATI\n\t744c  Navi 31 [Radeon RX 7900]\n8086  Intel\n\te20b  Arc B580\n")
        self.devices = DrmDevices(
            lambda: self.now,
            proc=self.tree.proc,
            sys=self.tree.sys,
            namespaced=namespaced,
            uid=uid,
            pci_names=[folder / "missing", names],
        )

    def after(self, seconds: float = 10.0) -> DevicesSeen:
        """The reading so many seconds later."""
        self.now += seconds
        return self.devices.read()


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., Machine]:
    """Makes a machine from a tree."""
    return lambda name, **kinds: Machine(tmp_path, name, **kinds)


def client(seen: DevicesSeen, pid: int, device: str) -> GpuClient:
    """The row of `pid` on `device`."""
    (found,) = [row for row in seen.clients if (row.pid, row.device) == (pid, device)]
    return found


def why(reading: object) -> Why:
    """Why it is not known."""
    assert isinstance(reading, Unknown)
    return reading.why


# ---- devices ----


def test_amd_devices_say_what_they_have(machine) -> None:
    """By the number burnt into them; memory in bytes, compute in percent, degrees and watts."""
    seen = machine("rocm").after()
    one, other = seen.devices
    assert (one.uuid, one.index, one.name) == (FIRST, 0, "AMD Instinct MI250X")
    assert (one.memory_total, one.memory_used, one.compute) == (64 * GIB, 12 * GIB, 87)
    assert (one.temperature, one.power, one.state) == (54, 311, DeviceState.OK)
    assert (other.uuid, other.index) == (SECOND, 1)
    assert seen.gaps == ()


def test_a_device_without_a_number_is_named_by_its_place_and_one_of_another_maker_is_not_ours(machine) -> None:
    """The address on the bus stays the same, the number of the card does not; the model's name is the system's."""
    devices = machine("radeon").after().devices
    assert [device.uuid for device in devices] == [RADEON, SLEEPER]
    assert devices[0].name == "AMD Navi 31 [Radeon RX 7900]"
    assert devices[1].name == "AMD GPU 1002:7480"
    assert devices[0].power == 93


def test_a_process_with_more_memory_than_there_is_is_implausible(machine) -> None:
    """Its memory is not believed; others' is."""
    nodes = machine("rocm")
    nodes.tree.write("sys/class/kfd/kfd/proc/4242/vram_51545", f"{2**40}\n")
    seen = nodes.after()
    assert why(client(seen, 4242, FIRST).memory) is Why.IMPLAUSIBLE
    assert client(seen, 4300, FIRST).memory == 4 * GIB


def test_two_devices_never_share_a_name(machine) -> None:
    """Where a maker gave two cards one number, the second is named by its place."""
    radeons = machine("radeon")
    for card in (0, 1):
        radeons.tree.write(f"sys/class/drm/card{card}/device/unique_id", "77\n")
    assert [device.uuid for device in radeons.after().devices] == ["AMD-77", SLEEPER]


def test_a_sleeping_device_is_not_read(machine) -> None:
    """Neither its sensors nor its clients: all is unknown, and says that it sleeps. Awake, it is read."""
    radeons = machine("radeon")
    radeons.tree.write("proc/500/fdinfo/9", "drm-driver:\tamdgpu\n" + "x" * 9)
    seen = radeons.after()
    sleeper = seen.devices[1]
    assert sleeper.state is DeviceState.SUSPENDED
    readings = (
        sleeper.memory_total,
        sleeper.memory_used,
        sleeper.compute,
        sleeper.temperature,
        sleeper.power,
    )
    assert {why(reading) for reading in readings} == {Why.SUSPENDED}
    assert SLEEPER not in {row.device for row in seen.clients}
    radeons.tree.write("sys/class/drm/card1/device/power/runtime_status", "active\n")
    awake = radeons.after()
    assert awake.devices[1].memory_total == 8 * GIB
    assert SLEEPER in {row.device for row in awake.clients}


def test_what_a_driver_does_not_offer_is_unknown(machine) -> None:
    """Intel does not say how much is used in all; what nobody says is not 0."""
    arc, flex = machine("intel").after().devices
    assert (arc.uuid, arc.name, arc.memory_total, arc.temperature) == (ARC, "Intel Arc B580", 12 * GIB, 51)
    for reading in (arc.memory_used, arc.compute, arc.power, flex.memory_total, flex.temperature):
        assert why(reading) is Why.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", Why.IMPLAUSIBLE), ("many\n", Why.IMPLAUSIBLE), ("101\n", Why.IMPLAUSIBLE), ("9" * 5000, Why.IMPLAUSIBLE)],
)
def test_nonsense_of_a_sensor_is_unknown(machine, text: str, reason: Why) -> None:
    """It makes nothing else unknown."""
    nodes = machine("rocm")
    nodes.tree.write("sys/class/drm/card0/device/gpu_busy_percent", text)
    device = nodes.after().devices[0]
    assert why(device.compute) is reason
    assert device.memory_used == 12 * GIB


def test_more_used_than_there_is_is_implausible(machine) -> None:
    """Then neither figure is believed."""
    nodes = machine("rocm")
    nodes.tree.write("sys/class/drm/card0/device/mem_info_vram_used", f"{2**50}\n")
    device = nodes.after().devices[0]
    assert why(device.memory_used) is why(device.memory_total) is Why.IMPLAUSIBLE


def test_what_is_in_the_processor_is_shown_only_in_use(machine) -> None:
    """Each workstation has one, and hardly anybody computes on it."""
    intel = machine("intel")
    assert INTEGRATED not in {device.uuid for device in intel.after().devices}
    intel.tree.link("proc/2000/fd/9", "/dev/dri/card0")
    intel.tree.write(
        "proc/2000/fdinfo/9",
        "drm-driver:\ti915\ndrm-client-id:\t3\ndrm-pdev:\t0000:00:02.0\ndrm-resident-system0:\t81920 KiB\n"
        "drm-engine-render:\t0 ns\n",
    )
    seen = intel.after()
    assert seen.devices[0].uuid == INTEGRATED
    assert client(seen, 2000, INTEGRATED).memory == 80 * MIB


def test_no_nonsense_leaves_the_source(tmp_path: Path) -> None:
    """Whatever stands in any file: no exception, and each reading is Unknown or a number that can be."""
    random = Random(7)
    junk = ["", "\0", "-1", "9" * 400, "0x10", "drm-driver:", "nan", "\n" * 9, "٣", "drm-engine-gfx:\t1 ns", "1e9"]
    for number in range(300):
        name = random.choice(["rocm", "radeon", "intel"])
        nonsense = Machine(tmp_path / str(number), name)
        files = sorted(file for file in nonsense.tree.proc.parent.rglob("*") if file.is_file())
        for _ in range(2):
            for file in random.sample(files, 6):
                text = file.read_text(encoding="utf-8")
                cut = random.randrange(len(text) + 1)
                file.write_text(random.choice([text[:cut], random.choice(junk), text[:cut] + random.choice(junk)]))
            seen = nonsense.after(random.choice([0, 5, 60]))
            readings = [
                r for row in seen.clients for r in (row.memory, row.compute / 100 if is_known(row.compute) else 0)
            ]
            readings += [r for row in seen.devices for r in (row.memory_total, row.memory_used, row.power)]
            assert [reading for reading in readings if is_known(reading) and not 0 <= reading < 2**64] == []
            assert all(not is_known(row.compute) or row.compute <= 100 for row in (*seen.devices, *seen.clients))
            assert len({device.uuid for device in seen.devices}) == len(seen.devices)


def test_no_such_device_is_one_sentence(tmp_path: Path) -> None:
    """Without /sys/class/drm, and with nothing in it for us."""
    (tmp_path / "proc").mkdir()
    devices = DrmDevices(proc=tmp_path / "proc", sys=tmp_path / "sys")
    for _ in range(2):
        seen = devices.read()
        assert (seen.devices, seen.clients) == ((), ())
        assert [gap.source for gap in seen.gaps] == ["devices"]
        (tmp_path / "sys/class/drm/card0/device").mkdir(parents=True, exist_ok=True)
    devices.close()
    devices.close()


def test_a_process_table_that_cannot_be_read_is_a_gap(machine) -> None:
    """Not an empty machine; and the next reading is a first one again."""
    radeons = machine("radeon")
    radeons.after()
    hidden = radeons.tree.proc.rename(radeons.tree.proc.with_name("hidden"))
    seen = radeons.after()
    assert seen.clients == ()
    assert [gap.source for gap in seen.gaps] == ["devices"]
    hidden.rename(radeons.tree.proc)
    assert why(client(radeons.after(), 500, RADEON).compute) is Why.FIRST_READING


# ---- clients ----


def test_a_client_is_counted_once_and_belongs_to_whoever_lived_longest(machine) -> None:
    """Not once for each duplicate, nor for the child that inherited it, whichever pid is lower."""
    seen = machine("radeon").after()
    assert [(row.pid, row.device) for row in seen.clients] == [(500, RADEON)]
    assert seen.clients[0].memory == 3 * GIB


def test_what_was_inherited_passes_to_the_child(machine) -> None:
    """When the elder ends, the younger holds it still."""
    radeons = machine("radeon")
    radeons.after()
    radeons.tree.end(500)
    assert client(radeons.after(), 300, RADEON).memory == 2 * GIB


def test_the_first_reading_knows_no_compute(machine) -> None:
    """A mean needs two readings."""
    seen = machine("radeon").after()
    assert why(client(seen, 500, RADEON).compute) is Why.FIRST_READING


def test_compute_is_exact_over_any_interval(machine) -> None:
    """The busiest engine counts; idle is an explicit 0."""
    radeons = machine("radeon")
    radeons.after()
    assert client(radeons.after(), 500, RADEON).compute == 0
    radeons.tree.set(500, "drm-engine-gfx", "12500000000 ns")
    radeons.tree.set(500, "drm-engine-compute", "600000000 ns")
    assert client(radeons.after(10), 500, RADEON).compute == pytest.approx(35)
    radeons.tree.set(500, "drm-engine-gfx", "12800000000 ns")
    assert client(radeons.after(0.5), 500, RADEON).compute == pytest.approx(60)


def test_the_first_work_of_an_engine_counts(machine) -> None:
    """AMD's driver names an engine only once it has worked."""
    radeons = machine("radeon")
    radeons.after()
    radeons.tree.set(500, "drm-engine-jpeg", "1000000000 ns")
    assert client(radeons.after(), 500, RADEON).compute == pytest.approx(20)  # both clients have it


def test_cycles_count_by_the_clock_of_the_engine(machine) -> None:
    """And are shared out over the engines behind one name."""
    intel = machine("intel")
    intel.after()
    intel.tree.set(2000, "drm-cycles-ccs", f"{1_000_000 + 800}")
    intel.tree.set(2000, "drm-total-cycles-ccs", f"{7655183225 + 1000}")
    for engine in ("rcs", "bcs", "vcs", "vecs"):
        intel.tree.set(2000, f"drm-total-cycles-{engine}", f"{7655183225 + 1000}")
    seen = intel.after()
    assert client(seen, 2000, ARC).compute == pytest.approx(20)
    assert client(seen, 2000, ARC).memory == 3 * GIB
    assert client(seen, 2001, FLEX).compute == 0
    assert client(seen, 2001, FLEX).memory == GIB / 2


def test_a_counter_that_runs_backwards_is_implausible(machine) -> None:
    """For that interval; the next one is measured from there."""
    radeons = machine("radeon")
    radeons.after()
    radeons.tree.set(500, "drm-engine-gfx", "8000000000 ns")
    assert why(client(radeons.after(), 500, RADEON).compute) is Why.IMPLAUSIBLE
    radeons.tree.set(500, "drm-engine-gfx", "9000000000 ns")
    assert client(radeons.after(), 500, RADEON).compute == pytest.approx(10)


def test_a_client_that_was_closed_takes_its_counters_along(machine) -> None:
    """What it worked before that is not known; afterwards the rest is measured again."""
    radeons = machine("radeon")
    radeons.after()
    radeons.tree.close(500, 8)
    seen = radeons.after()
    assert why(client(seen, 500, RADEON).compute) is Why.NOT_AVAILABLE
    assert client(seen, 500, RADEON).memory == 2 * GIB
    assert client(radeons.after(), 500, RADEON).compute == 0


def test_a_client_opened_since_has_worked_all_it_has_worked_since(machine) -> None:
    """A process that is known opens another one: nothing of its work is lost."""
    radeons = machine("radeon")
    radeons.after()
    text = radeons.tree.read("proc/500/fdinfo/8").replace("drm-client-id:\t18", "drm-client-id:\t19")
    radeons.tree.write("proc/500/fdinfo/11", text.replace("500000000 ns", "4000000000 ns"))
    radeons.tree.link("proc/500/fd/11", "/dev/dri/renderD128")
    seen = client(radeons.after(), 500, RADEON)
    assert seen.compute == pytest.approx(40)
    assert seen.memory == 4 * GIB


def test_a_kernel_that_does_not_number_clients_measures_nothing(machine) -> None:
    """Memory is known; compute is not, since a duplicate cannot be told from another client."""
    radeons = machine("radeon")
    for descriptor in (3, 4, 8):
        path = f"proc/500/fdinfo/{descriptor}"
        text = radeons.tree.read(path)
        radeons.tree.write(path, "".join(line for line in text.splitlines(keepends=True) if "client-id" not in line))
    radeons.after()
    assert why(client(radeons.after(), 500, RADEON).compute) is Why.NOT_SUPPORTED


def test_a_driver_without_counters_is_unknown_and_not_idle(machine) -> None:
    """Old Intel devices have none."""
    intel = machine("intel")
    path = "proc/2001/fdinfo/4"
    text = intel.tree.read(path)
    intel.tree.write(path, "".join(line for line in text.splitlines(keepends=True) if "drm-engine" not in line))
    intel.after()
    assert why(client(intel.after(), 2001, FLEX).compute) is Why.NOT_SUPPORTED


def test_a_reused_pid_inherits_nothing(machine) -> None:
    """Another process under the same number starts with a first reading."""
    radeons = machine("radeon")
    radeons.after()
    radeons.tree.write("proc/500/stat", radeons.tree.read("proc/500/stat").replace(" 5000 ", " 5999 "))
    assert why(client(radeons.after(), 500, RADEON).compute) is Why.FIRST_READING


# ---- who is looked into ----


def test_only_processes_of_this_user_are_looked_into(machine) -> None:
    """All others are absent; what they hold is part of what the device says."""
    seen = machine("radeon", uid=os.geteuid() + 1).after()
    assert seen.clients == ()
    assert seen.devices[0].memory_used == 5 * GIB


def test_a_new_process_is_seen_at_once_and_an_old_one_within_half_a_minute(machine) -> None:
    """A notebook that imports its library long after it started is found by itself."""
    radeons = machine("radeon")
    radeons.after()
    text = radeons.tree.read("proc/500/fdinfo/8").replace("drm-client-id:\t18", "drm-client-id:\t{}")
    radeons.tree.write("proc/700/fdinfo/4", text.format(70))
    radeons.tree.link("proc/700/fd/4", "/dev/dri/renderD128")
    radeons.tree.write("proc/800/stat", radeons.tree.read("proc/700/stat").replace("700", "800"))
    radeons.tree.write("proc/800/fdinfo/4", text.format(80))
    radeons.tree.link("proc/800/fd/4", "/dev/dri/renderD128")
    assert {row.pid for row in radeons.after(5).clients} == {500, 800}
    assert {row.pid for row in radeons.after(25).clients} == {500, 700, 800}


def test_a_process_that_ends_is_gone(machine) -> None:
    """With all that it held."""
    radeons = machine("radeon")
    radeons.after()
    radeons.tree.end(500)
    radeons.tree.end(300)
    assert radeons.after().clients == ()


# ---- ROCm ----


def occupy(nodes: Machine, pid: int, units: int) -> None:
    """Let the compute driver say that `pid` occupies so many compute units of the first device."""
    nodes.tree.write(f"sys/class/kfd/kfd/proc/{pid}/stats_51545/cu_occupancy", f"{units}\n")


def device_is_busy(nodes: Machine, percent: int) -> None:
    """Let the first device say how busy it is."""
    nodes.tree.write("sys/class/drm/card0/device/gpu_busy_percent", f"{percent}\n")


def test_work_through_the_compute_driver_is_seen(machine) -> None:
    """It is in no counter of the graphics driver. Memory is that of either driver, not of both."""
    nodes = machine("rocm")
    nodes.after()
    seen = nodes.after()
    assert client(seen, 4242, FIRST).compute == pytest.approx(50)
    assert client(seen, 4242, FIRST).memory == 6 * GIB + MIB
    assert client(seen, 4242, FIRST).type == "C+G"
    assert client(seen, 4300, FIRST).compute == 0


def test_processes_of_others_are_listed_by_the_compute_driver(machine) -> None:
    """It names everybody; who has nothing on a device is not on it."""
    seen = machine("rocm").after()
    assert client(seen, 9001, FIRST).memory == GIB
    assert {row.pid for row in seen.clients if row.device == SECOND} == {4242, 4300}
    assert 9002 not in {row.pid for row in seen.clients}


def test_a_busy_device_without_anybody_makes_a_zero_unknown(machine) -> None:
    """A look at one moment is no proof: 0 counts if the device is idle too, or works for somebody else."""
    nodes = machine("rocm")
    occupy(nodes, 4242, 0)
    nodes.after()
    assert why(client(nodes.after(), 4242, FIRST).compute) is Why.NOT_AVAILABLE
    device_is_busy(nodes, 0)
    assert client(nodes.after(), 4242, FIRST).compute == 0
    device_is_busy(nodes, 90)
    occupy(nodes, 4300, 110)
    seen = nodes.after()
    assert client(seen, 4242, FIRST).compute == 0
    assert client(seen, 4300, FIRST).compute == 100


def test_a_device_that_does_not_say_how_busy_it_is_proves_nothing(machine) -> None:
    """Two witnesses are wanted, and here is one."""
    nodes = machine("rocm")
    occupy(nodes, 4242, 0)
    (nodes.tree.sys / "class/drm/card0/device/gpu_busy_percent").unlink()
    nodes.after()
    assert why(client(nodes.after(), 4242, FIRST).compute) is Why.NOT_AVAILABLE


def test_compute_that_is_not_measured_is_never_zero(machine) -> None:
    """Many models do not count their units: memory is known, compute is not."""
    nodes = machine("rocm")
    (nodes.tree.sys / "class/kfd/kfd/proc/4242/stats_51545/cu_occupancy").unlink()
    nodes.after()
    row = client(nodes.after(), 4242, FIRST)
    assert why(row.compute) is Why.NOT_SUPPORTED
    assert row.memory == 6 * GIB + MIB


def test_without_a_queue_nothing_is_computed(machine) -> None:
    """However busy the device is: ROCm opens all devices, and uses the one."""
    nodes = machine("rocm")
    nodes.tree.write("sys/class/drm/card1/device/gpu_busy_percent", "100\n")
    nodes.after()
    assert client(nodes.after(), 4242, SECOND).compute == 0


def test_in_a_container_the_compute_driver_speaks_of_others(machine) -> None:
    """Its pids are the host's: who has it open here has a compute that is not known, and memory that is."""
    nodes = machine("rocm", namespaced=True)
    nodes.after()
    seen = nodes.after()
    assert {row.pid for row in seen.clients} == {4242, 4300}
    assert why(client(seen, 4242, FIRST).compute) is Why.PIDS_HIDDEN
    assert client(seen, 4242, FIRST).memory == 6 * GIB + MIB


def test_a_partitioned_device_is_one_device(machine) -> None:
    """Its parts have numbers of their own and the place of the whole: memory adds up, units count by their number."""
    nodes = machine("rocm")
    parts = "sys/class/kfd/kfd"
    nodes.tree.write(f"{parts}/topology/nodes/3/gpu_id", "777\n")
    nodes.tree.write(
        f"{parts}/topology/nodes/3/properties",
        f"simd_count 440\nsimd_per_cu 4\nlocation_id {0xC101}\ndomain 0\ndrm_render_minor 140\n",
    )
    nodes.tree.write(f"{parts}/proc/4242/vram_777", f"{2**30}\n")
    nodes.tree.write(f"{parts}/proc/4242/stats_777/cu_occupancy", "0\n")
    nodes.tree.write(f"{parts}/proc/4242/queues/1/gpuid", "777\n")
    nodes.after()
    row = client(nodes.after(), 4242, FIRST)
    assert row.memory == 7 * GIB
    assert row.compute == pytest.approx(25)
