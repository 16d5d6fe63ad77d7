"""The server extension: configuration in, a running Guard out."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib
import os
import shutil
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_core.paths import jupyter_data_dir
from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, Enum, Float, Int, List, Unicode, default, validate

from jupyter_gpu_guard.clock import SystemClock
from jupyter_gpu_guard.core.model import OwnerKind
from jupyter_gpu_guard.core.policy import Action, Policy, Site
from jupyter_gpu_guard.effects.doors import BoardDoor, KernelDoor, LeftoversDoor, TerminalDoor
from jupyter_gpu_guard.effects.enforcer import OwnerEnforcer, RehearsingEnforcer
from jupyter_gpu_guard.effects.farewell import Farewell
from jupyter_gpu_guard.effects.inside import Inside
from jupyter_gpu_guard.effects.notices import NOTICE
from jupyter_gpu_guard.effects.pages import Pages
from jupyter_gpu_guard.effects.park import Means, Park
from jupyter_gpu_guard.effects.release import Release
from jupyter_gpu_guard.effects.resume import Resume
from jupyter_gpu_guard.effects.tellers.message import Writer
from jupyter_gpu_guard.effects.tellers.rounds import Rounds
from jupyter_gpu_guard.guard import Guard
from jupyter_gpu_guard.history.audit import FileAudit, ends
from jupyter_gpu_guard.kernel.simulated_gpu import VARIABLE
from jupyter_gpu_guard.leases import FileLeases
from jupyter_gpu_guard.observe import ACTIVITY_EVERY, Observer
from jupyter_gpu_guard.parking.asking import why_not_installed
from jupyter_gpu_guard.parking.registry import Registry
from jupyter_gpu_guard.parking.waiting_line import WaitingLine
from jupyter_gpu_guard.published import Price
from jupyter_gpu_guard.site import this_site
from jupyter_gpu_guard.sources.drm import DrmDevices
from jupyter_gpu_guard.sources.insight import ProcfsInsight
from jupyter_gpu_guard.sources.kernels import KernelOwners
from jupyter_gpu_guard.sources.nvml import NvmlDevices
from jupyter_gpu_guard.sources.owners import JoinedOwners
from jupyter_gpu_guard.sources.parked import ParkedOwners
from jupyter_gpu_guard.sources.procfs import ProcfsProcesses
from jupyter_gpu_guard.sources.several import every_device
from jupyter_gpu_guard.sources.simulated import SimulatedDevices, prepare
from jupyter_gpu_guard.sources.tensorboard import BoardOwners
from jupyter_gpu_guard.sources.terminals import TerminalOwners
from jupyter_gpu_guard.sources.websocket_ear import listening
from jupyter_gpu_guard.usage import FileUsage

from .following import PolicyFollower
from .handlers import ROUTES
from .telling import is_hub, link_to, tellers_of
from .waking import Waker

if TYPE_CHECKING:
    from jupyter_gpu_guard.policyfile.watch import PolicyFiles
    from jupyter_gpu_guard.protocols import Devices
    from jupyter_gpu_guard.sources.websocket_ear import Passing


RECALLED = timedelta(days=7)  # whoever comes back after a weekend finds why
RECALLED_WITHIN = 10.0  # seconds
EVENTS = Path(__file__).parent / "events"


def _temporary_folder() -> str:
    """A folder that goes with this process."""
    folder = tempfile.mkdtemp(prefix="gpu-guard-simulated-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class GpuGuard(ExtensionApp):
    """Shows which notebook holds which GPU, warns, and gives back GPU memory that is held without compute."""

    name = "jupyter_gpu_guard"
    load_other_extensions = True

    mode = Enum(
        ["observe", "enforce"],
        default_value="observe",
        help="`observe` shows and rehearses and ends nothing; `enforce` warns and shuts down.",
    ).tag(config=True)

    policy_paths = List(
        Unicode(),
        help="""Policy files, read after those in `gpu-guard/policy.d/*.yaml` under Jupyter's system config paths.
        Beside a policy of the site they may only tighten it. Where there is any policy file, the files decide, and
        `mode`, `cull_*`, `notice_time`, `undelivered_time` and `longest_keep` here are not used.""",
    ).tag(config=True)

    cull_idle_timeout = Int(
        7200,
        help="""Seconds for which a kernel must have been seen to hold GPU memory without compute before it is warned
        about. 0 or less: never.""",
    ).tag(config=True)

    cull_compute_below = Float(5.0, help="Percent of a GPU: less than this counts as no compute.").tag(config=True)

    cull_memory_above = Int(
        512 * 2**20, help="Bytes of GPU memory: a kernel that holds less than this is left alone."
    ).tag(config=True)

    notice_time = Int(
        900,
        help="""Seconds between the warning, once it is delivered, and the shutdown. 0 or less: warn only, never shut
        down.""",
    ).tag(config=True)

    undelivered_time = Int(
        43200,
        help="""Seconds between a warning that reaches nobody, since no page is open and no other way works, and the
        shutdown; `notice_time` at least. 0 or less: nothing is shut down before a warning reaches somebody.""",
    ).tag(config=True)

    longest_keep = Int(8 * 3600, help="Seconds for which a person may ask to keep a kernel at once.").tag(config=True)

    grace_time = Float(
        60.0,
        help="""Seconds between SIGTERM and SIGKILL for what is left of a kernel that was shut down and still holds a
        GPU.""",
    ).tag(config=True)

    shutdown_hook_time = Float(
        60.0,
        help="""Seconds that an idle kernel is given, before it is shut down, for what its user has registered with
        `jupyter_gpu_guard.on_shutdown`. 0: it is not asked.""",
    ).tag(config=True)

    sample_interval = Float(
        5.0, help="Seconds between two looks. The driver keeps its samples for about 10 s: stay below that."
    ).tag(config=True)

    resting_interval = Float(
        30.0,
        help="""Seconds between two looks while no process is on any GPU and no cell runs. `sample_interval` or less:
        always at the usual rate.""",
    ).tag(config=True)

    devices = Enum(
        ["auto", "nvml", "drm", "simulated"],
        default_value="auto",
        help="""Where GPUs are looked for: `nvml` asks the NVIDIA driver, `drm` the kernel's drivers for AMD and Intel,
        `auto` both; `simulated` makes GPUs up, for trying things out.""",
    ).tag(config=True)

    estimate_sole_owner = Bool(
        False,  # noqa: FBT003
        help="""In a container whose driver hides its processes: take what the whole GPU holds and computes for that of
        the only program here that uses CUDA. Right only where no other container shares the GPU. Such figures are
        marked as estimates, and nothing is ended on them unless a rule says `trust_estimates: true`.""",
    ).tag(config=True)

    simulated_directory = Unicode(
        help="Folder in which simulated GPUs are declared. Default: a temporary one for each server."
    ).tag(config=True)

    gpu_hour_price = Float(
        0.0,
        help="""What one whole GPU costs an hour: then the sidebar says what is held without work costs, by its share of
        the memory. 0 or less: nothing is said of it.""",
    ).tag(config=True)

    currency = Unicode(help="The currency of `gpu_hour_price`, as it is shown: `€`, `USD`, `credits`.").tag(config=True)

    parking = Bool(
        False,  # noqa: FBT003
        help="""Experimental: a kernel may be parked, by its user or by a rule: the driver moves what it has on a GPU
        to the host's memory, and back when it is used. It needs an NVIDIA driver 570 or later and
        `pip install 'jupyter-gpu-guard[park]'`. A failure of the driver may cost the kernel.""",
    ).tag(config=True)

    audit_days = Int(
        90, help="Days for which the audit is kept: what was done to whom, and why. 0 or less: for ever."
    ).tag(config=True)

    state_directory = Unicode(
        help="Folder for leases, the audit and what is parked. Default: `gpu-guard` under Jupyter's data directory."
    ).tag(config=True)

    usage_directory = Unicode(
        help="""Folder in which servers tell each other what was used of budgets: make it writable for everybody, with
        the sticky bit. Default: `usage` in `state_directory`, for the servers of one user."""
    ).tag(config=True)

    notify_command = List(
        Unicode(),
        help="""A command, as a list of its words, that is told of each warning, and of what a rule has done, by JSON on
        its standard input. Exit status 0 within 10 s: the warning is delivered.""",
    ).tag(config=True)

    notify_webhook = Unicode(
        help="""An address to which each warning, and what a rule has done, is posted as JSON, with a `text` for Slack
        or Mattermost. It is never shown."""
    ).tag(config=True)

    notify_webhook_file = Unicode(
        help="A file that holds that address alone, in place of `notify_webhook`; read when the server starts."
    ).tag(config=True)

    notify_email_to = Unicode(
        help="The address to which e-mails go. `{user}` stands for the name of the user: `{user}@example.org`."
    ).tag(config=True)

    notify_email_from = Unicode(
        help="The address from which e-mails come. Default: `gpu-guard@` the name of this machine."
    ).tag(config=True)

    notify_smtp = Unicode(help="The server that takes e-mails, with its port: `mail.example.org:587`.").tag(config=True)

    notify_smtp_security = Enum(
        ["starttls", "ssl", "none"],
        default_value="starttls",
        help="How the connection to that server is encrypted. With `none` there is no login.",
    ).tag(config=True)

    notify_smtp_login_file = Unicode(
        help="A file with the user for that server in its first line and the password in its second."
    ).tag(config=True)

    notify_names = Bool(
        help="""Whether hooks are told the names of notebooks. Default: yes, but not under JupyterHub, where a hook may
        lead to others than the user."""
    ).tag(config=True)

    guard: Guard
    audit: FileAudit
    pages: Pages
    is_governed = False  # by rules that are not the user's own
    _built: tuple[KernelOwners, Devices] | None = None
    _loop_task: asyncio.Task[None] | None = None

    @validate("sample_interval")
    def _sample_interval_within_the_drivers_memory(self, proposal: Any) -> float:
        return self._within(proposal, 0.1, 10.0)

    @validate("resting_interval")
    def _resting_interval_is_a_time(self, proposal: Any) -> float:
        return self._within(proposal, 0.0, 3600.0)

    @validate("shutdown_hook_time")
    def _shutdown_hook_time_is_a_time(self, proposal: Any) -> float:
        return self._within(proposal, 0.0, 3600.0)

    @validate("grace_time")
    def _grace_time_is_a_time(self, proposal: Any) -> float:
        return self._within(proposal, 0.0, 3600.0)

    def _within(self, proposal: Any, least: float, most: float) -> float:
        """The value that was asked for, or the default with a word in the log: a slip here must not stop a server."""
        if least <= proposal.value <= most:
            return float(proposal.value)
        usual = proposal.trait.default_value
        self.log.error(
            "GPU guard: c.GpuGuard.%s = %s cannot be used, it is %g now; write seconds from %g to %g",
            *(proposal.trait.name, proposal.value, usual, least, most),
        )
        return float(usual)

    @default("state_directory")
    def _default_state_directory(self) -> str:
        return str(Path(jupyter_data_dir(), "gpu-guard"))

    @default("notify_names")
    def _default_notify_names(self) -> bool:
        return not is_hub()

    def _make_hooks(self, clock: SystemClock, site: Site) -> Rounds:
        """The ways to tell people where no page is open."""
        tellers, faults = tellers_of(self, site)
        for fault in faults:
            self.log.error("GPU guard: %s", fault)
        writer = Writer(site, names=self.notify_names, link=lambda: link_to(self.serverapp))
        return Rounds(tellers, writer, clock, self.log, faults=faults)

    @default("usage_directory")
    def _default_usage_directory(self) -> str:
        return str(Path(self.state_directory, "usage"))

    def initialize_settings(self) -> None:
        """Build the guard. Nothing is measured, and no driver is loaded, before the server runs."""
        server: Any = self.serverapp
        for schema in sorted(EVENTS.glob("*.yaml")):
            server.event_logger.register_event_schema(schema)
        clock = SystemClock()
        processes = ProcfsProcesses()
        devices = self._make_devices()
        settings = server.web_app.settings
        inside = Inside(server.kernel_manager, lambda key: owners.look_again(key))  # noqa: PLW0108 - they come later
        kernels = KernelOwners(
            server.kernel_manager,
            server.session_manager,
            processes,
            clock,
            event_logger=server.event_logger,
            own=inside.session,
            log=self.log,
        )
        self._registry = Registry(Path(self.state_directory, "parked.json"))
        line = WaitingLine()
        waker = Waker(self._registry, line, clock, self.log)
        self._listen_in(kernels, waker)
        boards = BoardOwners(settings, Path(server.root_dir), processes, clock, log=self.log)
        joined = JoinedOwners(kernels, TerminalOwners(settings, processes, clock, log=self.log), boards, log=self.log)
        owners = ParkedOwners(joined, self._registry, line, waker.seen)
        self.audit = FileAudit(Path(self.state_directory, "audit"), days=self.audit_days, server=server.root_dir)
        observer = Observer(
            clock,
            devices,
            processes,
            owners,
            insight=ProcfsInsight(),
            activity_every=min(ACTIVITY_EVERY, 6 * self.sample_interval),
            of_owners=lambda: joined.gaps,
        )
        means = Means(
            registry=self._registry,
            owners=owners,
            look=observer.look,
            processes=observer.processes,
            identify=processes.identify,
            clock=clock,
            log=self.log,
            roots=lambda: joined.roots,
        )
        resume = Resume(means, line, waker.who_holds)
        farewell = Farewell(inside, owners.look_again, self.shutdown_hook_time, resume.why_not_back)
        self.pages = Pages(server.event_logger, NOTICE, clock)
        site = this_site()
        self._hooks = self._make_hooks(clock, site)
        self._follower = PolicyFollower(self._policy_files(), self.log, self._is_governed)
        self.guard = Guard(
            observer=observer,
            enforcer=OwnerEnforcer(
                event_logger=server.event_logger,
                log=self.log,
                doors={
                    OwnerKind.KERNEL: KernelDoor(server.kernel_manager),
                    OwnerKind.TERMINAL: TerminalDoor(settings),
                    OwnerKind.TENSORBOARD: BoardDoor(settings, processes.identify, boards.info_files),
                    OwnerKind.LEFTOVERS: LeftoversDoor(),
                },
                remedies={
                    Action.RELEASE: Release(
                        inside,
                        look_again=owners.look_again,
                        look=observer.look,
                        identify=processes.identify,
                        clock=clock,
                    ),
                    Action.PARK: Park(means, self._why_no_parking()),
                    Action.RESUME: resume,
                },
                owners=owners,
                look=observer.look,
                processes=observer.processes,
                clock=clock,
                identify=processes.identify,
                roots=lambda: joined.roots,
                farewell=farewell,
                why_not_yet=farewell.why_not_yet,
                why_not_after=farewell.why_not_after,
                grace=self.grace_time,
                page_is_open=self.pages.is_open,
                hooks=self._hooks,
            ),
            rehearsal=RehearsingEnforcer(clock),
            journal=self.audit,
            usage=self._usage(site),
            leases=FileLeases(Path(self.state_directory, "leases.json")),
            clock=clock,
            policy=self._follower.first(),
            interval=self.sample_interval,
            resting_interval=self.resting_interval,
            problems=lambda: (*kernels.problems, *self._hooks.problems, *self._registry.problems),
            site=site,
            price=Price(self.gpu_hour_price, self.currency) if self.gpu_hour_price > 0 else None,
            log=self.log,
        )
        waker.serves(self.guard)
        self._built = (kernels, devices)
        if not hasattr(ExtensionApp, "_start_jupyter_server_extension"):
            # jupyter_server before 2.16 does not call the hook.
            server.io_loop.add_callback(self._start_jupyter_server_extension, server)

    def initialize_handlers(self) -> None:
        """Add the REST routes."""
        self.handlers.extend(ROUTES)

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        """Start to look, once the server runs."""
        del serverapp
        self._loop_task = asyncio.create_task(self._run(), name="gpu-guard")

    async def _run(self) -> None:
        # The report's models are slow to import, so this happens in a thread and before anybody asks for a report.
        await asyncio.to_thread(importlib.import_module, "jupyter_gpu_guard.server.report")
        following = asyncio.create_task(self._follower.follow(self.guard, max(1.0, self.sample_interval)))
        recalling = asyncio.create_task(self._recall())
        await asyncio.to_thread(self._registry.refresh)
        try:
            await self.guard.run()
        finally:
            following.cancel()
            recalling.cancel()

    async def _recall(self) -> None:
        """Close what an earlier server left open, and show again what was done in the last days."""
        now = datetime.now(timezone.utc)
        try:
            await asyncio.to_thread(self.audit.close_open_acts, now)
            await self.audit.written(RECALLED_WITHIN)
            told = await asyncio.to_thread(self.audit.read, now - RECALLED)
        except OSError as error:
            self.log.warning("GPU guard: what was done before cannot be read (%s)", error)
            return
        self.guard.recall(ends(told.entries, now, self.audit.server))

    async def stop_extension(self) -> None:
        """Stop looking and let go of the driver. The kernels are still there: the server ends them afterwards."""
        if self._built is None:  # it failed to load; that must not keep the server from ending
            return
        if self._loop_task is not None:
            self._loop_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._loop_task
        await self.guard.close()
        await self._hooks.close()
        server: Any = self.serverapp
        for entry in self._registry.entries:
            if entry.owner.id in server.kernel_manager:  # others are those of another server
                self.log.info("GPU guard: %s is parked; it ends with the server, like every kernel", entry.name)
        await asyncio.to_thread(self.audit.close)
        for source in self._built:
            source.close()

    def _why_no_parking(self) -> str | None:
        """Why nothing is parked here, in a sentence; None: it is."""
        if not self.parking:
            return "parking is switched off; c.GpuGuard.parking = True allows it"
        return why_not_installed()

    def _listen_in(self, kernels: KernelOwners, waker: Waker) -> None:
        """Have the websockets of this server tell what only passes there: a cell that asks for a line of input."""

        def overhear(passing: Passing) -> None:
            kernels.overhear(passing)
            waker.heard(passing)

        name = "kernel_websocket_connection_class"
        try:
            self.settings[name] = listening(self.settings[name], overhear, self.log)
        except (KeyError, TypeError) as fault:  # then such a cell counts as one that executes
            self.log.debug("The websocket connections of this server cannot be extended: %r", fault)

    def _make_devices(self) -> Devices:
        if self.devices == "nvml":
            return NvmlDevices(estimate_sole_owner=self.estimate_sole_owner)
        if self.devices == "drm":
            return DrmDevices()
        if self.devices == "auto":
            return every_device(estimate_sole_owner=self.estimate_sole_owner)
        directory = Path(self.simulated_directory or os.environ.get(VARIABLE) or _temporary_folder())
        prepare(directory)
        os.environ[VARIABLE] = str(directory)  # so that kernels know where to declare what they hold
        self.log.warning("GPU guard: the GPUs are simulated (c.GpuGuard.devices)")
        return SimulatedDevices(directory)

    def _usage(self, site: Site) -> FileUsage:
        """What was used of budgets. A folder that several users share is for an administrator to make."""
        of_its_own = self.usage_directory == self._default_usage_directory()
        return FileUsage(Path(self.usage_directory), site, create=of_its_own)

    def _policy_files(self) -> PolicyFiles:
        """Where the policy comes from."""
        # Imported here, since YAML takes a while.
        from jupyter_gpu_guard.policyfile.watch import PolicyFiles  # noqa: PLC0415

        return PolicyFiles([Path(path) for path in self.policy_paths], self._policy_of_options)

    def _policy_of_options(self) -> Policy:
        """The policy where there are no files. Raises PolicyError."""
        from jupyter_gpu_guard import policyfile  # noqa: PLC0415

        return policyfile.from_traits(
            mode=self.mode,
            cull_idle_timeout=self.cull_idle_timeout,
            cull_compute_below=self.cull_compute_below,
            cull_memory_above=self.cull_memory_above,
            notice_time=self.notice_time,
            longest_keep=self.longest_keep,
            undelivered_time=self.undelivered_time,
        )

    def _is_governed(self, by_site: bool) -> None:  # noqa: FBT001 - told by the follower
        self.is_governed = by_site
