"""Whether the server's own word for when a kernel was last used can be true."""

from __future__ import annotations

_LOOKS = 2  # for so many it may stand still: what the guard has heard may reach the server a little later


class LastActivity:
    """Holds the time that the server tells against the cells that a person was heard to run.

    Each cell makes a kernel broadcast several messages, and the server notes the time of each. So between the begin of
    a cell and some moment after its end, the time that it tells must have changed.
    """

    def __init__(self) -> None:
        self._at_begin: object = None
        self._outdated: object = None  # the time that must not be told any more
        self._looks = 0

    def begun(self, told: object) -> None:
        """A cell begins while the server tells the time `told`."""
        self._at_begin = told

    def ended(self) -> None:
        """That cell has ended."""
        self._outdated = self._at_begin

    def stands_still(self, told: object) -> bool:
        """Whether `told` contradicts what was heard, for longer than two looks. This is one look."""
        if self._outdated is None or told != self._outdated:
            self._outdated, self._looks = None, 0
            return False
        self._looks += 1
        return self._looks > _LOOKS
