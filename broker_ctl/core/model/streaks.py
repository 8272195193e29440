"""In how many consecutive rounds something was the case: the memory behind hit counts.

One quiet round resets the count. A subject that could not be judged in a round keeps its
count: a bundle that has just moved is not reported yet, and has not changed for that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Streaks(Generic[K]):
    """Counts by subject; a plain value, as every policy's memory."""

    counts: Mapping[K, int] = field(default_factory=dict)

    def of(self, subject: K) -> int:
        """Rounds in a row until now, this one included."""
        return self.counts.get(subject, 0)

    def after(self, met: Iterable[K], unjudged: Iterable[K] = ()) -> "Streaks[K]":
        """One round later: ``met`` count one more, ``unjudged`` as before, all others nothing."""
        kept = {subject: self.counts[subject] for subject in unjudged if subject in self.counts}
        return Streaks({**kept, **{subject: self.of(subject) + 1 for subject in met}})
