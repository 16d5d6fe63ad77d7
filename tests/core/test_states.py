"""What a Holder is doing, as its processes show."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from jupyter_gpu_guard.core.assess import Perceived, perceive
from jupyter_gpu_guard.core.model import Activity, OwnerKind, OwnerState, Snapshot
from jupyter_gpu_guard.core.window import BUSY_BYTES, BUSY_CPU_SECONDS, HOUR, Window

from .build import client, key, owner, process, snapshot

ROOT, CHILD = key(100), key(101)
KERNEL = owner("a").key
EVERY = 5.0


@dataclass(frozen=True)
class Moment:
    """One kernel with one child at one moment: what each has used of the CPU so far, and what else they do."""

    cpu: float = 0.0
    of_child: float = 0.0
    activity: Activity | None = None
    state: OwnerState = OwnerState.IDLE
    clients: int = 0
    kind: OwnerKind = OwnerKind.KERNEL
    missed: tuple[str, ...] = ()

    def seen(self, now: float) -> Snapshot:
        """The Snapshot of it."""
        it = replace(owner("a", kind=self.kind, state=self.state), clients=self.clients)
        rows = (replace(process(100, 10), cpu=self.cpu), replace(process(101, 100), cpu=self.of_child))
        seen = snapshot(*rows, owners=[it], clients=[client(101)], missed=self.missed, now=now)
        return replace(seen, activity={} if self.activity is None else {it.key: self.activity})


def watch(*moments: Moment, every: float = EVERY) -> tuple[OwnerState, Window]:
    """The state after all moments, and the Window."""
    perceived = Perceived()
    for number, moment in enumerate(moments):
        perceived = perceive(moment.seen(1000 + number * every), perceived, 2 * every)
    (holder,) = perceived.attribution.holders
    return holder.state, perceived.windows[holder.owner.key]


def busy(*, of_child: bool = False, state: OwnerState = OwnerState.IDLE) -> tuple[Moment, ...]:
    """A quarter of a core for a minute, in the kernel or in its child."""
    used = (n * EVERY / 4 for n in range(13))
    return tuple(Moment(cpu=0 if of_child else share, of_child=share if of_child else 0, state=state) for share in used)


@pytest.mark.parametrize("of_child", [False, True], ids=["in the kernel", "in a child"])
@pytest.mark.parametrize("state", [OwnerState.IDLE, OwnerState.EXECUTING])
def test_work_on_the_cpu_is_input_bound(state: OwnerState, of_child: bool) -> None:
    """Whether a cell runs or not, and whichever process works."""
    assert watch(*busy(of_child=of_child, state=state))[0] is OwnerState.INPUT_BOUND


def test_being_alive_is_no_work() -> None:
    """A kernel that prints once a second uses one percent of a core."""
    assert watch(*(Moment(cpu=n * EVERY / 100) for n in range(30)))[0] is OwnerState.IDLE


@pytest.mark.parametrize(("each", "state"), [(0.02, OwnerState.IDLE), (0.08, OwnerState.INPUT_BOUND)])
def test_a_pool_at_rest_is_not_work(each: float, state: OwnerState) -> None:
    """Eight workers at two percent of a core each wait for something to do; at eight percent they do it."""
    perceived = Perceived()
    for n in range(30):
        rows = [replace(process(100 + i, 100 if i else 10), cpu=n * EVERY * each) for i in range(9)]
        seen = snapshot(*rows, owners=[owner("a")], clients=[client(101)], now=1000 + n * EVERY)
        perceived = perceive(seen, perceived, 2 * EVERY)
    assert perceived.attribution.holders[0].state is state


def test_work_ends_a_minute_after_it_stops_and_the_clock_begins_then() -> None:
    """At rest again, the idle time counts from the end of the work, not from before it."""
    work = busy()
    still = [work[-1]] * 40
    state, window = watch(*work, *still)
    assert state is OwnerState.IDLE
    assert window.busy_at is not None
    assert window.idle_for(5.0) == window.at - window.busy_at > 100
    assert window.idle_for(5.0, at_rest=False) == window.at - window.began


def test_bytes_moved_are_work_too() -> None:
    """A download, or reading from disk; what was moved before the first look does not count."""

    def moving(*amounts: float) -> list[Moment]:
        return [Moment(activity=Activity(io={ROOT: 1e12, CHILD: amount})) for amount in amounts]

    assert watch(*moving(0, 0, BUSY_BYTES))[0] is OwnerState.INPUT_BOUND
    assert watch(*moving(0, BUSY_BYTES / 2, BUSY_BYTES / 2))[0] is OwnerState.IDLE
    assert watch(*moving(9e12))[0] is OwnerState.IDLE


def test_the_work_of_a_process_that_is_new_counts_and_one_that_ends_takes_nothing_back() -> None:
    """A counter that vanishes is not negative work."""
    born = Moment().seen(1000)
    grown = replace(
        Moment(of_child=BUSY_CPU_SECONDS).seen(1005),
    )
    before = perceive(replace(born, processes={100: born.processes[100]}, clients=()), Perceived(), 10)
    after = perceive(grown, before, 10)
    assert after.attribution.holders[0].state is OwnerState.INPUT_BOUND
    gone = perceive(replace(born, processes={100: born.processes[100]}, clients=(), taken_at=grown.taken_at), after, 10)
    assert gone.attribution.holders[0].holdings == ()


def test_who_listens_and_had_a_visitor_is_serving() -> None:
    """Within the last hour; without a visitor, or without a port, it is not."""
    open_port = Activity(listens=frozenset({7860}))
    visited = replace(open_port, visitors=1)
    assert watch(Moment(activity=open_port), Moment(activity=open_port))[0] is OwnerState.IDLE
    assert watch(Moment(activity=visited), Moment(activity=open_port))[0] is OwnerState.SERVING
    assert watch(Moment(activity=visited), Moment(activity=Activity()))[0] is OwnerState.IDLE
    lately = [Moment(activity=visited), *[Moment(activity=open_port)] * 50]
    assert watch(*lately, every=60)[0] is OwnerState.SERVING
    long_ago = [Moment(activity=visited), *[Moment(activity=open_port)] * int(HOUR / 60 + 1)]
    state, window = watch(*long_ago, every=60)
    assert state is OwnerState.IDLE
    assert window.idle_for(5.0) == window.at - 1000
    assert watch(Moment(), *lately, every=60)[1].idle_for(5.0, at_rest=False) == 51 * 60


def test_a_breakpoint_counts_only_while_somebody_is_connected() -> None:
    """With nobody there the cell is stuck like any other."""
    assert watch(Moment(state=OwnerState.BREAKPOINT, clients=1))[0] is OwnerState.BREAKPOINT
    assert watch(Moment(state=OwnerState.BREAKPOINT))[0] is OwnerState.EXECUTING


@pytest.mark.parametrize("state", [OwnerState.WAITING, OwnerState.STARTING, OwnerState.UNKNOWN, OwnerState.DEAD])
def test_what_the_owner_says_of_itself_otherwise_stays(state: OwnerState) -> None:
    """Work on the CPU does not make a question answered, nor a kernel ready."""
    assert watch(*busy(state=state))[0] is state


def test_the_work_of_a_tensorboard_is_not_its_use() -> None:
    """It loads its logs whether anybody looks or not; who looks is what counts."""
    board = [replace(moment, kind=OwnerKind.TENSORBOARD) for moment in busy()]
    state, window = watch(*board)
    assert state is OwnerState.IDLE
    seen_by_somebody = replace(board[-1], activity=Activity(listens=frozenset({6006}), visitors=2))
    state, window = watch(*board, seen_by_somebody, *[board[-1]] * 3)
    assert window.used_at == window.at - 3 * EVERY


def test_while_activity_cannot_be_seen_nobody_is_idle() -> None:
    """What is not known is never idle. A cell that runs still runs."""
    blind = ("activity",)
    assert watch(Moment(), Moment(missed=blind))[0] is OwnerState.UNKNOWN
    assert watch(Moment(), Moment(missed=blind, state=OwnerState.EXECUTING))[0] is OwnerState.EXECUTING


def board_for(minutes: float, *, activity: Activity | None, cpu_share: float = 0.0) -> tuple[Moment, ...]:
    """A TensorBoard for so long, looked at every five seconds; without `activity` it could not be looked into."""
    missed = () if activity is not None else ("activity",)
    return tuple(
        Moment(cpu=n * EVERY * cpu_share, activity=activity, kind=OwnerKind.TENSORBOARD, missed=missed)
        for n in range(int(minutes * 60 / EVERY))
    )


def test_a_tensorboard_that_could_not_be_looked_into_was_not_unwatched() -> None:
    """The time in which nobody knows who came to it does not count, from its first reading on and later."""
    quiet = Activity(listens=frozenset({6006}))
    hidden, seen = board_for(10, activity=None), board_for(5, activity=quiet)
    for moments in ((hidden[0], *seen), (*hidden, *seen), (*seen, *hidden, *seen)):
        window = watch(*moments)[1]
        assert window.idle_for(5.0) == 300 - EVERY


def test_a_tensorboard_that_loads_its_logs_is_not_used() -> None:
    """However much of the CPU that takes."""
    window = watch(*board_for(10, activity=Activity(listens=frozenset({6006})), cpu_share=0.9))[1]
    assert window.idle_for(5.0) == 600 - EVERY


def test_a_time_in_which_a_kernel_could_not_be_looked_into_is_not_idle() -> None:
    """It may have read from a disk, or had visitors. Once it can be looked into, its clock runs as before."""
    seen = (Moment(activity=Activity()),) * 12
    hidden = (Moment(missed=("activity",)),) * 120
    assert watch(*seen, *hidden)[1].idle_for(5.0) == 0
    assert watch(*seen, *hidden, *seen)[1].idle_for(5.0) == 60 - EVERY
    assert watch(*seen, *hidden, *seen)[1].idle_for(5.0, at_rest=False) == (144 - 1) * EVERY


def test_a_kernel_that_was_never_looked_into_has_a_clock_all_the_same() -> None:
    """Nobody looks closely at it before it holds a GPU, and then it takes one more reading."""
    assert watch(*(Moment(),) * 12)[1].idle_for(5.0) == 60 - EVERY
