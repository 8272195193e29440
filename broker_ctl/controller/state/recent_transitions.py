"""The newest transitions of partitions, to explain changes of leaders.

The daemon keeps them in memory over all its terms. Transitions by other controllers are in the logs
and histories of their daemons.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from broker_ctl.core.partitions.transitions import Transition

# About 3 MB; a failover of as many partitions replaces all earlier ones.
MAX_TRANSITIONS: Final = 10_000


class Recorded(NamedTuple):
    """Attributes: epoch: of the controller. at_ms: wall clock."""

    epoch: int
    at_ms: int
    transition: Transition


class RecentTransitions:
    """The newest transitions; the oldest are forgotten."""

    def __init__(self) -> None:
        self._recorded: deque[Recorded] = deque(maxlen=MAX_TRANSITIONS)

    def record_transitions(self, epoch: int, at_ms: int, transitions: Sequence[Transition]) -> None:
        """See `RecordTransitions`."""
        self._recorded.extend(Recorded(epoch, at_ms, each) for each in transitions)

    def newest(self, topic: str | None, partition: int | None, limit: int) -> Iterator[Recorded]:
        """The newest first: of a topic, of one of its partitions, or of all."""
        for recorded in reversed(self._recorded):
            named = recorded.transition.partition
            if topic in {None, named.topic} and partition in {None, named.partition}:
                if limit <= 0:
                    return
                limit -= 1
                yield recorded
