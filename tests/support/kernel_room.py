"""Real kernels under the server's own kernel and session managers, without a server around them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import asynccontextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_client.provisioning import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase
from jupyter_core.utils import ensure_async
from jupyter_events import EventLogger
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from jupyter_server.services.sessions.sessionmanager import SessionManager
from traitlets import Any as AnyTrait
from traitlets import Unicode
from traitlets.config import LoggingConfigurable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class FakeServerApp(LoggingConfigurable):
    """What the managers want to know of a server."""

    event_logger = AnyTrait()
    root_dir = Unicode()


class RaisingProvisioner(LocalProvisioner):
    """A local kernel that cannot be shut down: its provisioner raises, until it is told to be `kind`."""

    kind = False

    async def send_signal(self, signum: int) -> None:
        """Fail as a broken queue system would, at the interrupt with which each shutdown begins."""
        if not type(self).kind:
            raise RuntimeError("the queue at https://queue.example?token=hunter2 refuses")
        await super().send_signal(signum)


class HangingProvisioner(LocalProvisioner):
    """A local kernel whose shutdown never returns, until it is told to be `kind`."""

    kind = False

    async def send_signal(self, signum: int) -> None:
        """Wait for a machine that does not answer, at the interrupt with which each shutdown begins."""
        while not type(self).kind:  # noqa: ASYNC110 - it has no event to wait for
            await asyncio.sleep(0.05)
        await super().send_signal(signum)


class JobProvisioner(LocalProvisioner):
    """A kernel that is a job of a queue: what ends the local process leaves the job, which only `cleanup` takes off.

    The queue takes its time until it is told to be `kind`, and raises if there is a `fault`.
    """

    kind = False
    fault: Exception | None = None
    cleanups = 0
    job = 0

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Hand the kernel in, as a job that does not end with it."""
        job = ["setsid", "--wait", "sh", "-c", '"$@"; exec sleep 600', "job", *cmd]
        launched = await super().launch_kernel(job, **kwargs)
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        while not (started := children.read_text().split()):  # noqa: ASYNC110, ASYNC240 - nobody else knows
            await asyncio.sleep(0.02)
        type(self).job = int(started[0])
        return launched

    async def cleanup(self, restart: bool = False) -> None:  # noqa: FBT002 - Jupyter's signature
        """Take the job off the queue."""
        type(self).cleanups += 1
        while not type(self).kind:  # noqa: ASYNC110 - it has no event to wait for
            await asyncio.sleep(0.05)
        if self.fault is not None:
            raise self.fault
        os.killpg(self.job, signal.SIGKILL)
        await super().cleanup(restart)


class RemoteProvisioner(KernelProvisionerBase):
    """A kernel that says to run elsewhere, with a pid of that other machine (here really a local one, as a trap)."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._there = LocalProvisioner(**kwargs)

    @property
    def pid(self) -> int | None:
        """A number that means nothing here."""
        return self._there.pid

    @property
    def has_process(self) -> bool:
        """Whether it runs there."""
        return self._there.has_process

    async def poll(self) -> int | None:
        """Ask over there."""
        return await self._there.poll()

    async def wait(self) -> int | None:
        """Ask over there."""
        return await self._there.wait()

    async def send_signal(self, signum: int) -> None:
        """Ask over there."""
        await self._there.send_signal(signum)

    async def kill(self, restart: bool = False) -> None:  # noqa: FBT002 - Jupyter's signature
        """Ask over there."""
        await self._there.kill(restart)

    async def terminate(self, restart: bool = False) -> None:  # noqa: FBT002 - Jupyter's signature
        """Ask over there."""
        await self._there.terminate(restart)

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Ask over there."""
        return await self._there.pre_launch(**kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Ask over there."""
        return await self._there.launch_kernel(cmd, **kwargs)

    async def cleanup(self, restart: bool = False) -> None:  # noqa: FBT002 - Jupyter's signature
        """Ask over there."""
        await self._there.cleanup(restart)


class Room:
    """The managers, and short ways to use a kernel as a front end would."""

    def __init__(self, app: FakeServerApp, root: Path) -> None:
        self.events = app.event_logger
        self.kernels = AsyncMappingKernelManager(parent=app, connection_dir=str(root))
        contents = AsyncFileContentsManager(root_dir=str(root))
        self.sessions = SessionManager(kernel_manager=self.kernels, contents_manager=contents)
        self._clients: list[Any] = []

    async def notebook(self, path: str) -> str:
        """Open a notebook, as a front end does. Gives the kernel's id."""
        session = await self.sessions.create_session(
            path=path, name=path.rpartition("/")[2], type="notebook", kernel_name="python3"
        )
        return session["kernel"]["id"]

    async def client(self, kernel_id: str) -> Any:
        """A client that is connected to a kernel that answers."""
        client = self.kernels.get_kernel(kernel_id).client()
        self._clients.append(client)
        client.start_channels()
        await client.wait_for_ready(timeout=60)
        return client

    async def run(self, client: Any, code: str, **how: Any) -> None:
        """Run a cell to its end."""
        reply = await ensure_async(client.execute(code, reply=True, timeout=60, **how))
        assert reply["content"]["status"] == "ok", reply["content"]

    async def close(self) -> None:
        """End every kernel."""
        RaisingProvisioner.kind = HangingProvisioner.kind = JobProvisioner.kind = True
        for client in self._clients:
            client.stop_channels()
        for kernel_id in self.kernels.list_kernel_ids():
            popen = getattr(self.kernels.get_kernel(kernel_id).provisioner, "process", None)
            await self.kernels.shutdown_kernel(kernel_id, now=True)
            if popen is not None and popen.poll() is None:  # one that Jupyter has only forgotten
                popen.kill()
                popen.wait()
        self.kernels.context.destroy(linger=0)
        self.sessions.close()
        self.sessions.connection.close()


@asynccontextmanager
async def kernel_room(root: Path) -> AsyncIterator[Room]:
    """A room with nothing in it yet; every kernel is gone at the end."""
    events = EventLogger()
    room = Room(FakeServerApp(event_logger=events, root_dir=str(root)), root)
    RaisingProvisioner.kind = HangingProvisioner.kind = JobProvisioner.kind = False
    JobProvisioner.fault, JobProvisioner.cleanups = None, 0
    try:
        yield room
    finally:
        await room.close()


async def until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Let the loop run until `condition` holds, or fail."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.02)


def provide_kernelspec(jupyter_data: Path, name: str, provisioner: type[KernelProvisionerBase]) -> None:
    """Install a Python kernel that is started through `provisioner`."""
    factory = KernelProvisionerFactory.instance()
    factory.provisioners[name] = EntryPoint(
        name, f"{provisioner.__module__}:{provisioner.__name__}", "jupyter_client.kernel_provisioners"
    )
    folder = jupyter_data / "kernels" / name
    folder.mkdir(parents=True)
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": name,
        "language": "python",
        "metadata": {"kernel_provisioner": {"provisioner_name": name}},
    }
    (folder / "kernel.json").write_text(json.dumps(spec))


def isolate(monkeypatch: Any, home: Path) -> Path:
    """Give Jupyter and IPython folders of their own. Gives Jupyter's data folder."""
    for variable in ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        folder = home / variable.lower()
        folder.mkdir(parents=True)
        monkeypatch.setenv(variable, str(folder))
    return home / "jupyter_data_dir"
