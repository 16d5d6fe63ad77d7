"""`replay`: a recording under a policy, and what would have been done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from jupyter_gpu_guard.core.explain import memory, sentence
from jupyter_gpu_guard.core.model import Snapshot, is_known
from jupyter_gpu_guard.core.policy import NOBODY, Action, Policy, Site
from jupyter_gpu_guard.core.rehearse import Act, Carried, rehearse
from jupyter_gpu_guard.core.usage import Meter
from jupyter_gpu_guard.snapshots import Header
from jupyter_gpu_guard.sources.replay import Recording, RecordingError

from .tables import plain

SHORTEST_SPAN = 10.0  # seconds; as in a guard, readings further apart than this or twice the interval leave a gap
_DID = {Action.WARN: "would have warned", Action.SHUTDOWN: "would have shut down"}


@dataclass
class Replayed:
    """What a recording held and what would have been done."""

    snapshots: int = 0
    first: datetime | None = None
    last: datetime | None = None
    names: bool = True
    simulated: bool = False
    acts: list[Act] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_json(self, path: Path, policy: Policy) -> dict[str, Any]:
        """For programs."""
        return {
            "recording": {
                "file": path.name,
                "snapshots": self.snapshots,
                "first": _iso(self.first),
                "last": _iso(self.last),
                "names": self.names,
                "simulated": self.simulated,
            },
            "policy": {"hash": policy.digest, "source": policy.source, "mode": policy.mode.value},
            "acts": [_act_as_json(act) for act in self.acts],
            "notes": self.notes,
        }

    def lines(self, path: Path, policy: Policy) -> Iterator[str]:
        """For people."""
        if self.first is None or self.last is None:
            yield f"{plain(path)} holds no snapshots."
        else:
            span = f"{_when(self.first)} to {_when(self.last)}"
            yield f"{plain(path)}: {self.snapshots} snapshots, {span}{', simulated' if self.simulated else ''}"
        yield f"Policy: {plain(policy.source)}"
        for act in self.acts:
            owner = act.holder.owner
            yield ""
            named = f"{plain(owner.notebook or owner.name)} ({plain(owner.key)})"
            yield f"{_when(act.outcome.at)}  {_DID[act.verdict.action]} {named}, which held {memory(act.holder.memory)}"
            yield f"  Rule: {plain(act.verdict.rule)}."
            yield from (f"  {plain(sentence(reason))}" for reason in act.verdict.reasons)
        yield ""
        counts = [sum(act.verdict.action is action for act in self.acts) for action in (Action.WARN, Action.SHUTDOWN)]
        yield f"Warnings: {counts[0]}. Shutdowns: {counts[1]}."
        yield from (f"Note: {plain(note)}" for note in self.notes)


class Look(NamedTuple):
    """One Snapshot of a recording. A new run of the server knew nothing of the one before.

    Readings further apart than `longest_span` seconds leave a gap.
    """

    header: Header
    snapshot: Snapshot
    is_new_run: bool
    longest_span: float


def looks(recording: Recording) -> Iterator[Look]:
    """The Snapshots of `recording` as its guard took them. Raises RecordingError."""
    run, quiet = None, False
    for header, snapshot in recording:
        is_new_run = header.run != run
        run, quiet = header.run, quiet and not is_new_run
        pause = max(header.interval_seconds, header.resting_seconds if quiet else 0.0)
        yield Look(header, snapshot, is_new_run, max(SHORTEST_SPAN, 2 * pause))
        quiet = not snapshot.clients and not snapshot.gaps


def replay(
    path: Path, policy: Policy, progress: Callable[[int], object] = lambda _: None, *, site: Site = NOBODY
) -> Replayed:
    """Show the recording at `path` to the judging code under `policy`, as `site`'s. Raises RecordingError."""
    replayed = Replayed()
    recording = Recording(path)
    carried = Carried()
    for header, snapshot, is_new_run, longest_span in looks(recording):
        if is_new_run:
            carried = Carried(meter=Meter(carried.meter.usage))  # what was used is not forgotten
        scene = rehearse(snapshot, carried, policy, longest_span, site=site)
        carried = scene.carried
        replayed.acts.extend(scene.acts)
        replayed.snapshots += 1
        replayed.first = replayed.first or snapshot.taken_at.wall
        replayed.last = snapshot.taken_at.wall
        replayed.names &= header.names
        replayed.simulated |= snapshot.simulated
        progress(replayed.snapshots)
    replayed.notes.extend(recording.notes)
    if not replayed.names and any(rule.match.notebook is not None for rule in policy.rules):
        replayed.notes.append("The recording is without names, so that no rule that matches a notebook applies.")
    return replayed


def _act_as_json(act: Act) -> dict[str, Any]:
    held = act.holder.memory
    return {
        "at": _iso(act.outcome.at),
        "owner": str(act.verdict.owner),
        "name": act.outcome.name,
        "notebook": act.outcome.notebook,
        "kernelspec": act.holder.owner.kernelspec,
        "action": act.verdict.action.value,
        "rule": act.verdict.rule,
        "memory_bytes": held if is_known(held) else None,
        "idle_seconds": act.verdict.idle_for,
        "reasons": [
            {"code": reason.code.value, "text": sentence(reason), "facts": dict(reason.facts)}
            for reason in act.verdict.reasons
        ],
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _when(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


__all__ = ["RecordingError", "Replayed", "replay"]
