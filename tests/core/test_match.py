"""Conditions about whose server it is, the time, the age, and how scarce the device is."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import timedelta, timezone

import pytest

from jupyter_gpu_guard.core.calendars import Calendar, Hours
from jupyter_gpu_guard.core.model import Device, Reading
from jupyter_gpu_guard.core.policy import Around, Exemption, Match, Site, free_percent
from jupyter_gpu_guard.core.verdict import Code, Protection

from .build import GIB, GONE, NOON, codes, device, holder, owner, policy, rule, verdict_on

ADA = Site("ada", frozenset({"students", "gpu-lab"}), "big-card")


def on(used: Reading = 0.0, *, total: Reading = 80 * GIB, reserved: Reading = 0.0) -> Around:
    """Ada's server at noon, on a device of which so much is used."""
    return Around({"gpu-0": Device("gpu-0", 0, "H200", total, used, reserved)}, NOON, ADA)


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        (Match(user="ada"), True),
        (Match(user="a*"), True),
        (Match(user="bob"), False),
        (Match(user="Ada"), False),
        (Match(group="students"), True),
        (Match(group="gpu-*"), True),
        (Match(group="staff"), False),
        (Match(server="big-*"), True),
        (Match(server="small"), False),
        (Match(user="ada", group="staff"), False),
    ],
)
def test_a_rule_may_be_about_people_and_servers(match: Match, holds: object) -> None:
    """Names are patterns with case; of groups, any one will do."""
    assert match.holds(holder(), on()) is holds


@pytest.mark.parametrize("match", [Match(user="*"), Match(group="*"), Match(server="*")])
def test_what_is_not_known_of_a_site_matches_nothing(match: Match) -> None:
    """Nobody is nobody, not everybody."""
    assert not match.holds(holder(), Around({}, NOON))


def test_the_memory_that_must_be_held() -> None:
    """At least so much; an amount that is not known is not enough."""
    match = Match(memory_above=12 * GIB)
    assert match.holds(holder(12 * GIB), on())
    assert not match.holds(holder(12 * GIB - 1), on())
    assert not match.holds(holder(GONE), on())


def test_a_device_of_which_little_is_free() -> None:
    """Less than the share; reserved memory is not free, and what is not known is not scarce."""
    match = Match(device_free_below=10)
    assert match.holds(holder(), on(73 * GIB))
    assert not match.holds(holder(), on(72 * GIB))  # exactly 10 %
    assert match.holds(holder(), on(72 * GIB, reserved=GIB))
    for unknown in (on(GONE), on(79 * GIB, total=GONE), on(79 * GIB, reserved=GONE)):
        assert not match.holds(holder(), unknown)
    assert not match.holds(holder(compute=()), on(79 * GIB))
    assert free_percent(device()) == 100
    assert free_percent(replace(device(), memory_total=1.0)) == 100
    assert free_percent(replace(device(), memory_total=0.0)) == 0  # as a MIG instance without memory of its own says


def test_a_mig_instance_is_told_by_its_profile() -> None:
    """With which its name ends; a whole GPU has none, nor has an instance that does not say it."""
    names = {"gpu-0": ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", True)}
    for (name, mig), glob, holds in (
        (names["gpu-0"], "1g.10gb", True),
        (names["gpu-0"], "1g.*", True),
        (names["gpu-0"], "2g.*", False),
        (names["gpu-0"], "*H100*", False),
        (("NVIDIA H100 MIG", True), "*", False),
        (("NVIDIA H100", True), "*", False),
        (("A MIG 1g.10gb", False), "*", False),
    ):
        seen = replace(device(name=name), mig=mig)
        assert Match(mig=glob).holds(holder(), Around({"gpu-0": seen}, NOON)) is holds, (name, glob)


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        (Match(), True),
        (Match(notebook="no/*"), True),
        (Match(user="ada", group="students"), True),
        (Match(user="bob"), False),
        (Match(group="staff"), False),
        (Match(server="small"), False),
    ],
)
def test_whom_a_condition_is_about_can_be_told_without_a_holder(match: Match, holds: object) -> None:
    """By its parts about people and servers alone."""
    assert match.is_about(on().site) is holds


def test_the_age_is_that_of_its_process() -> None:
    """Longer than so much; without a known start it is not old."""
    match = Match(older_than=timedelta(days=1))
    for age, holds in ((timedelta(days=1), False), (timedelta(days=1, seconds=1), True)):
        held = holder(of=replace(owner(), started_at=NOON - age))
        assert match.holds(held, on()) is holds
    assert not match.holds(holder(of=replace(owner(), started_at=None)), on())


def test_a_rule_may_hold_at_certain_hours() -> None:
    """While the calendar holds."""
    noon = Calendar("noon", timezone.utc, (Hours(frozenset(range(7)), 12 * 60, 13 * 60),))
    night = Calendar("night", timezone.utc, (Hours(frozenset(range(7)), 22 * 60, 6 * 60),))
    assert Match(during=noon).holds(holder(), on())
    assert not Match(during=night).holds(holder(), on())


def test_the_parts_that_do_not_hold_are_named() -> None:
    """By their names in a policy file, so that a person can be told why a rule was passed over."""
    match = Match(user="ada", group="staff", kernelspec="r*", memory_above=99 * GIB)
    assert set(match.misses(holder(), on())) == {"group", "kernelspec", "memory_above"}
    assert not list(Match(user="ada").misses(holder(), on()))


def test_an_exemption_spares_to_its_last_second() -> None:
    """Until then nothing happens, and the reason says until when and what for; afterwards the rule decides again."""
    exempt = Exemption(Match(notebook="a.ipynb"), NOON + timedelta(seconds=100_000), "rebuttal runs")
    ruled = replace(policy(rule()), exemptions=(exempt,))
    spared, due = verdict_on(holder(), by=ruled), verdict_on(holder(), by=ruled, now=100_001.0)
    assert codes(spared) == [Code.EXEMPT]
    assert spared.reasons[0].facts == {"until": "2030-05-02T15:46:40+00:00", "reason": "rebuttal runs"}
    assert Protection.EXEMPT in spared.protections
    assert codes(due)[0] is Code.IDLE_TOO_LONG
    assert codes(verdict_on(holder(of=owner("b")), by=ruled))[0] is Code.IDLE_TOO_LONG


def test_of_several_exemptions_the_longest_is_named() -> None:
    """The order in which they are written does not matter."""
    early, late = (Exemption(Match(), NOON + timedelta(days=days), f"{days} days") for days in (3, 9))
    for exemptions in ((early, late), (late, early)):
        verdict = verdict_on(holder(), by=replace(policy(rule()), exemptions=exemptions))
        assert verdict.reasons[0].facts["reason"] == "9 days"


def test_a_condition_that_was_asked_goes_to_another_process() -> None:
    """Simulations run in several: what is remembered of a condition is sent along, and it is still the same."""
    match = Match(user="a*", older_than=timedelta(hours=1), device="*H200*")
    match.holds(holder(), on())
    assert (
        pickle.loads(pickle.dumps(match)) == match == Match(user="a*", older_than=timedelta(hours=1), device="*H200*")
    )
