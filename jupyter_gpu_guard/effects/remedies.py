"""What can be done to an owner that lives on with all it has: one remedy each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpu_guard.core.model import Holder
    from jupyter_gpu_guard.core.verdict import Outcome, Verdict


class Remedy(Protocol):
    """One action that leaves its owner alive. Lives on the event loop, blocks nowhere, decides nothing."""

    def suits(self, holder: Holder) -> bool:
        """Whether a person may be offered it, as far as can be told without trying. Costs nothing."""
        ...

    async def carry_out(self, verdict: Verdict, holder: Holder, spared: Callable[[], bool]) -> Outcome:
        """Do it, unless the last look says otherwise, and say what really happened.

        UNSUITED: this remedy does not fit this owner, and `detail` says why; nothing was done. `spared` is asked once,
        in the last moment; True withdraws the act.
        """
        ...
