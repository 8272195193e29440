"""Equal values are kept once: most partitions have one of few replica lists and states."""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from broker_ctl.core.partitions.values import LeaderAndIsr

_T = TypeVar("_T", bound=Hashable)

# More distinct values than this are not worth a table: it begins again.
MAX_KNOWN: Final = 20_000


class SharedValues(Generic[_T]):
    """The values seen so far; bounded."""

    def __init__(self) -> None:
        self._known: dict[_T, _T] = {}

    def __len__(self) -> int:
        return len(self._known)

    def share(self, value: _T) -> _T:
        """Return the value, or the equal one that was seen first."""
        known = self._known.get(value)
        if known is not None:
            return known
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[value] = value
        return value


class SharedStates:
    """The same of states, and of the ISRs of states that differ."""

    def __init__(self) -> None:
        self._states = SharedValues[LeaderAndIsr]()
        self._isrs = SharedValues[tuple[int, ...]]()

    def share(self, state: LeaderAndIsr) -> LeaderAndIsr:
        """Return an equal state."""
        isr = self._isrs.share(state.isr)
        return self._states.share(state if isr is state.isr else state._replace(isr=isr))
