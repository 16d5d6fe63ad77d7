"""The doctor: each thing that can be wrong is found, named in a sentence, and comes with a remedy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jupyter_core.paths
import jupyter_server.serverapp  # noqa: F401 - before its paths are changed by a test
import jupyterlab_server.config  # noqa: F401
import pytest
from click.testing import CliRunner

from jupyter_gpu_guard import doctor
from jupyter_gpu_guard.cli import main
from jupyter_gpu_guard.core.model import Device, Gap, GpuClient, Reading, Unknown, Why
from jupyter_gpu_guard.doctor import Finding, Level, examine
from jupyter_gpu_guard.protocols import DevicesSeen
from tests.driver import GpuProgram, StandIn
from tests.driver.container import Container, can_be_made


class FakeDevices:
    """Devices that answer each reading with the next of these."""

    simulated = False

    def __init__(self, *answers: DevicesSeen) -> None:
        self._answers = list(answers)
        self.closed = False

    def read(self) -> DevicesSeen:
        """The next answer; the last one again and again."""
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def close(self) -> None:
        """Remember it."""
        self.closed = True


CARD = Device("GPU-0", 0, "H100", memory_total=80.0, memory_used=1.0)


def seen(*readings: tuple[Reading, Reading], gaps: tuple[Gap, ...] = (), card: Device = CARD) -> DevicesSeen:
    """One card with a client for each pair of memory and compute."""
    clients = tuple(GpuClient("GPU-0", 100 + n, memory, compute) for n, (memory, compute) in enumerate(readings))
    return DevicesSeen((card,), clients, gaps)


def levels(findings: list[Finding]) -> list[Level]:
    """How grave each of them is."""
    return [finding.level for finding in findings]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "BETWEEN_READINGS", 0)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Jupyter with nothing in its configuration, data and runtime folders but what the test puts there."""
    for name in ("CONFIG", "DATA", "RUNTIME"):
        (tmp_path / name.lower()).mkdir()
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    for name in ("ENV_CONFIG_PATH", "SYSTEM_CONFIG_PATH", "ENV_JUPYTER_PATH", "SYSTEM_JUPYTER_PATH"):
        monkeypatch.setattr(jupyter_core.paths, name, [])
    return tmp_path


# ---- the machine ----


def test_a_machine_without_a_gpu_is_no_problem(tmp_path: Path) -> None:
    """No device files and no driver: notes, and the way to the demo."""
    (files,) = doctor.device_files(tmp_path)
    assert files.level is Level.NOTE
    silent = FakeDevices(DevicesSeen(gaps=(Gap("devices", "No NVIDIA driver here: install it."),)))
    findings = list(doctor.devices(silent, expected=False))
    assert levels(findings) == [Level.NOTE, Level.NOTE]
    assert findings[0].says == "No NVIDIA driver here: install it."
    assert "jupyter gpu-guard demo" in findings[1].says
    assert silent.closed


def test_a_driver_that_should_answer_and_does_not_is_a_problem() -> None:
    """Where its device files are, the gap's own sentence is the problem."""
    silent = FakeDevices(DevicesSeen(gaps=(Gap("devices", "Versions differ: reboot."),)))
    (finding,) = doctor.devices(silent, expected=True)
    assert (finding.level, finding.says) == (Level.PROBLEM, "Versions differ: reboot.")


def test_device_files_that_this_user_may_not_use_are_named(tmp_path: Path) -> None:
    """A dangling link stands for a file that may not be opened, also by root."""
    (tmp_path / "nvidiactl").touch()
    (tmp_path / "nvidia-caps").mkdir()
    (fine,) = doctor.device_files(tmp_path)
    assert (fine.level, fine.says) == (Level.OK, f"1 in {tmp_path}, all usable by this user.")
    (tmp_path / "nvidia0").symlink_to(tmp_path / "nowhere")
    (refused,) = doctor.device_files(tmp_path)
    assert refused.level is Level.PROBLEM
    assert f"may not use nvidia0 in {tmp_path}" in refused.says
    assert refused.remedy


def test_devices_and_processes_that_can_be_read() -> None:
    """The first reading has no rates yet; the second one counts."""
    first = seen((1.0, Unknown(Why.FIRST_READING)))
    findings = list(doctor.devices(FakeDevices(first, seen((1.0, 5.0))), expected=True))
    assert levels(findings) == [Level.OK, Level.OK]
    assert "with 1 (0: H100)." in findings[0].says
    assert findings[1].says == "Memory and compute of 1 can be read."


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ((), "No process uses a GPU now"),
        (((1.0, Unknown(Why.NO_PERMISSION)),), "The driver keeps the use of single processes from this user."),
        (
            ((1.0, 2.0), (Unknown(Why.PIDS_HIDDEN), Unknown(Why.PIDS_HIDDEN))),
            "can be read for 1 of 2; for the others: pids hidden. What is not known never counts as idle.",
        ),
    ],
)
def test_what_cannot_be_read_of_processes_is_a_note(readings: tuple, expected: str) -> None:
    """Why, and that it never counts as idle."""
    finding = list(doctor.devices(FakeDevices(seen(*readings)), expected=True))[-1]
    assert finding.level is Level.NOTE
    assert expected in finding.says


def test_a_divided_device_is_noted() -> None:
    """MIG: compute of single processes is unknown there."""
    card = Device("GPU-0", 0, "H100", memory_total=80.0, memory_used=1.0, mig=True)
    assert any("divided (MIG)" in finding.says for finding in doctor.devices(FakeDevices(seen(card=card))))


def test_a_driver_that_hangs_does_not_hang_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left behind after a while, and is a problem."""

    class FakeHangingDevices(FakeDevices):
        def read(self) -> DevicesSeen:
            time.sleep(1)
            return seen()

    monkeypatch.setattr(doctor, "DRIVER_SECONDS", 0.01)
    (finding,) = doctor.devices(FakeHangingDevices(seen()))
    assert finding.level is Level.PROBLEM
    assert "did not answer within 0.01 s" in finding.says


def test_the_drivers_version_is_read_from_its_module(tmp_path: Path) -> None:
    """Open and closed modules write different lines; none loaded is None."""
    assert doctor.driver_version(tmp_path) is None
    for line in (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC 12.2.0\n",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.183.01  Release Build\n",
    ):
        (tmp_path / "version").write_text(line)
        assert doctor.driver_version(tmp_path) == "535.183.01"


def test_the_pid_namespace_and_what_follows(tmp_path: Path) -> None:
    """The machine's own, one of a container, and a /proc that does not say."""
    (unsaid,) = doctor.pid_namespace(tmp_path)
    assert unsaid.level is Level.NOTE
    link = tmp_path / "self" / "ns" / "pid"
    link.parent.mkdir(parents=True)
    link.symlink_to("pid:[4026531836]")
    (own,) = doctor.pid_namespace(tmp_path)
    assert own.level is Level.OK
    link.unlink()
    link.symlink_to("pid:[4026532000]")
    (container,) = doctor.pid_namespace(tmp_path)
    assert container.level is Level.NOTE
    assert "570" in container.remedy


# ---- the packages ----


def test_the_driver_package_is_recognised_without_importing_it(tmp_path: Path) -> None:
    """Ours is fine; another module of its name, earlier on the path, is named with its place."""
    code = (
        "import sys\nfrom jupyter_gpu_guard.doctor import driver_package\n"
        "(finding,) = driver_package()\nassert 'pynvml' not in sys.modules\nprint(finding.level.value, finding.says)"
    )
    (tmp_path / "pynvml.py").write_text("raise SystemError('imported')")
    for path, expected in (("", "ok nvidia-ml-py "), (str(tmp_path), "problem Another pynvml hides")):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [path, *sys.path]))}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.startswith(expected)
        assert (str(tmp_path) in done.stdout) is bool(path)


def test_a_missing_driver_package_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""

    def absent(name: str) -> None:
        raise doctor.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "distribution", absent)
    (finding,) = doctor.driver_package()
    assert (finding.level, finding.remedy) == (Level.PROBLEM, "pip install nvidia-ml-py")


def test_missing_and_old_jupyter_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing is a note, since a server needs no front end beside it; too old is a problem."""
    versions = {"jupyter_server": "2.4.0", "jupyterlab": "3.6.8"}

    def version(name: str) -> str:
        if name not in versions:
            raise doctor.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(doctor.metadata, "version", version)
    findings = list(doctor.jupyter())
    assert levels(findings) == [Level.OK, Level.PROBLEM, Level.NOTE]
    assert findings[1].remedy == "pip install 'jupyterlab>=4'"


# ---- Jupyter's configuration ----


@pytest.mark.parametrize(
    ("setting", "level", "expected"),
    [
        ({}, Level.PROBLEM, "No configuration of this environment mentions it."),
        ({"jupyter_gpu_guard": False}, Level.PROBLEM, "It is switched off."),
        ({"jupyter_gpu_guard": True}, Level.OK, "Enabled."),
    ],
)
def test_the_server_extension_as_configured(alone: Path, setting: dict[str, bool], level: Level, expected: str) -> None:
    """Not mentioned, switched off, on; where it is not on, the command that switches it on."""
    content = {"ServerApp": {"jpserver_extensions": setting}}
    (alone / "config" / "jupyter_server_config.json").write_text(json.dumps(content))
    (finding,) = doctor.server_extension()
    assert (finding.level, finding.says) == (level, expected)
    assert finding.remedy == ("" if level is Level.OK else "jupyter server extension enable jupyter_gpu_guard")


def test_a_server_extension_that_cannot_be_loaded(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enabled, and its import fails: a problem with the error's own words."""
    monkeypatch.setattr(doctor, "EXTENSION", "jupyter_gpu_guard_that_is_not_there")
    content = {"ServerApp": {"jpserver_extensions": {"jupyter_gpu_guard_that_is_not_there": True}}}
    (alone / "config" / "jupyter_server_config.json").write_text(json.dumps(content))
    (finding,) = doctor.server_extension()
    assert finding.level is Level.PROBLEM
    assert "It is enabled and cannot be loaded (" in finding.says


def test_the_sidebar_missing_enabled_and_switched_off(alone: Path) -> None:
    """Missing is a problem; switched off is somebody's choice, and a note."""
    (missing,) = doctor.sidebar()
    assert missing.level is Level.PROBLEM
    folder = alone / "data" / "labextensions" / "jupyter-gpu-guard"
    folder.mkdir(parents=True)
    build = {"_build": {"load": "static/remoteEntry.js", "extension": "./extension"}}
    facts = {"name": "jupyter-gpu-guard", "version": "1.2.3", "jupyterlab": build}
    (folder / "package.json").write_text(json.dumps(facts))
    (enabled,) = doctor.sidebar()
    assert (enabled.level, enabled.says) == (Level.OK, "Version 1.2.3 is installed and enabled.")
    (labconfig := alone / "config" / "labconfig").mkdir()
    (labconfig / "page_config.json").write_text('{"disabledExtensions": {"jupyter-gpu-guard:plugin": true}}')
    (switched_off,) = doctor.sidebar()
    assert (switched_off.level, switched_off.says) == (Level.NOTE, "Version 1.2.3 is installed and switched off.")


def test_policy_files_are_checked(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None: a note. Fine: named with mode and digest. Broken: each problem with its place and remedy."""
    monkeypatch.setattr("jupyter_core.paths.SYSTEM_CONFIG_PATH", [str(alone / "config")])
    (none,) = doctor.policies()
    assert none.level is Level.NOTE
    folder = alone / "config" / "gpu-guard" / "policy.d"
    folder.mkdir(parents=True)
    path = folder / "a.yaml"
    path.write_text("version: 1\nmode: enforce\n")
    (fine,) = doctor.policies()
    assert fine.level is Level.OK
    assert fine.says.startswith(f"{path}: fine, mode enforce, rules: 1, ")
    path.write_text("version: 1\nmode: enforced\nx: 1\n")
    first, second = doctor.policies()
    assert (first.level, second.level) == (Level.PROBLEM, Level.PROBLEM)
    assert first.says == f"{path}:2:7: 'enforced' is not a mode."
    assert first.remedy == "did you mean 'enforce'?"


def test_no_running_server_is_a_note(alone: Path) -> None:
    """Nothing is wrong with that."""
    (finding,) = doctor.servers()
    assert (finding.level, finding.says) == (Level.NOTE, "No Jupyter server of yours is running here.")


# ---- the whole ----


def test_a_check_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch, alone: Path) -> None:
    """The other checks go on."""

    def fails() -> list[Finding]:
        raise RuntimeError("boom")

    monkeypatch.setattr(doctor, "pid_namespace", fails)
    findings = examine()
    (failed,) = [finding for finding in findings if "boom" in finding.says]
    assert (failed.check, failed.level) == ("process numbers", Level.PROBLEM)
    assert findings[-1].check == "running servers"


def test_the_command_shows_findings_and_ends_by_the_worst(alone: Path) -> None:
    """Status 1 with a problem, and 0 with notes alone; JSON says the same."""
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 1
    assert "problem  server extension: No configuration of this environment mentions it.\n" in result.output
    assert "\n         jupyter server extension enable jupyter_gpu_guard\n" in result.output
    result = CliRunner().invoke(main, ["doctor", "--json"])
    assert result.exit_code == 1
    answer = json.loads(result.output)
    assert answer["usable"] is False
    assert {"check": "system", "level": "ok", "says": answer["checks"][0]["says"], "remedy": ""} in answer["checks"]


def test_programs_with_a_gpu_open_are_named(tmp_path: Path) -> None:
    """Also those that no driver lists: by their device files, here a folder that stands for /dev, or by CUDA."""
    (tmp_path / "nvidia0").touch()
    code = f"import sys; file = open({str(tmp_path / 'nvidia0')!r}); print('open', flush=True); sys.stdin.readline()"
    started = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    program = GpuProgram(tmp_path)
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == b"open\n"
        assert program.run("") == "done"
        (finding,) = doctor.programs(tmp_path)
        assert f"{started.pid} (python" in finding.says
        assert f"{program.pid} (python" in finding.says
        assert f" {os.getpid()} (" not in finding.says
    finally:
        program.bury()
        started.communicate()


def test_an_installation_without_a_gpu_is_fine(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to measure here, but fine: status 0."""
    monkeypatch.setattr(doctor, "examine", lambda: (Finding("devices", Level.NOTE, "Nothing to measure here."),))
    result = CliRunner().invoke(main, ["doctor", "--json"])
    assert (result.exit_code, json.loads(result.output)["usable"]) == (0, True)


def test_a_driver_is_examined_through_the_guards_own_source(tmp_path: Path) -> None:
    """The real pynvml on the stand-in driver with a real process: devices, and that their processes can be read."""
    driver = StandIn(tmp_path)
    program = GpuProgram(tmp_path)
    try:
        assert program.run("gpu.hold('1 GiB'); gpu.compute(50, None)") == "done"
        assert examine_with(driver) == [
            ("devices", "ok", "Driver with 2 (0: Simulated H100 80GB, 1: Simulated H100 80GB)."),
            ("processes on devices", "ok", "Memory and compute of 1 can be read."),
        ]
        driver.fault("global init_error LIB_RM_VERSION_MISMATCH")
        ((_, level, says), *_) = examine_with(driver)
        assert level in {"note", "problem"}
        assert "different versions" in says
    finally:
        program.bury()


def test_in_a_container_the_driver_may_hide_everybody(tmp_path: Path) -> None:
    """What is found in a real pid namespace is said in the words of the sidebar; that nobody uses a GPU is not said."""
    driver = StandIn(tmp_path)
    if not can_be_made(driver):
        pytest.skip("no pid namespace with a /proc of its own can be made here")
    driver.fault("global generation 535.104")
    with Container(driver) as container:
        program = GpuProgram(tmp_path, container.enter())
        try:
            assert program.run("gpu.hold('1 GiB')") == "done"
            (hidden, found) = examine_with(driver, container.enter())
        finally:
            program.bury()
    assert hidden[:2] == ("devices", "problem")
    assert "this container cannot see its own GPU processes" in hidden[2]
    assert found[:2] == ("devices", "ok")


def examine_with(driver: StandIn, prefix: tuple[str, ...] = ()) -> list[tuple[str, str, str]]:
    """What the doctor says of the devices where that driver is."""
    code = (
        "import json\nfrom jupyter_gpu_guard.doctor import devices\n"
        "print(json.dumps([(f.check, f.level.value, f.says) for f in devices()]))"
    )
    done = subprocess.run(
        [*prefix, sys.executable, "-c", code], env=driver.environment(), capture_output=True, text=True, check=True
    )
    return [tuple(finding) for finding in json.loads(done.stdout)]
