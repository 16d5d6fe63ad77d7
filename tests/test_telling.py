"""Warnings on their way to people: a real guard, its enforcer and its rounds, over a made-up kernel and clock."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from fake_clock import NOON, FakeClock
from jupyter_events import EventLogger

from jupyter_gpu_guard.core.entry import judged_again
from jupyter_gpu_guard.core.model import Device, GpuClient, Owner, OwnerKey, OwnerKind, OwnerState, Process, ProcessKey
from jupyter_gpu_guard.core.model import Snapshot as Seen
from jupyter_gpu_guard.core.policy import Action, Idle, Mode, Policy, Rule, Site, Stage
from jupyter_gpu_guard.core.verdict import Code
from jupyter_gpu_guard.effects.enforcer import OwnerEnforcer, RehearsingEnforcer
from jupyter_gpu_guard.effects.tellers import NotToldError
from jupyter_gpu_guard.effects.tellers.message import Writer
from jupyter_gpu_guard.effects.tellers.rounds import PAUSES, Rounds
from jupyter_gpu_guard.guard import Guard
from jupyter_gpu_guard.leases import FileLeases
from jupyter_gpu_guard.protocols import NoJournal
from jupyter_gpu_guard.server.extension import GpuGuard
from jupyter_gpu_guard.server.report import report
from jupyter_gpu_guard.server.telling import link_to, tellers_of

LOG = logging.getLogger("jupyter_gpu_guard.test")
KEY = OwnerKey(OwnerKind.KERNEL, "k")
ROOT = ProcessKey(100, 7)
NOTICE = timedelta(seconds=20)
RULE = Rule(
    "default",
    idle=Idle(lasting=timedelta(seconds=10)),
    notice=NOTICE,
    ladder=(Stage(Action.WARN), Stage(Action.SHUTDOWN, NOTICE)),
    undelivered=None,
)


class FakeTeller:
    """A hook that answers as it is told: an error to raise, or None for success. It hangs while `hangs` is set."""

    place = "here"

    def __init__(self, name="webhook", answers=(), *, hangs=False):
        self.name = name
        self.answers = list(answers)
        self.hangs = hangs
        self.asked = []

    async def tell(self, message):
        """Answer."""
        self.asked.append(message.facts)
        if self.hangs:
            await asyncio.Event().wait()
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer


class FakeObserver:
    """One kernel that holds 2 GiB until somebody ends it, and computes as a test says."""

    def __init__(self, clock):
        self.clock = clock
        self.alive = True
        self.compute = 0.0

    async def observe(self, before):
        """What there is now."""
        del before
        row = Process(ROOT, 1, ROOT.pid, ROOT.pid, "S", NOON)
        return Seen(
            taken_at=self.clock.now(),
            devices=(Device("GPU-0", 0, "Fake", 80 * 2.0**30, 2 * 2.0**30),),
            clients=(GpuClient("GPU-0", ROOT.pid, 2 * 2.0**30, self.compute),) if self.alive else (),
            processes={ROOT.pid: row} if self.alive else {},
            owners=(Owner(KEY, "a.ipynb", ROOT, OwnerState.IDLE, "a.ipynb"),) if self.alive else (),
        )

    async def stirs(self):
        """Nothing does."""
        return False


class FakeJournal(NoJournal):
    """Remembers the entries."""

    def __init__(self):
        self.entries = []

    def record(self, entry):
        """Note it."""
        self.entries.append(entry)


class Scene:
    """A guard over one idle kernel, with hooks, and a page that a test opens."""

    def __init__(self, folder, *tellers, mode=Mode.ENFORCE, rule=RULE):
        self.clock = FakeClock()
        self.observer = FakeObserver(self.clock)
        self.page = False
        self.slept = []
        self.rounds = Rounds(
            tellers, Writer(Site(user="anna")), self.clock, LOG, sleep=self._sleep, faults=("A fault that stays.",)
        )
        self.journal = FakeJournal()

        async def look():
            raise AssertionError("nothing is ended in these tests")

        self.enforcer = OwnerEnforcer(
            event_logger=EventLogger(),
            log=LOG,
            doors={},
            owners=SimpleNamespace(look_again=lambda _: None),
            look=look,
            processes=look,
            clock=self.clock,
            identify=lambda _: None,
            page_is_open=lambda: self.page,
            hooks=self.rounds,
        )
        self.guard = Guard(
            observer=self.observer,
            enforcer=self.enforcer,
            rehearsal=RehearsingEnforcer(self.clock),
            leases=FileLeases(folder / "leases.json"),
            clock=self.clock,
            policy=Policy(mode=mode, rules=(rule,)),
            journal=self.journal,
            log=LOG,
        )

    async def _sleep(self, seconds):
        self.slept.append(seconds)

    async def ticks(self, number):
        """So many looks, five seconds apart, with time for what goes on beside them."""
        for _ in range(number):
            self.clock.advance(5)
            await self.guard.tick()
            for _ in range(10):
                await asyncio.sleep(0)

    @property
    def notice(self):
        """The warning that stands, as the report has it."""
        (notice,) = report(self.guard.published).notices
        return notice

    @property
    def acts(self):
        """What was tried, but for warnings."""
        return [outcome.action for outcome in self.guard.published.outcomes]


def refusals(number):
    """So many failures."""
    return [NotToldError("it answers with status 500")] * number


def play(act):
    """Run the scene to its end, with no task left."""
    asyncio.run(act())


def test_nobody_there_and_no_hook_means_waiting(tmp_path):
    """With `undelivered: never` nothing is lost in fifty looks, and whoever asks is told why."""

    async def act():
        scene = Scene(tmp_path)
        await scene.ticks(50)
        assert (scene.notice.undelivered, scene.notice.reached, scene.notice.deadline) == (True, [], None)
        assert Code.UNDELIVERED in [r.code for r in scene.guard.published.verdicts[KEY].reasons]
        assert scene.acts == []

    play(act)


def test_a_wait_that_is_over_goes_on_without_a_delivered_warning(tmp_path):
    """`undelivered` is the cap: not before it, and then."""

    async def act():
        scene = Scene(tmp_path, rule=replace(RULE, undelivered=timedelta(seconds=100)))
        await scene.ticks(6)
        deadline = scene.notice.deadline
        await scene.ticks(16)
        assert scene.clock.now().wall < deadline
        assert scene.acts == []
        await scene.ticks(4)
        assert scene.acts == [Action.SHUTDOWN]

    play(act)


def test_a_hook_that_works_delivers_the_warning_once(tmp_path):
    """The whole notice begins with the delivery; over fifty looks the hook is asked once about the warning."""

    async def act():
        teller = FakeTeller()
        scene = Scene(tmp_path, teller)
        await scene.ticks(6)
        notice = scene.notice
        assert (notice.reached, notice.undelivered) == (["webhook"], False)
        assert notice.deadline - notice.given_at == NOTICE
        warned = teller.asked[0]
        assert warned["deadline"] <= notice.deadline.isoformat()
        assert scene.acts == []
        await scene.ticks(44)
        assert scene.acts[0] is Action.SHUTDOWN
        assert [facts["about"] for facts in teller.asked] == ["warning", "outcome"]
        details = [entry.detail for entry in scene.journal.entries if entry.kind.value == "warned"]
        assert details == ["it has reached nobody so far", "reached somebody by webhook"]

    play(act)


def test_what_the_audit_keeps_of_a_repeated_warning_leads_to_it_again(tmp_path):
    """Also that somebody had come meanwhile is part of the grounds."""

    async def act():
        scene = Scene(tmp_path, FakeTeller())
        await scene.ticks(6)
        warned = [entry for entry in scene.journal.entries if entry.kind.value == "warned"]
        assert [entry.verdict.repeated for entry in warned] == [False, True]
        for entry in warned:
            assert judged_again(entry.grounds) == entry.verdict

    play(act)


def test_a_hook_that_fails_delivers_nothing(tmp_path, caplog):
    """Three tries with pauses, one line in the log, a problem for health; nothing is lost."""

    async def act():
        teller = FakeTeller(answers=refusals(99))
        scene = Scene(tmp_path, teller)
        await scene.ticks(50)
        assert len(teller.asked) == 3
        assert tuple(scene.slept) == PAUSES
        assert scene.notice.undelivered
        assert scene.acts == []
        problem = "Nobody can be told by webhook (here): it answers with status 500."
        assert scene.rounds.problems == ("A fault that stays.", problem)
        lines = [record.getMessage() for record in caplog.records if "not told" in record.getMessage()]
        assert lines == [
            "GPU guard: not told by webhook (here): warning about kernel:k; it answers with status 500",
        ]

    play(act)


@pytest.mark.parametrize("failures", [1, 2])
def test_a_hook_that_works_in_the_end_has_worked(tmp_path, failures):
    """The second or third try delivers."""

    async def act():
        scene = Scene(tmp_path, FakeTeller(answers=refusals(failures)))
        await scene.ticks(6)
        assert scene.notice.reached == ["webhook"]
        assert scene.rounds.problems == ("A fault that stays.",)

    play(act)


def test_a_page_that_opens_gets_the_whole_notice(tmp_path):
    """Also where all hooks have failed; and those are not asked again."""

    async def act():
        teller = FakeTeller(answers=refusals(3))
        scene = Scene(tmp_path, teller)
        await scene.ticks(20)
        scene.page = True
        await scene.ticks(1)
        notice = scene.notice
        assert (notice.reached, notice.undelivered) == (["page"], False)
        assert notice.deadline - scene.clock.now().wall == NOTICE
        await scene.ticks(3)
        assert scene.acts == []
        await scene.ticks(2)
        assert scene.acts == [Action.SHUTDOWN]
        assert [facts["about"] for facts in teller.asked] == ["warning"] * 3 + ["outcome"]

    play(act)


def test_work_after_the_warning_makes_a_new_warning_of_the_next(tmp_path):
    """Which goes to the hooks again; that the first was delivered counts for nothing."""

    async def act():
        teller = FakeTeller(answers=[None, *refusals(99)])
        scene = Scene(tmp_path, teller)
        await scene.ticks(6)
        assert scene.notice.reached == ["webhook"]
        scene.observer.compute = 90.0
        await scene.ticks(20)
        scene.observer.compute = 0.0
        await scene.ticks(40)
        assert scene.notice.undelivered
        assert scene.acts == []
        assert len(teller.asked) == 1 + 3

    play(act)


def test_a_hook_that_hangs_delays_nobody(tmp_path):
    """Neither the looks, nor the other hook, nor the end of the server."""

    async def act():
        hanging, working = FakeTeller("command", hangs=True), FakeTeller()
        scene = Scene(tmp_path, hanging, working)
        await scene.ticks(10)
        assert scene.guard.published.ticks == 10
        assert scene.notice.reached == ["webhook"]
        asked = len(hanging.asked)
        await asyncio.wait_for(scene.rounds.close(), 30)
        await asyncio.wait_for(scene.guard.close(), 30)
        assert len(asyncio.all_tasks()) == 1
        await scene.ticks(20)
        assert len(hanging.asked) == asked

    play(act)


def test_a_fault_in_a_hook_is_the_hooks_alone(tmp_path):
    """Whatever it raises, the looks go on, and only its kind is shown."""

    async def act():
        scene = Scene(tmp_path, FakeTeller(answers=[RuntimeError("hunter2")] * 3))
        await scene.ticks(10)
        assert scene.guard.published.ticks == 10
        assert scene.rounds.problems[1:] == ("Nobody can be told by webhook (here): RuntimeError.",)

    play(act)


def test_who_only_observes_tells_nobody(tmp_path):
    """No hook is asked in mode observe, whatever would be due."""

    async def act():
        teller = FakeTeller()
        scene = Scene(tmp_path, teller, mode=Mode.OBSERVE)
        await scene.ticks(50)
        assert teller.asked == []
        assert report(scene.guard.published).notices == []

    play(act)


# ---- configuration ----

NOTHING = {
    "notify_command": [],
    "notify_webhook": "",
    "notify_webhook_file": "",
    "notify_email_to": "",
    "notify_email_from": "",
    "notify_smtp": "",
    "notify_smtp_security": "starttls",
    "notify_smtp_login_file": "",
}


def configured(site=None, **said):
    """What these options make: the ways with their places, and the faults."""
    tellers, faults = tellers_of(SimpleNamespace(**{**NOTHING, **said}), site or Site(user="anna"))
    return [(teller.name, teller.place) for teller in tellers], faults


def test_what_is_configured_is_there(tmp_path):
    """Nothing without a word; each of the three with its own."""
    assert configured() == ([], [])
    secret = tmp_path / "webhook"
    secret.write_text("https://hooks.example.org/xyz\n")
    assert configured(
        notify_command=["cat"],
        notify_webhook_file=str(secret),
        notify_email_to="{user}@example.org",
        notify_smtp="mail.example.org",
    ) == ([("command", "cat"), ("webhook", "hooks.example.org"), ("e-mail", "mail.example.org")], [])


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"notify_command": ["/no/such/thing"]}, "notify_command names no command that is here: '/no/such/thing'"),
        ({"notify_webhook": "hunter2"}, "notify_webhook gives no address that begins with https:// and names a host"),
        ({"notify_webhook": "http://h:hunter2/"}, "notify_webhook gives no address"),
        ({"notify_webhook_file": "/no/such/thing"}, "notify_webhook_file cannot be read (No such file or directory)"),
        ({"notify_email_to": "a@b.org"}, "notify_smtp is not given"),
        ({"notify_smtp": "mail.example.org"}, "notify_email_to is not given"),
        ({"notify_webhook": "http://h/hunter2"}, "notify_webhook gives no address that begins with https:// and"),
        ({"notify_command": ["tell-me https://h/hunter2"]}, "notify_command is a list of words, each by itself"),
        ({"notify_command": ["https://h/hunter2?a"]}, "notify_command names no command that is here."),
        ({"notify_email_to": "a@b.org", "notify_smtp": "h:hunter2"}, "notify_smtp names no server"),
        ({"notify_email_to": "a@b.org", "notify_smtp": "h/hunter2"}, "notify_smtp names no server"),
        (
            {"notify_email_to": "a@b.org", "notify_smtp": "anna:hunter2@mail.example.org:587"},
            "notify_smtp holds an @; write mail.example.org:587, and the user and the password into a file that notify",
        ),
        ({"notify_email_to": "a@b.org", "notify_smtp": "anna:hunter2@mail.example.org:x"}, "notify_smtp holds an @"),
        ({"notify_email_to": "a@b.org", "notify_smtp": "smtp://anna:hunter2@h"}, "notify_smtp holds an @"),
        ({"notify_email_to": "a@b.org", "notify_smtp": "smtp://h:587"}, "notify_smtp begins like the address of a"),
        (
            {"notify_email_to": "a@b.org;hunter2", "notify_smtp": "h"},
            "notify_email_to or notify_email_from cannot be used: it is not one e-mail address",
        ),
        ({"notify_email_to": "anna", "notify_smtp": "h"}, "notify_email_to or notify_email_from cannot be used"),
        (
            {"notify_email_to": "a@b.org", "notify_smtp": "h", "notify_smtp_login_file": "/no/such/thing"},
            "notify_smtp_login_file cannot be read",
        ),
        (
            {
                "notify_email_to": "a@b.org",
                "notify_smtp": "h",
                "notify_smtp_login_file": "x",
                "notify_smtp_security": "none",
            },
            "notify_smtp_login_file would be sent for all to read",
        ),
    ],
)
def test_what_cannot_be_used_is_named_and_shown_without_secrets(said, fault):
    """The other ways stay."""
    ways, faults = configured(**said) if "notify_command" in said else configured(notify_command=["cat"], **said)
    assert ways == ([] if "notify_command" in said else [("command", "cat")])
    assert len(faults) == 1
    assert f"c.GpuGuard.{fault}" in faults[0]
    assert "hunter2" not in faults[0]


def test_a_user_without_a_name_gets_no_e_mail():
    """Nobody else gets it either."""
    ways, faults = configured(Site(), notify_email_to="{user}@example.org", notify_smtp="mail.example.org")
    assert (ways, len(faults)) == ([], 1)


@pytest.mark.parametrize(("user", "names"), [(None, True), ("anna", False)])
def test_at_a_hub_hooks_learn_no_names_unless_they_shall(monkeypatch, user, names):
    """There they may lead to others than the user."""
    monkeypatch.delenv("JUPYTERHUB_USER", raising=False)
    if user is not None:
        monkeypatch.setenv("JUPYTERHUB_USER", user)
    assert GpuGuard().notify_names is names
    assert GpuGuard(notify_names=True).notify_names


@pytest.mark.parametrize(
    ("custom", "public", "environment", "link"),
    [
        ("", "http://localhost:8888/lab?token=hunter2", {}, "http://localhost:8888/lab"),
        ("https://u:hunter2@gpu.example.org/x?token=hunter2", "", {}, "https://gpu.example.org/x"),
        ("", "http+unix://%2Frun/lab", {}, ""),
        ("", "http://10.0.0.7:8888/user/anna/?token=hunter2", {"JUPYTERHUB_USER": "anna"}, ""),
        (
            "",
            "http://10.0.0.7:8888/",
            {"JUPYTERHUB_USER": "anna", "JUPYTERHUB_PUBLIC_URL": "https://hub.example.org/user/anna/"},
            "https://hub.example.org/user/anna/",
        ),
    ],
)
def test_a_link_leads_to_the_server_and_holds_no_secret(custom, public, environment, link):
    """At a hub only the hub knows the address; else the server does."""
    server = SimpleNamespace(custom_display_url=custom, public_url=public)
    assert link_to(server, environment) == link
