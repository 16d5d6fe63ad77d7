"""When release is not carried out, or cannot be verified: a real kernel; only the driver is made up."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from fake_devices import GIB
from kernel_room import RemoteProvisioner, isolate, provide_kernelspec
from shutdown_scene import shutdown_scene, verdict_on

from jupyter_gpu_guard.core.model import OwnerState
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Result
from jupyter_gpu_guard.effects import release as module
from jupyter_gpu_guard.effects.inside import Inside, Question
from jupyter_gpu_guard.effects.release import Release
from jupyter_gpu_guard.protocols import nobody_is_spared


@pytest.fixture
def jupyter_data(monkeypatch, tmp_path):
    """Jupyter's data folder, empty."""
    return isolate(monkeypatch, tmp_path / "home")


@pytest.fixture
def root(jupyter_data, tmp_path):
    """A folder for notes."""
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


def play(root, act, name="python3"):
    """Act with a kernel that holds 6 GiB, and the remedy."""

    async def whole():
        async with shutdown_scene(root) as scene:
            remedy = Release(
                Inside(scene.room.kernels, scene.owners.look_again),
                look_again=scene.owners.look_again,
                look=scene.devices.look,
                identify=scene.identify,
                clock=scene.clock,
                sleep=scene.sleep,
            )
            holder, client = await scene.kernel(name)
            await act(scene, remedy, holder, client)

    asyncio.run(whole())


def by_rule(holder):
    """A verdict of a rule that counts less than 5 % as no compute."""
    return replace(verdict_on(holder, action=Action.RELEASE), compute_below=5.0)


def test_a_kernel_that_was_used_since_is_left_to_its_person(root):
    """A rule's release is withdrawn; one that the person asked for is carried out all the same."""

    async def act(scene, remedy, holder, client):
        assert remedy.suits(holder)
        await scene.run(holder.owner.key, client, "2 + 2")
        outcome = await remedy.carry_out(by_rule(holder), holder, nobody_is_spared)
        assert (outcome.result, outcome.detail) == (Result.WITHDRAWN, "it has been used since")
        asked = verdict_on(holder, asked=True, action=Action.RELEASE)
        outcome = await remedy.carry_out(asked, holder, nobody_is_spared)
        assert (outcome.result, outcome.by) == (Result.DONE, "anna")

    play(root, act)


def test_whoever_keeps_it_at_the_last_moment_is_heard_once(root):
    """It is asked for right before the kernel is, and nothing is done then."""

    async def act(scene, remedy, holder, client):
        asked = []

        def spared():
            asked.append(True)
            return True

        outcome = await remedy.carry_out(by_rule(holder), holder, spared)
        assert (outcome.result, outcome.detail) == (Result.WITHDRAWN, "it was kept at the last moment")
        assert asked == [True]

    play(root, act)


def test_a_rule_needs_to_see_that_it_does_not_compute(root):
    """Compute at the last look, or none that can be read, withdraws it; unknown is never idle."""

    async def act(scene, remedy, holder, client):
        scene.devices.hold(holder.owner.root, 6 * GIB, 80.0)
        outcome = await remedy.carry_out(by_rule(holder), holder, nobody_is_spared)
        assert (outcome.result, outcome.detail) == (Result.WITHDRAWN, "it computes again")
        scene.devices.silent = True
        outcome = await remedy.carry_out(by_rule(holder), holder, nobody_is_spared)
        assert outcome.result is Result.WITHDRAWN
        assert "could not be read" in outcome.detail

    play(root, act)


def test_what_the_devices_did_not_show_is_no_figure(root):
    """A person may ask while the driver is silent: it is done, and no byte is said to be free."""

    async def act(scene, remedy, holder, client):
        scene.devices.silent = True
        asked = verdict_on(holder, asked=True, action=Action.RELEASE)
        outcome = await remedy.carry_out(asked, holder, nobody_is_spared)
        assert (outcome.result, outcome.freed_bytes) == (Result.DONE, None)
        assert "the devices did not say" in outcome.detail

    play(root, act)


def test_one_that_does_not_answer_is_a_failure_that_is_told(root, monkeypatch):
    """It is not interrupted, and the next stage follows."""
    monkeypatch.setattr(module, "ANSWERED_WITHIN", 1.0)

    async def act(scene, remedy, holder, client):
        remedy._release = Question("def slow(until):\n    import time\n    time.sleep(5)", "slow")
        outcome = await remedy.carry_out(by_rule(holder), holder, nobody_is_spared)
        assert outcome.result is Result.FAILED
        assert outcome.detail == "it did not answer within 1 s; it was not interrupted"

    play(root, act)


def test_it_suits_idle_kernels_alone(root):
    """What is refined to serving, or is not on any device, is offered nothing."""

    async def act(scene, remedy, holder, client):
        assert not remedy.suits(replace(holder, refined=OwnerState.SERVING))
        assert not remedy.suits(replace(holder, holdings=()))
        outcome = await remedy.carry_out(by_rule(holder), replace(holder, refined=OwnerState.SERVING), nobody_is_spared)
        assert (outcome.result, outcome.detail) == (Result.UNSUITED, "it is serving, and not idle")

    play(root, act)


def test_one_that_has_ended_is_already_gone(root):
    """Nothing is left to be asked."""

    async def act(scene, remedy, holder, client):
        client.stop_channels()
        await scene.room.kernels.shutdown_kernel(holder.owner.key.id, now=True)
        outcome = await remedy.carry_out(by_rule(holder), holder, nobody_is_spared)
        assert outcome.result is Result.ALREADY_GONE

    play(root, act)


def test_a_kernel_on_another_machine_is_unsuited(root, jupyter_data):
    """It is said why; the ladder goes on."""
    provide_kernelspec(jupyter_data, "remote", RemoteProvisioner)

    async def act(scene, remedy, holder, client):
        assert not remedy.suits(holder)
        outcome = await remedy.carry_out(by_rule(holder), holder, nobody_is_spared)
        assert outcome.result is Result.UNSUITED
        assert "another machine" in outcome.detail

    play(root, act, "remote")
