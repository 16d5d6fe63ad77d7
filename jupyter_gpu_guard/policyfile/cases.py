"""Tests of a policy, beside it: holders as files describe them, and what should be said about them.

Each case is judged by the code that judges in a guard. What is not given is ordinary: an idle kernel that has been seen
for as long as it is idle, on a device with room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from yaml.nodes import Node, ScalarNode

from jupyter_gpu_guard.core.budget import Amount
from jupyter_gpu_guard.core.explain import sentence
from jupyter_gpu_guard.core.judge import Bench, judge
from jupyter_gpu_guard.core.ledger import Case, Ledger
from jupyter_gpu_guard.core.model import (
    Activity,
    Device,
    GpuProcess,
    Holder,
    Holding,
    Instant,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    ProcessKey,
)
from jupyter_gpu_guard.core.policy import STAGES, Action, Around, Policy, Site
from jupyter_gpu_guard.core.trickle import Stretch
from jupyter_gpu_guard.core.verdict import Code, Lease, Verdict
from jupyter_gpu_guard.core.window import Peak, Window

from . import grammar, values
from .draft import Placed
from .grammar import AGE, CASES_SUFFIX, Key, ListOf, Named, Number, Only, Quantity, Section, Text, Words
from .marked import compose, read_text
from .nodes import Nodes
from .problems import Place, PolicyError, Problem, suggestion

_ROOT = ProcessKey(100, 1)
_ROOM = 80 * 2.0**30  # bytes of a device
_LONG_AGO = 100_000_000.0  # monotonic seconds: before it, anything may have happened

ANY_SHARE: Quantity[float] = Quantity(values.any_share, grammar.SHARE.pattern, "40%")

GIVEN = Section(
    "given",
    {
        "user": Key(Text("anna"), "The name of the user."),
        "groups": Key(ListOf(Text("students"), alone=True), "The groups of the user."),
        "server": Key(Text("big-card"), "The name of the server."),
        "owner": Key(grammar.MATCH.keys["owner"].kind, "The kind of owner; a kernel."),
        "notebook": Key(Text("lectures/1.ipynb"), "The path of the notebook."),
        "kernelspec": Key(Text("python3"), "The name of the kernelspec."),
        "state": Key(Words(tuple(state.value for state in OwnerState)), "What it is doing; idle."),
        "device": Key(Text("NVIDIA H200"), "The name of its GPU."),
        "device_free": Key(ANY_SHARE, "How much memory of its GPU is free; 90%."),
        "memory": Key(grammar.MEMORY, "The GPU memory that it holds; 8GiB."),
        "compute": Key(ANY_SHARE, "Its compute at this moment; 0%."),
        "mean": Key(ANY_SHARE, "Its mean compute for all the time that it was seen."),
        "idle": Key(AGE, "For how long it was seen idle."),
        "unused": Key(AGE, "For how long it was seen unused, whatever it computed."),
        "age": Key(AGE, "How long ago it was started."),
        "at": Key(grammar.MOMENT, "The time at which it is judged."),
        "used": Key(Named(Number()), "What was used of budgets, by their names; nothing."),
        "kept": Key(Only(value=True), "A person keeps it."),
        "warned": Key(AGE, "How long ago the first warning was delivered."),
    },
)
EXPECT = Section(
    "expect",
    {
        "rule": Key(Text("students"), "The rule that decides."),
        "action": Key(Words(tuple(action.value for action in (Action.KEEP, *STAGES))), "What happens now."),
        "next": Key(Words(tuple(action.value for action in STAGES)), "What follows."),
        "reason": Key(Words(tuple(code.value for code in Code)), "A reason that is given."),
    },
)
CASE = Section(
    "a case",
    {
        "name": Key(Text("a student's idle kernel"), "What it shows."),
        "given": Key(GIVEN, "The holder."),
        "expect": Key(EXPECT, "What is said about it."),
    },
    required=("name", "given", "expect"),
)
CASES = Section(
    "the file",
    {
        "version": Key(Only(int(grammar.VERSION)), "The version of this format."),
        "cases": Key(ListOf(CASE), "Judged one by one."),
    },
    required=("version", "cases"),
)


@dataclass(frozen=True)
class Expected:
    """One thing that should be said: about `what`, one of `words`, by the file at `place`."""

    what: str
    word: str
    place: Place


@dataclass(frozen=True)
class Scene:
    """One case: a holder with all that a judgement needs, and what is expected."""

    name: str
    holder: Holder
    window: Window | None
    device: Device
    site: Site
    at: datetime
    is_kept: bool
    warned_for: timedelta | None
    expected: tuple[Expected, ...]
    used: Mapping[str, Placed[float]] = field(default_factory=dict)


def policy_beside(path: Path) -> Path:
    """The policy that a cases file is about: `site.yaml` for `site.cases.yaml`."""
    return path.with_name(path.name.removesuffix(CASES_SUFFIX) + ".yaml")


def read_cases(path: Path) -> tuple[Scene, ...]:
    """The cases in a file. Raises PolicyError with every problem."""
    problems: list[Problem] = []
    text = read_text(path)
    if isinstance(text, Problem):
        raise PolicyError([text])
    root = compose(text, str(path), problems)
    scenes = _Reader(Nodes(str(path), problems)).file(root) if root is not None else ()
    if problems:
        raise PolicyError(problems)
    return scenes


def failures(scenes: Sequence[Scene], policy: Policy) -> list[Problem]:
    """What `policy` says otherwise than expected, each with the place of the expectation."""
    known = {budget.name for budget in policy.budgets}
    wrong = []
    for scene in scenes:
        for name, used in scene.used.items():
            if name not in known:
                right = suggestion(name, known) if known else "remove `used`: the policy has no budgets"
                wrong.append(Problem(used.place, f"{scene.name}: no budget is called {name!r}", right))
        wrong += _failures(scene, judged(scene, policy))
    return wrong


def judged(scene: Scene, policy: Policy) -> Verdict:
    """What is said about one holder."""
    key = scene.holder.owner.key
    now = Instant(scene.at, _LONG_AGO)
    cases = {}
    devices = {scene.device.uuid: scene.device}
    spending = {
        account: Amount(scene.used[budget.name].value)
        for budget in policy.budgets
        if budget.name in scene.used
        for account in budget.accounts(key, scene.site)
    }
    if scene.warned_for is not None:
        rule = policy.rule_for(scene.holder, Around(devices, now.wall, scene.site, spending))
        warned_at = now.monotonic - scene.warned_for.total_seconds()
        cases[key] = Case(key, _ROOT, rule.name, warned_at, stages_done=1, warned_at=warned_at)
    bench = Bench(
        policy=policy,
        windows={} if scene.window is None else {key: scene.window},
        leases={key: Lease(key, scene.at + timedelta(hours=1), "", "somebody")} if scene.is_kept else {},
        ledger=Ledger(cases),
        devices=devices,
        now=now,
        site=scene.site,
        spending=spending,
    )
    (verdict,) = judge((scene.holder,), bench)
    return verdict


def _failures(scene: Scene, verdict: Verdict) -> list[Problem]:
    reasons = [reason.code.value for reason in verdict.reasons]
    said: Mapping[str, Sequence[str]] = {
        "rule": [verdict.rule],
        "action": [verdict.action.value],
        "next": [verdict.next_action.value] if verdict.next_action else ["nothing"],
        "reason": reasons,
    }
    why = " ".join(sentence(reason) for reason in verdict.reasons)
    return [
        Problem(
            expected.place,
            f"{scene.name}: {expected.what} is {', '.join(said[expected.what])}, not {expected.word}",
            f"rule {verdict.rule} says: {why}",
        )
        for expected in scene.expected
        if expected.word not in said[expected.what]
    ]


class _Reader:
    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def file(self, root: Node) -> tuple[Scene, ...]:
        keys = self._nodes.mapping(root, "the file", CASES)
        if keys is None or not self._nodes.required(root, keys, CASES):
            return ()
        if getattr(keys["version"], "value", None) != grammar.VERSION:
            self._nodes.say(keys["version"], "this is not a known version", f"write `version: {grammar.VERSION}`")
        scenes = (self._case(item) for item in self._nodes.items(keys["cases"], "cases"))
        return tuple(scene for scene in scenes if scene is not None)

    def _case(self, node: Node) -> Scene | None:
        read = self._nodes
        keys = read.mapping(node, "a case", CASE)
        if keys is None or not read.required(node, keys, CASE):
            return None
        name = read.text(keys["name"], "a name")
        given = read.section(keys["given"], GIVEN)
        expect = read.section(keys["expect"], EXPECT)
        if not expect:
            read.say(keys["expect"], "a case that expects nothing", "add for example `action: keep`")
        expected = tuple(
            Expected(what, text.value, text.place)
            for what, value in expect.items()
            if (text := self._choice(value, EXPECT, what)) is not None
        )
        return self._scene(name.value if name else "", given, expected)

    def _choice(self, node: Node, section: Section, key: str) -> Any:
        """The text of a key, if it is one of those that may stand there."""
        kind = section.keys[key].kind
        text = self._nodes.text(node, key)
        if text is not None and isinstance(kind, Words) and text.value not in kind.words:
            self._nodes.say(node, f"{text.value!r} is not known as {key}", suggestion(text.value, kind.words))
            return None
        return text

    def _scene(self, name: str, given: Mapping[str, Node], expected: tuple[Expected, ...]) -> Scene:
        read = self._nodes

        def text(key: str) -> str | None:
            found = self._choice(given[key], GIVEN, key) if key in given else None
            return None if found is None else str(found.value)

        def amount(key: str, otherwise: float, kind: Quantity[float] = ANY_SHARE) -> float:
            found = read.quantity(given.get(key), kind)
            return otherwise if found is None else found.value

        def span(key: str) -> timedelta | None:
            found = read.quantity(given.get(key), AGE)
            return None if found is None else found.value

        moment = read.quantity(given.get("at"), grammar.MOMENT)
        if moment is not None and moment.value.tzinfo is None:
            read.say(given["at"], "a moment without a time zone", "write Z or for example +01:00 at its end")
        at = values.in_zone(moment.value, timezone.utc) if moment else datetime.now(timezone.utc)
        kind = text("owner") or OwnerKind.KERNEL.value
        usual = OwnerState.DEAD if kind == OwnerKind.LEFTOVERS.value else OwnerState.IDLE
        state = text("state") or usual.value
        memory, compute = amount("memory", 8 * 2.0**30, grammar.MEMORY), amount("compute", 0.0)
        idle, unused, age = span("idle"), span("unused"), span("age")
        owner = Owner(
            key=OwnerKey(OwnerKind(kind), "case"),
            name=name,
            root=_ROOT,
            state=OwnerState(state),
            notebook=text("notebook"),
            kernelspec=text("kernelspec"),
            started_at=None if age is None else at - age,
        )
        row = GpuProcess(_ROOT, "device", memory, compute, owner.started_at or at)
        return Scene(
            name=name,
            holder=Holder(owner, (Holding("device", (row,)),), (_ROOT,), activity=Activity()),
            window=_window(idle, unused, compute, amount("mean", compute)),
            device=_device(text("device") or "GPU", amount("device_free", 90.0)),
            site=Site(text("user"), self._groups(given.get("groups")), text("server")),
            at=at,
            is_kept=(kept := read.yes_or_no(given.get("kept"))) is not None and kept.value,
            warned_for=span("warned"),
            expected=expected,
            used=self._used(given.get("used")),
        )

    def _used(self, node: Node | None) -> dict[str, Placed[float]]:
        read = self._nodes
        right = "write for example used: {student-week: 45}"
        found = {}
        for key, value in (read.pairs(node, "'used'", right) or ()) if node is not None else ():
            name, used = read.text(key, "the name of a budget"), read.number(value, "what was used", right)
            if name is not None and used is not None:
                found[name.value] = used
        return found

    def _groups(self, node: Node | None) -> frozenset[str]:
        read = self._nodes
        items = () if node is None else (node,) if isinstance(node, ScalarNode) else read.items(node, "groups")
        return frozenset(text.value for item in items if (text := read.text(item, "a group")) is not None)


def _device(name: str, free: float) -> Device:
    """A GPU, or a MIG instance if its name says so."""
    return Device("device", 0, name, _ROOM, _ROOM * (1 - free / 100), mig=" MIG " in name)


def _window(idle: timedelta | None, unused: timedelta | None, compute: float, mean: float) -> Window | None:
    """What was seen: for as long as it was idle or unused; None: it has been seen only once."""
    seen = max((span for span in (idle, unused) if span is not None), default=None)
    if seen is None:
        return None
    now, seconds = _LONG_AGO, seen.total_seconds()
    window = Window(root=_ROOT, began=now - seconds, at=now, compute=compute)
    stretch = Stretch(window.began, now, mean * seconds, max(mean, compute))
    since = now - idle.total_seconds() if idle is not None else now
    peaks = (Peak(100.0, since),) if since > window.began else ()
    return replace(window, peaks=peaks, stretch=stretch)
