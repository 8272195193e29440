"""Counts consecutive rounds in which a condition held, as hit counts of strategies need.

One round in which the condition does not hold resets the count. A subject that cannot be judged in
a round keeps its count: the new owner of a bundle that has just moved has not reported it yet.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Streaks(Generic[K]):
    """Counts by subject; a plain value, as is every strategy's memory."""

    counts: Mapping[K, int] = field(default_factory=dict)

    def of(self, subject: K) -> int:
        """Return the number of consecutive rounds, including the current one."""
        return self.counts.get(subject, 0)

    def after(self, met: Iterable[K], unjudged: Iterable[K] = ()) -> "Streaks[K]":
        """Return the counts after a round: ``met`` rise by one, ``unjudged`` stay, others reset."""
        kept = {subject: self.counts[subject] for subject in unjudged if subject in self.counts}
        return Streaks({**kept, **{subject: self.of(subject) + 1 for subject in met}})
