"""Mass loss: many brokers of a cluster are gone within minutes.

Then the cause is rarely the load: a network, a rack, a wrong rollout. Moves for balance would put
the load of a cluster on what is left of it, and clients that return would find everything moved
(docs: helix-maintenance-mode).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

# One broker is a failure of this broker, even in a cluster of two.
_LEAST_LOST: Final = 2


@dataclass(frozen=True, slots=True)
class MassLossRules:
    """When balancing is held back, and how fast orphans are placed then.

    Attributes:
        limit_ratio: share of the brokers that may be lost; 0: any.
        window_s: time within which they have to be lost, in seconds.
        placements_per_s: maximum placements of orphans, bundles/s.
    """

    limit_ratio: float = 0.3
    window_s: float = 300.0
    placements_per_s: float = 500.0

    def is_mass_loss(self, lost: frozenset[str], present: frozenset[str]) -> bool:
        """Whether these lost brokers are too many."""
        everybody = len(present | lost)
        is_above = everybody > 0 and len(lost - present) / everybody > self.limit_ratio
        return self.limit_ratio > 0 and len(lost - present) >= _LEAST_LOST and is_above


@dataclass(frozen=True, slots=True)
class Absences:
    """The live brokers, and those that were lost.

    Attributes:
        leaving: the live brokers that are stopping: their departure does not count.
        lost_s: when each lost broker was last seen, by the monotonic clock.
    """

    present: frozenset[str] = frozenset()
    leaving: frozenset[str] = frozenset()
    lost_s: Mapping[str, float] = field(default_factory=dict)

    def observe(self, present: frozenset[str], leaving: frozenset[str], now_s: float) -> Self:
        """The absences after a change of the live brokers."""
        newly = self.present - present - self.leaving
        lost_s = {**self.lost_s, **dict.fromkeys(newly, now_s)}
        kept_s = {broker_id: at_s for broker_id, at_s in lost_s.items() if broker_id not in present}
        return replace(self, present=present, leaving=leaving & present, lost_s=kept_s)

    def remember(self, lost: Iterable[str], now_s: float) -> Self:
        """With brokers whose loss others have seen."""
        lost_s = {each: now_s for each in lost if each not in self.present}
        return replace(self, lost_s={**lost_s, **self.lost_s})

    def since(self, then_s: float) -> frozenset[str]:
        """The brokers lost at or after a time."""
        return frozenset(broker_id for broker_id, at_s in self.lost_s.items() if at_s >= then_s)

    def after(self, then_s: float) -> Self:
        """Without the brokers that were lost before a time."""
        kept_s = {broker_id: at_s for broker_id, at_s in self.lost_s.items() if at_s >= then_s}
        return replace(self, lost_s=kept_s)

    def accepted(self) -> Self:
        """Without the lost brokers: the cluster is what is left of it."""
        return replace(self, lost_s={})
