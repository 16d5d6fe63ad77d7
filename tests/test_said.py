"""What effects and sources say is known by its code, so that other languages can say it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from fake_clock import NOON

from jupyter_gpu_guard.core.model import Process, ProcessKey, Unknown, Why
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Result
from jupyter_gpu_guard.effects import aftermath, release
from jupyter_gpu_guard.effects.enforcer import _WOULD
from jupyter_gpu_guard.effects.held import Grip, Held
from jupyter_gpu_guard.server.said import GAPS, OUTCOMES, of_gap, of_outcome
from jupyter_gpu_guard.sources import nvml_library, nvml_words

GIB = 2.0**30
GRIP = Grip(ProcessKey(7, 7), "GPU-a", 6 * GIB, Process(ProcessKey(7, 7), 1, 7, 7, "D", NOON))
NOT_KNOWN = Grip(ProcessKey(7, 7), "GPU-a", Unknown(Why.NOT_READ), None)
NOTHING = Held(grips=(), whole=True)
NOT_WHOLE = Held(grips=(), whole=False)
SOME = Held(grips=(GRIP,), whole=True)
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
@pytest.mark.parametrize("before", [None, NOTHING, SOME])
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
        detail = release.say(told, SOME, after, by_error=GIB)
        assert all(codes(detail)), detail


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


def test_each_code_is_one_template() -> None:
    """A template is told by itself alone, and no code is used twice."""
    assert not OUTCOMES.keys() & GAPS.keys()
    example = {"bytes": "1.5 GiB", "seconds": "2", "count": "3", "pid": "7", "index": "0"}
    for templates in (OUTCOMES, GAPS):
        for code, template in templates.items():
            text = re.sub(r"\{(\w+)\}", lambda name: example.get(name[1].rpartition("_")[2], "words"), template)
            said = of_outcome(text)[0] if templates is OUTCOMES else of_gap(text)
            assert said[0] == code, text
