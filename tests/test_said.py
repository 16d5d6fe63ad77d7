"""What effects and sources say is known by its code, so that other languages can say it."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest
from fake_clock import NOON

import jupyter_gpu_guard
from jupyter_gpu_guard.core.model import (
    Device,
    DeviceState,
    Evidence,
    GpuClient,
    GpuProcess,
    Holder,
    Holding,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    Parked,
    Process,
    ProcessKey,
    Unknown,
    Why,
)
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Result
from jupyter_gpu_guard.effects import aftermath, farewell, release, resume
from jupyter_gpu_guard.effects.enforcer import _WOULD
from jupyter_gpu_guard.effects.held import Grip, Held
from jupyter_gpu_guard.effects.signals import Sent
from jupyter_gpu_guard.parking import asking, conditions, target
from jupyter_gpu_guard.parking.answer import Answer, State
from jupyter_gpu_guard.parking.room import Lack
from jupyter_gpu_guard.protocols import DevicesSeen
from jupyter_gpu_guard.server import rules
from jupyter_gpu_guard.server.said import of_gap, of_outcome, of_policy_fault, of_problem
from jupyter_gpu_guard.server.sentences import GAPS, OUTCOMES, PROBLEMS
from jupyter_gpu_guard.sources import nvml_library, nvml_pids, nvml_words

GIB = 2.0**30
GRIP = Grip(ProcessKey(7, 7), "GPU-a", 6 * GIB, Process(ProcessKey(7, 7), 1, 7, 7, "D", NOON))
NOT_KNOWN = Grip(ProcessKey(7, 7), "GPU-a", Unknown(Why.NOT_READ), None)
NOTHING = Held(grips=(), whole=True)
NOT_WHOLE = Held(grips=(), whole=False)
SOME = Held(grips=(GRIP,), whole=True)
LABELLED = Held(grips=(GRIP,), whole=True, labels={"GPU-a": "GPU 0"})
LESS = Held(grips=(replace(GRIP, memory=2 * GIB),), whole=True)
VAGUE = Held(grips=(NOT_KNOWN,), whole=True)


def codes(detail: str) -> list[str]:
    """Of each part."""
    return [code for code, _, _ in of_outcome(detail)]


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("freed 5.9 GiB in 2.1 s", ["freed-in"]),
        ("ended in 0.4 s; it held no GPU memory", ["ended-in", "held-nothing"]),
        ("freed 1.0 GiB in 2.1 s, but 300 MiB still held by pid 7 (state D)", ["freed-but-held"]),
        ("it had ended by itself; 3.0 GiB are free again", ["ended-by-itself", "free-again"]),
        (
            "Jupyter could not shut it down (OSError; the server's log says more); nothing else was done to it",
            ["refused", "nothing-else-done"],
        ),
        ("2.0 GiB were moved to the host's memory in 1.5 s; the kernel lives on", ["moved-to-host", "lives-on"]),
        ("something that nobody has thought of; it computes again", ["", "computes-again"]),
        ("", []),
    ],
)
def test_a_detail_is_told_part_by_part(detail: str, expected: list[str]) -> None:
    """Each clause has its code; one that is not known has none, and its text stays."""
    assert codes(detail) == expected
    assert "; ".join(text for _, text, _ in of_outcome(detail)) == detail


def test_facts_are_in_base_units() -> None:
    """Amounts in bytes, spans in seconds, names as they are."""
    assert of_outcome("freed 1.5 GiB in 2.1 s, but 300 MiB still held by pid 7 (state D)")[0][2] == {
        "freed_bytes": 1.5 * GIB,
        "took_seconds": 2.1,
        "held_bytes": 300 * 2**20,
        "who": "pid 7 (state D)",
    }
    assert of_outcome("3 processes that it had started, without GPU memory, left alone")[0][2] == {"process_count": 3}


@pytest.mark.parametrize("result", [Result.DONE, Result.ALREADY_GONE])
@pytest.mark.parametrize("before", [None, NOTHING, SOME, LABELLED])
@pytest.mark.parametrize("after", [None, NOTHING, NOT_WHOLE, SOME, LESS, VAGUE])
@pytest.mark.parametrize("living", [0, 1, 3])
def test_whatever_a_shutdown_says_is_known(
    result: Result, before: Held | None, after: Held | None, living: int
) -> None:
    """No combination of what was seen leads to a clause without a code."""
    detail = aftermath.say(result, before, after, [None] * living, 2.5, {})  # type: ignore[list-item]
    assert all(codes(detail)), detail


@pytest.mark.parametrize("after", [None, NOTHING, SOME])
@pytest.mark.parametrize("fault", [None, "RuntimeError"])
@pytest.mark.parametrize("pool", [True, False])
@pytest.mark.parametrize("live", [0, GIB])
def test_whatever_a_release_says_is_known(after: Held | None, fault: str | None, pool: bool, live: float) -> None:
    """The same of a release."""
    row = {"name": "PyTorch", "before": 3 * GIB, "after": GIB, "live": live, "pool": pool, "fault": fault}
    for told in ([], [row]):
        for before in (SOME, LABELLED):
            detail = release.say(told, before, after, by_error=GIB)
            assert all(codes(detail)), detail


ROOT = ProcessKey(8, 8)
OWNER = Owner(OwnerKey(OwnerKind.KERNEL, "k"), "a.ipynb", ROOT, OwnerState.IDLE)
HOLDER = Holder(OWNER, tree=(ROOT,))
ESTIMATE = GpuProcess(ROOT, "GPU-a", GIB, 0.0, NOON, evidence=Evidence.ESTIMATE)
DEVICE = Device("GPU-a", 0, "H100", 80 * GIB, 2 * GIB)
CLIENT = GpuClient("GPU-a", ROOT.pid, GIB, 0.0)


def seen(device: Device = DEVICE, *clients: GpuClient) -> DevicesSeen:
    """One look at one device."""
    return DevicesSeen(devices=(device,), clients=clients or (CLIENT,))


@pytest.mark.parametrize(
    ("holder", "devices"),
    [
        (replace(HOLDER, owner=replace(OWNER, key=OwnerKey(OwnerKind.TERMINAL, "1"))), seen()),
        (replace(HOLDER, owner=replace(OWNER, root=None)), seen()),
        (replace(HOLDER, owner=replace(OWNER, parked=Parked(NOON, GIB))), seen()),
        (replace(HOLDER, owner=replace(OWNER, state=OwnerState.EXECUTING)), seen()),
        (replace(HOLDER, holdings=(Holding("GPU-a", (ESTIMATE,)),)), seen()),
        (replace(HOLDER, unknown=Unknown(Why.NOT_READ)), seen()),
        (HOLDER, DevicesSeen(gaps=(nvml_words.nameless(0, Unknown(Why.NOT_READ, "x")),))),
        (HOLDER, DevicesSeen(devices=(DEVICE,))),
        (HOLDER, DevicesSeen(clients=(CLIENT,))),
        (HOLDER, seen(replace(DEVICE, state=DeviceState.LOST))),
        (HOLDER, seen(replace(DEVICE, mig=True))),
        (HOLDER, seen(DEVICE, replace(CLIENT, type="M+C"))),
        (HOLDER, seen(DEVICE, replace(CLIENT, type="C+G"))),
        (HOLDER, seen(DEVICE, replace(CLIENT, memory=Unknown(Why.NOT_READ)))),
        (HOLDER, seen(replace(DEVICE, memory_used=50 * GIB))),
    ],
)
def test_whatever_forbids_parking_is_known(holder: Holder, devices: DevicesSeen) -> None:
    """Each obstacle that a look at a kernel and its devices shows."""
    refusal = conditions.load_of(holder, [ROOT], devices)
    assert isinstance(refusal, str)
    assert all(codes(refusal)), refusal


@pytest.mark.parametrize("free", [2 * GIB, Unknown(Why.NOT_READ)])
@pytest.mark.parametrize("holders", ["", "b.ipynb 3.0 GiB, others (not known how much)"])
@pytest.mark.parametrize("device", ["GPU 0", "its device"])
def test_whatever_a_kernel_waits_for_is_known(free: float | Unknown, holders: str, device: str) -> None:
    """Room on a device, whoever has it."""
    (said,) = of_outcome(resume._waits(Lack("GPU-a", device, 3 * GIB, free), holders))
    assert said.code
    assert said.facts["device"] == device
    assert said.facts["needed_bytes"] == 3 * GIB
    assert said.facts.get("who", "") == holders


@pytest.mark.parametrize("state", list(State))
def test_whatever_came_of_a_failed_resume_is_known(state: State) -> None:
    """With and without a reason of the driver."""
    for fault in (None, "the driver refuses the step restore (CUDA_ERROR_OUT_OF_MEMORY)"):
        assert all(codes(resume._say_failed(Answer(state, "restore", fault, 1.0))))


def test_whatever_the_helper_of_parking_says_is_known(tmp_path: Path) -> None:
    """That it did not answer, what is to be installed, and whose process it is not."""
    assert all(codes(asking.INSTALL)), asking.INSTALL
    assert all(codes(f"{asking.INSTALL} (12.8 or later)"))
    silent = asking._read("park", b"", -14).fault
    assert silent is not None
    assert all(codes(silent))
    gone = target.why_not(ROOT, tmp_path)
    assert gone is not None
    assert all(codes(gone))


@pytest.mark.parametrize("device", ["GPU 0", "its device"])
def test_why_a_parked_kernel_is_not_ended_is_known(device: str) -> None:
    """There is no room for what it saves, or the driver does not bring it back."""
    parts = of_outcome(resume.say_no_room(Lack("GPU-a", device, 3 * GIB, GIB)))
    assert [part.code for part in parts] == ["parked-no-room", "resume-first"]
    assert parts[0].facts == {"device": device}
    assert all(codes(f"{resume.MAY_SAVE}; {resume._say_failed(Answer(State.CHECKPOINTED, 'restore', None, 1.0))}"))


def test_whatever_a_farewell_says_is_known() -> None:
    """What was called, what failed, and what there was no time for."""
    told = {"done": ["save", "close"], "failed": [("push", "OSError")], "left": ["tidy"]}
    assert codes(farewell.say_farewell(told)) == ["farewell-called", "farewell-failed", "farewell-no-time"]


@pytest.mark.parametrize("sent", [None, *Sent])
@pytest.mark.parametrize("state", [None, "D", "S"])
def test_why_a_process_lives_on_is_known(sent: Sent | None, state: str | None) -> None:
    """Whatever became of the signal, and whatever it waits for."""
    process = None if state is None else Process(ROOT, 1, 8, 8, state, NOON)
    assert all(codes(aftermath.say_it_lives(8, process, sent)))


def test_whatever_is_rehearsed_is_known() -> None:
    """What a rule would have done."""
    for action in (Action.WARN, Action.RELEASE, Action.PARK, Action.SHUTDOWN):
        assert all(codes(f"mode observe: {_WOULD[action]}"))


def test_whatever_is_wrong_with_the_driver_is_known() -> None:
    """Each trouble with the driver as a whole, and each reason why it is not known who is on a device."""
    for sentence in nvml_library._TROUBLE.values():
        assert of_gap(sentence)[0], sentence
    for why in (Why.PIDS_HIDDEN, Why.NO_PERMISSION, Why.NOT_SUPPORTED, Why.DRIVER_ERROR):
        sentence = f"NVIDIA H100: {nvml_words.who_is_unknown(Unknown(why, 'error 9'))}"
        code, text, facts = of_gap(sentence)
        assert code, sentence
        assert (text, facts["device"]) == (sentence, "NVIDIA H100")

    for gap in (nvml_words.nameless(0, Unknown(Why.DRIVER_ERROR, "error 9")),):
        assert of_gap(gap.why).code
    for said in (
        nvml_words.who_is_unknown(nvml_pids.NOT_YET),
        nvml_words.who_is_unknown(Unknown(Why.IMPLAUSIBLE, "it names a process 0: they disagree")),
        nvml_words.instances_unknown(Unknown(Why.DRIVER_ERROR, "error 9")),
        nvml_words.ESTIMATED,
    ):
        assert of_gap(f"NVIDIA H100: {said}").code, said


def test_what_users_are_told_of_a_policy_is_known() -> None:
    """They are not told where the fault is; whoever is, reads it as it was written."""
    for fault in (rules._KEPT, rules._NONE):
        said = of_policy_fault(fault)
        assert said is not None
        assert said.code
    assert of_problem(rules.WAITS)[0].code
    assert of_policy_fault("site.yaml:3:1: 'fro' is not known; write for") is None
    assert of_policy_fault(None) is None


def test_a_problem_that_says_two_things_is_told_part_by_part(tmp_path: Path) -> None:
    """Also where the first would take in the second."""
    two = of_problem(
        f"The leases cannot be saved in {tmp_path} (No space left on device). Lost: 1 entry of the audit in /x."
    )
    assert [part.code for part in two] == ["leases-unsaved", "audit-lost-one"]
    assert [part.code for part in of_problem("Something that nobody has thought of.")] == [""]
    assert [part.code for part in of_problem(GAPS["no-driver"])] == ["no-driver"]
    assert of_problem(PROBLEMS["policy-waits-for"].format(hash="a1", newly_count=1, holder_count=2, command="x"))[
        0
    ].code


def test_each_code_is_one_template() -> None:
    """A template is told by itself alone, and no code is used twice."""
    assert len({*OUTCOMES, *GAPS, *PROBLEMS}) == len(OUTCOMES) + len(GAPS) + len(PROBLEMS)
    example = {
        "devices": "GPU 0, GPU 1 and GPU 2 MIG 0",
        "bytes": "1.5 GiB",
        "seconds": "2",
        "count": "3",
        "pid": "7",
        "index": "0",
        "port": "6006",
    }
    tell = ((OUTCOMES, of_outcome), (GAPS, lambda text: [of_gap(text)]), (PROBLEMS, of_problem))
    for templates, of in tell:
        for code, template in templates.items():
            text = re.sub(r"\{(\w+)\}", lambda name: example.get(name[1].rpartition("_")[2], "words"), template)
            assert [said.code for said in of(text)] == [code], text


# Who makes sentences for the report, and what they write out besides: code, and what stands within a sentence as it is.
MAKERS: dict[str, set[str]] = {
    "accounts.py": set(),
    "core/entry.py": set(),
    "effects/aftermath.py": set(),
    "effects/doors.py": set(),
    "effects/enforcer.py": set(),
    "effects/farewell.py": set(),
    "effects/inside.py": {"another language"},
    "effects/last_word.py": set(),
    "effects/park.py": set(),
    "effects/release.py": set(),
    "effects/resume.py": set(),
    "effects/shutdown.py": set(),
    "observe.py": {"a part of what the driver had to tell came too late"},
    "parking/asking.py": set(),
    "parking/conditions.py": set(),
    "parking/operate.py": set(),
    "parking/registry.py": set(),
    "parking/target.py": set(),
    "sources/nvml.py": set(),
    "sources/nvml_cards.py": {"it says that there may be", "the driver was opened again"},
    "sources/nvml_library.py": {
        "an unknown place",
        "nvidia-ml-py has no",
        "pip uninstall -y pynvml nvidia-ml-py && pip install nvidia-ml-py, then restart this server",
        ", to a question that it has answered before",
    },
    "sources/nvml_words.py": set(),
    "sources/several.py": set(),
    "sources/simulated.py": set(),
}


def without_names(text: str) -> str:
    """`text` with no commands in it, which no language translates."""
    return re.sub("`.*?`", "`\0`", text)


def words_of(module: str) -> set[str]:
    """What is written out in `module` and may be read by people: no names, no documentation, no lines of the log."""
    tree = ast.parse((Path(jupyter_gpu_guard.__file__).parent / module).read_text(encoding="utf-8"))
    apart: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            docs = node.value
            apart |= {id(docs)} if isinstance(docs, ast.Constant) else set()
            called = docs.func if isinstance(docs, ast.Call) else None
            if isinstance(called, ast.Attribute) and "log" in ast.unparse(called):
                apart |= {id(part) for part in ast.walk(docs)}
    found = {
        without_names(node.value.removeprefix(" GiB"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in apart
    }
    parts = {part.strip() for text in found if "\n" not in text and "lambda" not in text for part in text.split("; ")}
    return {part for part in parts if re.search(r"[a-z] [a-z]", part)}


@pytest.mark.parametrize("module", MAKERS)
def test_no_maker_of_sentences_has_words_of_its_own(module: str) -> None:
    """Whoever adds a sentence adds its code too."""
    templates = (*OUTCOMES.values(), *GAPS.values(), *PROBLEMS.values())
    known = [without_names(re.sub(r"\{\w+\}", "\0", text)) for text in templates]
    strange = {words for words in words_of(module) if not any(words in text for text in known)}
    assert strange == MAKERS[module]


def seen_by_the_tests() -> set[str]:
    """Whole details with which the tests of park and resume compare what really came."""
    tree = ast.parse((Path(__file__).parent / "effects/test_park.py").read_text(encoding="utf-8"))
    compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare) and "detail" in ast.unparse(node.left)]
    texts = {part.value for node in compared for part in ast.walk(node) if isinstance(part, ast.Constant)}
    return {text for text in texts if isinstance(text, str)}


def test_whatever_parks_and_resumes_says_is_known() -> None:
    """Clause by clause, as the tests of these effects see it."""
    seen = {text for text in seen_by_the_tests() if re.search(r"\d s(;|$)|waits for room", text)}
    assert len(seen) > 2
    assert not [text for text in seen if not all(codes(text))]
