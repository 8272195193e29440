"""A scenario of recorded traffic and events."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.errors import SettingsError
from broker_ctl.simulation.model.bounds import MOST_BROKERS
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.cluster import MEAN_USAGE, broker_ids, random_owners
from broker_ctl.simulation.model.scenario import Event, EventKind, Rates, Scenario, Traffic

_OWNERS_SEED: Final = 0
# A broker is short of bytes before it is short of messages, as in the named scenarios.
_MESSAGES_USAGE: Final = MEAN_USAGE / 2


def build_trace_scenario(
    name: str, traffic: Traffic, brokers: int, events: Iterable[Event] = ()
) -> Scenario:
    """Build a scenario of equal brokers, which the traffic fills to the usual mean usage.

    Owners are drawn, the same each time. A broker whose first event is ``up`` is absent at the
    start; what would happen after the end does not.

    Raises:
        SettingsError: no brokers or too many, an event of a broker that there is not, nobody there
            at the start, no traffic.
    """
    if not 1 <= brokers <= MOST_BROKERS:
        raise SettingsError(f"{brokers} brokers: 1 to {MOST_BROKERS}")
    ids = broker_ids(brokers)
    in_order = tuple(sorted(events, key=lambda event: event.minute))
    absent = _absent(ids, in_order)
    in_time = tuple(event for event in in_order if event.minute < traffic.minutes)
    odds = [0.0 if broker_id in absent else 1.0 for broker_id in ids]
    if not any(odds):
        raise SettingsError("events: no broker is there at the start")
    capacity = _capacity(traffic, _presence(traffic.minutes, ids, absent, in_time))
    rng = np.random.Generator(np.random.PCG64(_OWNERS_SEED))
    owners = random_owners(rng, ids, odds, len(traffic.bundles))
    return Scenario(name, traffic, dict.fromkeys(ids, capacity), owners, absent, in_time)


def _absent(ids: tuple[str, ...], events: tuple[Event, ...]) -> frozenset[str]:
    """Those whose first event is that they come."""
    first: dict[str, EventKind | None] = dict.fromkeys(ids)
    for event in reversed(events):
        if event.broker_id not in first:
            text = f"{event.kind} of {event.broker_id!r} at minute {event.minute}"
            raise SettingsError(f"events: {text}; the brokers are {ids[0]} to {ids[-1]}")
        first[event.broker_id] = event.kind
    return frozenset(broker_id for broker_id, kind in first.items() if kind is EventKind.UP)


def _presence(
    minutes: int, ids: tuple[str, ...], absent: frozenset[str], events: tuple[Event, ...]
) -> NDArray[np.float64]:
    """Number of present brokers by minute, in units of a usual one."""
    factors = dict.fromkeys(ids, 1.0)
    here = set(ids) - absent
    changes = np.zeros(minutes)
    changes[0] = len(here)
    for event in events:
        broker_id = event.broker_id
        before = factors[broker_id] if broker_id in here else 0.0
        match event.kind:
            case EventKind.UP:
                here.add(broker_id)
            case EventKind.DOWN:
                here.discard(broker_id)
            case EventKind.CAPACITY:
                factors[broker_id] = event.factor
            case EventKind.DRAIN:
                pass
        changes[event.minute] += (factors[broker_id] if broker_id in here else 0.0) - before
    # What is left of sums that should be 0 is not a broker.
    return np.cumsum(changes).round(9)


def _capacity(traffic: Traffic, there: NDArray[np.float64]) -> Capacity:
    """What the traffic fills to the mean usage; if nobody counted bytes, messages do."""
    messages = _per_broker(there, traffic.msg_rate_in, traffic.msg_rate_out)
    bytes_s = _per_broker(there, traffic.bytes_in, traffic.bytes_out)
    if bytes_s > 0 and messages > 0:
        return Capacity(messages / _MESSAGES_USAGE, bytes_s / MEAN_USAGE)
    if bytes_s > 0:
        return Capacity(bytes_s=bytes_s / MEAN_USAGE)
    if messages > 0:
        return Capacity(msg_rate=messages / MEAN_USAGE)
    raise SettingsError("trace: no traffic")


def _per_broker(there: NDArray[np.float64], rates_in: Rates, rates_out: Rates) -> float:
    """The mean over the minutes in which a broker is there."""
    total = rates_in.sum(axis=1, dtype=np.float64) + rates_out.sum(axis=1, dtype=np.float64)
    return float((total[there > 0] / there[there > 0]).mean())
