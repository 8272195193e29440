"""The brokers of a simulated cluster: lifetimes, capacities and drains."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.scenario import Event, EventKind, Scenario

_HOUR_MIN: Final = 60


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker at one moment.

    Attributes:
        number: its place among all that are ever there.
        full: its capacity before any event.
        since: minute in which this life of it began; None: it was there at the start.
    """

    number: int
    broker_id: str
    full: Capacity
    capacity: Capacity
    is_up: bool
    is_draining: bool = False
    since: int | None = None

    def is_new(self, minute: int) -> bool:
        """Whether it came within the last hour: what goes to it then refills it."""
        return self.since is not None and minute - self.since < _HOUR_MIN

    def after(self, event: Event) -> "Broker":
        """The broker after an event."""
        match event.kind:
            case EventKind.UP:
                since = self.since if self.is_up else event.minute
                return replace(self, is_up=True, is_draining=False, since=since)
            case EventKind.DOWN:
                return replace(self, is_up=False, is_draining=False)
            case EventKind.DRAIN:
                return replace(self, is_draining=self.is_up)
            case EventKind.CAPACITY:
                return replace(self, capacity=self.full.times(event.factor))


def build_brokers(scenario: Scenario) -> tuple[Broker, ...]:
    """All brokers of the scenario by id, in the state before the first event."""
    return tuple(
        Broker(
            number,
            broker_id,
            scenario.brokers[broker_id],
            scenario.brokers[broker_id],
            is_up=broker_id not in scenario.absent,
        )
        for number, broker_id in enumerate(sorted(scenario.brokers))
    )


def by_minute(events: Iterable[Event]) -> dict[int, list[Event]]:
    """Events of each minute, in their order."""
    found: dict[int, list[Event]] = {}
    for event in events:
        found.setdefault(event.minute, []).append(event)
    return found
