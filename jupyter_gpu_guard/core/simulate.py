"""Recordings under a policy, Snapshot by Snapshot: what would have been done, and what would have come of it. Pure.

Every thought is that of the guard (`core.rehearse`); what is added here is that ended means ended, and the counting.
"""

from __future__ import annotations

from .model import Holder, Snapshot, is_known
from .policy import NOBODY, Action, Policy, Site
from .rehearse import Act, Carried, Life, rehearse
from .tally import Ended, Tally


class Simulation:
    """One policy over the Snapshots of one run of a server, which is `site`'s. `tally` may be read at any time."""

    def __init__(self, policy: Policy, site: Site = NOBODY) -> None:
        self.tally = Tally()
        self._policy, self._site = policy, site
        self._compute_below = policy.rules[-1].idle.compute_below
        self._carried = Carried()
        self._at: float | None = None
        self._ended: dict[Life, Ended] = {}
        self._seen: set[Life] = set()
        self._warned: set[Life] = set()

    def see(self, snapshot: Snapshot, longest_span: float) -> tuple[Act, ...]:
        """The next Snapshot; what would have been done then. Readings further apart than that leave a gap."""
        now = snapshot.taken_at.monotonic
        seconds = 0.0 if self._at is None or now - self._at > longest_span else now - self._at
        self._at = now
        ended = self._ended.keys()
        scene = rehearse(snapshot, self._carried, self._policy, longest_span, without=ended, site=self._site)
        self._carried = scene.carried
        for holder in scene.carried.perceived.attribution.holders:
            self._count(holder, now, seconds)
        for act in scene.acts:
            self._note(act, now)
        # Who is gone for good need not be remembered: a run may last for months.
        alive = {_life(holder) for holder in scene.carried.perceived.attribution.holders}
        if not snapshot.gaps and not alive >= self._seen:
            self._seen &= alive
            self._warned &= alive
            self._ended = {life: ended for life, ended in self._ended.items() if life in alive}
        self.tally.readings += 1
        return scene.acts

    def _count(self, holder: Holder, now: float, seconds: float) -> None:
        devices = len({h.device for h in holder.holdings if not is_known(h.memory) or h.memory > 0})
        if not devices:
            return
        life = _life(holder)
        if life not in self._seen:
            self._seen.add(life)
            self.tally.holders += 1
        memory, compute = holder.memory, holder.compute
        self.tally.held.add(seconds, devices, memory, compute, self._compute_below)
        if (ended := self._ended.get(life)) is not None:
            ended.see(now, seconds, devices, memory, compute, self._compute_below)

    def _note(self, act: Act, now: float) -> None:
        life = _life(act.holder)
        if not act.verdict.action.loses_work:
            if act.verdict.action is Action.WARN and life not in self._warned:
                self._warned.add(life)
                self.tally.warned += 1
            return
        ended = ended_by(act, now)
        self._ended[life] = ended
        self.tally.ended.append(ended)
        self.tally.rules[ended.rule] += 1


def ended_by(act: Act, now: float) -> Ended:
    """The holder of `act`, ended at monotonic time `now`."""
    owner = act.holder.owner
    return Ended(
        owner=owner.key,
        name=owner.notebook or owner.name,
        rule=act.verdict.rule,
        at=act.outcome.at,
        monotonic=now,
        idle_seconds=act.verdict.idle_for,
    )


def _life(holder: Holder) -> Life:
    return holder.owner.key, holder.owner.root
