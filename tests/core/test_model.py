"""The nouns."""

from __future__ import annotations

import pytest

from jupyter_gpu_guard.core.model import Gap, Holding, OwnerKey, OwnerKind, Unknown, Why, highest, is_known, total

from .build import GONE, NOON, GpuProcess, holder, key, process, snapshot

LOST = Unknown(Why.DEVICE_LOST)


def test_a_sum_with_a_part_missing_is_not_known() -> None:
    """It is the first Unknown among its parts; without parts it is 0."""
    assert total([]) == 0
    assert total([1.0, 2.0]) == 3
    assert total([1.0, GONE, LOST]) == GONE
    assert highest([]) == 0
    assert highest([1.0, 3.0, 2.0]) == 3
    assert highest([90.0, LOST, GONE]) == LOST


def test_zero_is_known() -> None:
    """A reading of nothing is a reading."""
    assert is_known(0.0)
    assert not is_known(GONE)


def test_a_device_is_never_used_by_more_than_all_of_it() -> None:
    """Shares that add up to more are cut."""
    rows = tuple(GpuProcess(key(pid), "gpu-0", 1.0, 70.0, NOON) for pid in (1, 2))
    assert Holding("gpu-0", rows).compute == 100
    assert Holding("gpu-0", rows).memory == 2


def test_a_holder_computes_as_much_as_on_its_busiest_device() -> None:
    """And if one device is not known, neither is the holder."""
    assert holder(compute=(1.0, 60.0, 3.0)).compute == 60
    assert holder(compute=(90.0, GONE)).compute == GONE


@pytest.mark.parametrize("kind", OwnerKind)
def test_an_owner_key_is_read_back(kind: OwnerKind) -> None:
    """Whatever its id is, also with colons in it."""
    for ident in ("a", "0f-3", "x:y", "a b/ü"):
        assert OwnerKey.parse(str(OwnerKey(kind, ident))) == OwnerKey(kind, ident)


@pytest.mark.parametrize("text", ["", "kernel", "kernel:", ":a", "robot:a", "Kernel:a"])
def test_a_text_that_names_no_owner_is_refused_in_words(text: str) -> None:
    """The message says what was given and what is expected."""
    with pytest.raises(ValueError, match="does not name an owner; expected one of kernel:<id>"):
        OwnerKey.parse(text)


@pytest.mark.parametrize(("state", "over"), [("R", False), ("S", False), ("D", False), ("Z", True), ("X", True)])
def test_a_zombie_is_over(state: str, over: object) -> None:
    """It holds nothing and waits only to be reaped."""
    assert process(1, state=state).is_over is over


def test_a_snapshot_names_the_first_source_that_it_missed() -> None:
    """Or none."""
    seen = snapshot(missed=["devices", "owners"])
    assert seen.missed("owners", "devices") == Gap("devices", "devices did not answer")
    assert seen.missed("processes") is None
