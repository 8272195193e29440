"""The newest transitions of partitions, for whoever asks why a leader changed.

They are kept by the daemon over all its leadings, in memory: what another one made while it
controlled is in the log of that one, and in its history where it keeps one.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from broker_ctl.core.partitions.transitions import Transition

# Some 3 MB; a failover of as many partitions pushes all before it out.
MOST: Final = 10_000


class Recorded(NamedTuple):
    """Attributes: epoch: of the controller. at_ms: wall clock."""

    epoch: int
    at_ms: int
    transition: Transition


class RecentTransitions:
    """`TransitionJournal` that forgets the oldest."""

    def __init__(self) -> None:
        self._recorded: deque[Recorded] = deque(maxlen=MOST)

    def record_transitions(self, epoch: int, at_ms: int, transitions: Sequence[Transition]) -> None:
        """See `TransitionJournal`."""
        self._recorded.extend(Recorded(epoch, at_ms, each) for each in transitions)

    def newest(self, topic: str | None, partition: int | None, limit: int) -> Iterator[Recorded]:
        """Of a topic, of one of its partitions, or of all; newest first."""
        for recorded in reversed(self._recorded):
            named = recorded.transition.partition
            if topic in {None, named.topic} and partition in {None, named.partition}:
                if limit <= 0:
                    return
                limit -= 1
                yield recorded
