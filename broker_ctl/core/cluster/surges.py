"""Surges of traffic, and the loss of many brokers at once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Self

from broker_ctl.core.machines.surge import SurgeEvent, SurgeState, step
from broker_ctl.core.model.load import throughput_text
from broker_ctl.core.rules.leader_rules import SurgeRules

# Recognises surges: traffic that grows many times within a minute (docs: load-balancing).
#
# Each subject has a `Past` of constant size. A reading holds until the next one: a quiet broker
# may report nothing for minutes.


class Past(NamedTuple):
    """The earlier traffic of one subject, bytes/s.

    Attributes:
        last: the newest reading.
        since_s: start of the current window.
        low, low_before: lowest reading of the current window, and of the one before.
        peak: highest reading of the current window.
        high: peak of earlier windows; what is long ago counts less.
    """

    last: float
    since_s: float
    low: float
    low_before: float
    peak: float
    high: float

    @classmethod
    def of(cls, value: float, now_s: float) -> Self:
        """The past of a subject that is read for the first time."""
        return cls(value, now_s, value, value, value, value)

    @property
    def lowest(self) -> float:
        """Lowest reading of this window and the one before."""
        return min(self.low, self.low_before)

    def at(self, now_s: float, rules: SurgeRules) -> "Past":
        """The past as of now, in a new window if the current one is over."""
        elapsed_s = now_s - self.since_s
        if elapsed_s < rules.window_s:
            return self
        before = self.low if elapsed_s < 2 * rules.window_s else self.last
        high = max(self.high * 0.5 ** (elapsed_s / rules.recall_s), self.peak)
        return Past(self.last, now_s, self.last, before, self.last, high)

    def after(self, value: float) -> "Past":
        """The past after one more reading in the current window."""
        low, peak = min(self.low, value), max(self.peak, value)
        return Past(value, self.since_s, low, self.low_before, peak, self.high)

    def after_surge(self, value: float) -> "Past":
        """The past after a reading that was a surge: the same traffic is not one again."""
        return self.after(value)._replace(high=value)

    def has_surged(self, value: float, rules: SurgeRules) -> bool:
        """Return whether a new reading is a surge; the past must be as of now."""
        return value >= rules.times * self.lowest and value >= rules.new_times * self.high


@dataclass(frozen=True, slots=True)
class Surge:
    """The surge of one bundle or tenant.

    Attributes:
        before_bytes: bytes/s before it, the lowest reading of the last minute or two.
        now_bytes: bytes/s when it was recognised.
        since_s: time of the report that showed it.
    """

    before_bytes: float
    now_bytes: float
    since_s: float
    state: SurgeState = SurgeState.RISEN

    @property
    def text(self) -> str:
        """What happened, for people."""
        before, now = throughput_text(self.before_bytes), throughput_text(self.now_bytes)
        return f"it grew from {before} to {now} within a minute or two"

    def after(self, event: SurgeEvent) -> "Surge | None":
        """The surge after an event; None: it is over."""
        state = step(self.state, event, self.text)
        return None if state is SurgeState.OVER else replace(self, state=state)

    def event_of(self, value: float) -> SurgeEvent | None:
        """The event of a reading that is not a surge by itself."""
        return SurgeEvent.FELL if value < self.now_bytes / 2 else None

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "state": self.state.value,
            "before_bytes_per_s": self.before_bytes,
            "now_bytes_per_s": self.now_bytes,
        }


# Mass loss: many brokers of a cluster are gone within minutes.
#
# Then the cause is rarely the load: a network, a rack, a wrong rollout. Moves for balance would
# put the load of a cluster on what is left of it, and clients that return would find everything
# moved (docs: helix-maintenance-mode).


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
