"""Recognises surges: traffic that grows many times within a minute (docs: load-balancing).

Each subject has a `Past` of constant size. A reading holds until the next one: a quiet broker may
report nothing for minutes.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from broker_ctl.core.machines.surge import Event, State, step
from broker_ctl.core.model.load_vector import throughput_text
from broker_ctl.core.rules.surges import SurgeRules


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
    state: State = State.RISEN

    @property
    def text(self) -> str:
        """What happened, for people."""
        before, now = throughput_text(self.before_bytes), throughput_text(self.now_bytes)
        return f"it grew from {before} to {now} within a minute or two"

    def after(self, event: Event) -> "Surge | None":
        """The surge after an event; None: it is over."""
        state = step(self.state, event, self.text)
        return None if state is State.OVER else replace(self, state=state)

    def event_of(self, value: float) -> Event | None:
        """The event of a reading that is not a surge by itself."""
        return Event.FELL if value < self.now_bytes / 2 else None

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "state": self.state.value,
            "before_bytes_per_s": self.before_bytes,
            "now_bytes_per_s": self.now_bytes,
        }
