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

    def get(self, value: _T) -> _T | None:
        """Return the equal value that was seen; None: there was none."""
        return self._known.get(value)

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
        known = self._states.get(state)
        if known is not None:
            return known
        leader, leader_epoch, isr, controller_epoch, is_recovering, version = state
        return self._states.share(
            LeaderAndIsr(
                leader,
                leader_epoch,
                self._isrs.share(isr),
                controller_epoch,
                is_recovering,
                version,
            )
        )
