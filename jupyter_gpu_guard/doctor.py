"""What works here and what does not, in plain sentences with remedies. It looks, and changes nothing."""

from __future__ import annotations

import os
import platform
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import metadata, util
from pathlib import Path

from .core.model import Unknown, Why, is_known
from .protocols import Devices, DevicesSeen

DRIVER_SECONDS = 15.0
BETWEEN_READINGS = 1.0  # a rate needs two

EXTENSION = "jupyter_gpu_guard"
LABEXTENSION = "jupyter-gpu-guard"

_INITIAL_PID_NAMESPACE = "pid:[4026531836]"


class Level(str, Enum):
    """How grave a finding is: nothing to do, good to know, or broken."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    check: str
    level: Level
    says: str
    remedy: str = ""

    def as_dict(self) -> dict[str, str]:
        """The finding for JSON."""
        return {"check": self.check, "level": self.level.value, "says": self.says, "remedy": self.remedy}


def examine() -> tuple[Finding, ...]:
    """Everything, in the order in which one thing rests on another. A check that fails is itself a finding."""
    checks: tuple[tuple[str, Callable[[], Iterable[Finding]]], ...] = (
        ("system", system),
        ("driver package", driver_package),
        ("device files", device_files),
        ("devices", devices),
        ("programs", programs),
        ("process numbers", pid_namespace),
        ("jupyter", jupyter),
        ("server extension", server_extension),
        ("sidebar", sidebar),
        ("policy", policies),
        ("running servers", servers),
    )
    found: list[Finding] = []
    for name, check in checks:
        try:
            found.extend(check())
        except Exception as error:  # noqa: BLE001 - one check must not hide the others
            found.append(
                Finding(name, Level.PROBLEM, f"This could not be looked at ({type(error).__name__}: {error}).")
            )
    return tuple(found)


def system() -> Iterator[Finding]:
    """The operating system and Python."""
    here = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    if platform.system() == "Linux":
        yield Finding("system", Level.OK, f"{here}.")
    else:
        yield Finding(
            "system", Level.NOTE, f"{here}: GPU use is measured on Linux only; everything else loads and says so."
        )


def driver_package() -> Iterator[Finding]:
    """Whether `pynvml` is the module of nvidia-ml-py, without importing it."""
    name = "driver package"
    try:
        wanted = metadata.distribution("nvidia-ml-py")
    except metadata.PackageNotFoundError:
        yield Finding(name, Level.PROBLEM, "nvidia-ml-py is not installed.", "pip install nvidia-ml-py")
        return
    spec = util.find_spec("pynvml")
    origin = Path(spec.origin).resolve() if spec and spec.origin else None
    own = {Path(str(file.locate())).resolve() for file in wanted.files or () if file.name == "pynvml.py"}
    if origin is None or (own and origin not in own):
        what = f"Another pynvml hides the one of nvidia-ml-py {wanted.version}: {origin or 'it cannot be found'}."
        yield Finding(name, Level.PROBLEM, what, "pip uninstall -y pynvml nvidia-ml-py && pip install nvidia-ml-py")
    else:
        yield Finding(name, Level.OK, f"nvidia-ml-py {wanted.version}.")


def device_files(folder: Path = Path("/dev")) -> Iterator[Finding]:
    """The driver's device files and whether this user may use them."""
    name = "device files"
    files = sorted(path for path in folder.glob("nvidia*") if not path.is_dir())
    refused = [path.name for path in files if not os.access(path, os.R_OK | os.W_OK)]
    if not files:
        yield Finding(
            name, Level.NOTE, f"There is no {folder}/nvidia*: this machine or container has no NVIDIA GPU to offer."
        )
    elif refused:
        what = f"This user may not use {', '.join(refused)} in {folder}."
        yield Finding(name, Level.PROBLEM, what, "Let the user read and write them, for example by the group video.")
    else:
        yield Finding(name, Level.OK, f"{len(files)} in {folder}, all usable by this user.")


def driver_version(folder: Path = Path("/proc/driver/nvidia")) -> str | None:
    """The version of the loaded kernel module; None: none is loaded, or it does not say."""
    try:
        said = (folder / "version").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    found = re.search(r"\b\d{3,}\.\d+(?:\.\d+)*\b", said)
    return found[0] if found else None


def devices(source: Devices | None = None, *, expected: bool | None = None) -> Iterator[Finding]:
    """What the driver answers, through the very source that the guard uses.

    `expected`: whether a silent driver is broken rather than absent; None: it is if its device files exist.
    """
    name = "devices"
    if source is None:
        from .sources.several import every_device  # noqa: PLC0415 - only needed here

        source = every_device()
    if expected is None:
        expected = Path("/dev/nvidiactl").exists()
    seen = _read_twice(source)
    if seen is None:
        what = f"The driver did not answer within {DRIVER_SECONDS:g} s."
        yield Finding(name, Level.PROBLEM, what, "See `nvidia-smi` and the system log; a GPU may need a reset.")
        return
    for gap in seen.gaps:
        yield Finding(name, Level.PROBLEM if expected or seen.devices else Level.NOTE, gap.why)
    if not seen.devices:
        if not expected:
            yield Finding(name, Level.NOTE, "Nothing to measure here. To try the guard: jupyter gpu-guard demo")
        return
    version = driver_version()
    names = ", ".join(f"{device.index}: {device.name}" for device in seen.devices)
    yield Finding(name, Level.OK, f"Driver{f' {version}' if version else ''} with {len(seen.devices)} ({names}).")
    for device in seen.devices:
        if device.mig and device.part_of is None:
            what = f"Device {device.index} is divided (MIG): the driver tells no compute of single processes there."
            yield Finding(name, Level.NOTE, what)
    if seen.clients or not seen.gaps:
        yield _processes(seen)


def _processes(seen: DevicesSeen) -> Finding:
    """Whether memory and compute of single processes can be read."""
    name = "processes on devices"
    if not seen.clients:
        return Finding(name, Level.NOTE, "No process uses a GPU now, so it is not known whether their use can be read.")
    refused = [
        reading
        for client in seen.clients
        for reading in (client.memory, client.compute)
        if isinstance(reading, Unknown) and reading.why is not Why.FIRST_READING
    ]
    if not refused:
        return Finding(name, Level.OK, f"Memory and compute of {len(seen.clients)} can be read.")
    if any(reading.why is Why.NO_PERMISSION for reading in refused):
        remedy = "Ask an administrator of this machine to allow it."
        return Finding(name, Level.NOTE, "The driver keeps the use of single processes from this user.", remedy)
    readable = sum(is_known(client.memory) and is_known(client.compute) for client in seen.clients)
    whys = ", ".join(sorted({reading.why.value.replace("-", " ") for reading in refused}))
    what = f"Memory and compute can be read for {readable} of {len(seen.clients)}; for the others: {whys}."
    return Finding(name, Level.NOTE, f"{what} What is not known never counts as idle.")


def _read_twice(source: Devices) -> DevicesSeen | None:
    """The second of two readings; None: the driver hangs. A thread, since no call into a hung driver can be ended."""
    seen: list[DevicesSeen] = []

    def look() -> None:
        first = source.read()
        # In a container the first reading only finds out what the driver's numbers mean.
        if first.clients or (first.devices and first.gaps):
            time.sleep(BETWEEN_READINGS)
            first = source.read()
        source.close()
        seen.append(first)

    thread = threading.Thread(target=look, daemon=True, name="gpu-guard-doctor")
    thread.start()
    thread.join(DRIVER_SECONDS)
    return seen[0] if seen else None


def programs(folder: Path = Path("/dev")) -> Iterator[Finding]:
    """Who has a GPU open, as seen at the processes: what no driver lists may be held by one of them."""
    from .sources.device_files import DeviceFiles, Use  # noqa: PLC0415 - only needed here

    files, proc, found = DeviceFiles(devices=folder), Path("/proc"), []
    for pid in sorted(int(path.name) for path in proc.glob("[1-9]*") if path.name.isdigit()):
        if pid != os.getpid() and files.use(pid) in {Use.CUDA, Use.OPEN}:
            try:
                name = (proc / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip()
            except OSError:
                continue  # it has ended meanwhile
            found.append(f"{pid} ({''.join(letter if letter.isprintable() else '?' for letter in name)})")
    if found:
        what = f"Have a GPU open, as far as this user may look: {', '.join(found)}."
        yield Finding(
            "programs", Level.OK, f"{what} Memory that the driver lists for nobody may be held by one of them."
        )


def pid_namespace(proc: Path = Path("/proc")) -> Iterator[Finding]:
    """Whether the driver's process numbers mean the same here."""
    name = "process numbers"
    try:
        namespace = str((proc / "self" / "ns" / "pid").readlink())
    except OSError:
        yield Finding(name, Level.NOTE, f"{proc} does not say which pid namespace this is.")
        return
    if namespace == _INITIAL_PID_NAMESPACE:
        yield Finding(name, Level.OK, "This is the machine's own pid namespace: the driver's numbers are ours.")
        return
    what = (
        "This is a pid namespace of its own, as in a container. The driver's numbers are believed once they have "
        "proven to be those of this container. Drivers before 570 name GPU processes by the host's numbers or hide "
        "their use: what is hidden shows as unknown, and nothing is ended on it."
    )
    remedy = (
        "If this container cannot see its own GPU processes: update the driver to 570 or later, start the container in "
        "the host's pid namespace, or, for a notebook that is alone on its GPU, set c.GpuGuard.estimate_sole_owner."
    )
    yield Finding(name, Level.NOTE, what, remedy)


def jupyter() -> Iterator[Finding]:
    """The versions of the Jupyter packages beside this one."""
    for package, least, use in (
        ("jupyter_server", 2, "the guard itself"),
        ("jupyterlab", 4, "the sidebar in JupyterLab"),
        ("notebook", 7, "the sidebar in Jupyter Notebook"),
    ):
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            yield Finding(package, Level.NOTE, f"Not installed here; it is needed for {use}.", f"pip install {package}")
            continue
        if int(re.match(r"\d*", version)[0] or 0) < least:  # type: ignore[index]  # \d* matches any text
            what = f"Version {version} is too old for {use}."
            yield Finding(package, Level.PROBLEM, what, f"pip install '{package}>={least}'")
        else:
            yield Finding(package, Level.OK, f"Version {version}.")


def server_extension() -> Iterator[Finding]:
    """Whether a server started in this environment would load the extension."""
    from jupyter_core.paths import jupyter_config_path  # noqa: PLC0415 - only needed here
    from jupyter_server.extension.config import ExtensionConfigManager  # noqa: PLC0415
    from jupyter_server.extension.manager import ExtensionPackage  # noqa: PLC0415

    name = "server extension"
    enable = f"jupyter server extension enable {EXTENSION}"
    manager = ExtensionConfigManager(read_config_path=jupyter_config_path())
    settings = manager.get_jpserver_extensions()  # type: ignore[no-untyped-call]
    if EXTENSION not in settings:
        yield Finding(name, Level.PROBLEM, "No configuration of this environment mentions it.", enable)
        return
    if not settings[EXTENSION]:
        yield Finding(name, Level.PROBLEM, "It is switched off.", enable)
        return
    try:
        loads = ExtensionPackage(name=EXTENSION, enabled=True).validate()  # type: ignore[no-untyped-call]
        why = ""
    except Exception as error:  # noqa: BLE001 - whatever an import raises
        loads, why = False, f" ({error})"
    if loads:
        yield Finding(name, Level.OK, "Enabled.")
    else:
        yield Finding(name, Level.PROBLEM, f"It is enabled and cannot be loaded{why}.", "Install it anew.")


def sidebar() -> Iterator[Finding]:
    """Whether JupyterLab started in this environment would show the sidebar."""
    name = "sidebar"
    if util.find_spec("jupyterlab_server") is None:
        yield Finding(
            name, Level.NOTE, "No JupyterLab or Notebook here, so there is no sidebar.", "pip install jupyterlab"
        )
        return
    from jupyter_core.paths import jupyter_path  # noqa: PLC0415 - only needed here
    from jupyterlab_server.config import get_federated_extensions, get_page_config  # noqa: PLC0415

    folders = jupyter_path("labextensions")
    installed = get_federated_extensions(folders).get(LABEXTENSION)
    if installed is None:
        what = "The labextension is not installed in this environment."
        yield Finding(name, Level.PROBLEM, what, "pip install --force-reinstall --no-deps jupyter-gpu-guard")
        return
    switched_off = {entry.split(":")[0] for entry in get_page_config(folders).get("disabledExtensions", ())}
    if LABEXTENSION in switched_off:
        what = f"Version {installed['version']} is installed and switched off."
        yield Finding(name, Level.NOTE, what, f"jupyter labextension enable {LABEXTENSION}")
    else:
        yield Finding(name, Level.OK, f"Version {installed['version']} is installed and enabled.")


def policies() -> Iterator[Finding]:
    """The policy files that a server would read."""
    from .policyfile import PolicyError, discover, govern  # noqa: PLC0415 - only needed here

    name = "policy"
    paths = discover()
    if not paths:
        yield Finding(
            name, Level.NOTE, "There are no policy files: the options of the server decide, and observe unless told."
        )
        return
    try:
        policy = govern(paths, ()).policy
    except PolicyError as error:
        for problem in error.problems:
            yield Finding(name, Level.PROBLEM, f"{problem.place}: {problem.what}.", problem.right)
        return
    for line in (policy.fault or "").splitlines():
        yield Finding(name, Level.PROBLEM, f"Left out: {line}.")
    rules = len(policy.rules)
    yield Finding(name, Level.OK, f"{policy.source}: fine, mode {policy.mode.value}, rules: {rules}, {policy.digest}.")


def servers() -> Iterator[Finding]:
    """Whether the guards of the running servers answer."""
    from .running import NoAnswerError, NotFoundError, ask, running_servers  # noqa: PLC0415 - only needed here

    name = "running servers"
    running = running_servers()
    if not running:
        yield Finding(name, Level.NOTE, "No Jupyter server of yours is running here.")
    for server in running:
        try:
            health = ask(server, "health")
            problems, mode = [str(problem) for problem in health["problems"]], str(health["mode"])
        except (NoAnswerError, NotFoundError) as error:
            yield Finding(name, Level.NOTE, str(error))
        except (KeyError, TypeError):
            yield Finding(name, Level.NOTE, f"{server.url} answers nothing that this version reads.")
        else:
            yield Finding(name, Level.OK, f"{server.url} answers, mode {mode}.")
            yield from (Finding(name, Level.NOTE, f"{server.url} says: {problem}") for problem in problems)
