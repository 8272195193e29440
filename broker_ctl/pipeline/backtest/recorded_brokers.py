"""The brokers of a recorded cluster: their lifetimes and capacities."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broker_ctl.errors import PipelineError
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.cluster import MEAN_USAGE
from broker_ctl.simulation.model.scenario import Event, EventKind

Numbers = NDArray[np.int64]

# A broker that is missing for a shorter time only reported late.
_GONE_MIN: Final = 2
# As in the named scenarios: the capacity in bytes is reached at half of that in messages.
_MESSAGES_RATIO: Final = 0.5


class Size(NamedTuple):
    """Capacity of a broker from a minute on; 0: not reported."""

    minute: int
    cores_percent: float


@dataclass(frozen=True, slots=True, eq=False)
class BrokerSeries:
    """The reports of a broker.

    Attributes:
        minutes: in which it had reported, ascending.
        is_draining: of each of them.
        usage: of each of them, 1.0 is full.
        msg_rate, bytes_s: of each of them, in and out.
        sizes: as they changed, by minute; one before minute 0 counts from there on.
    """

    broker_id: str
    minutes: Numbers
    is_draining: NDArray[np.bool_]
    usage: NDArray[np.float64]
    msg_rate: NDArray[np.float64]
    bytes_s: NDArray[np.float64]
    sizes: Sequence[Size]


class Fleet(NamedTuple):
    """As `Scenario` has it."""

    brokers: Mapping[str, Capacity]
    absent: frozenset[str]
    events: tuple[Event, ...]


def build_fleet(cluster: str, seen: Numbers, brokers: Sequence[BrokerSeries]) -> Fleet:
    """Build the brokers at the start, and their events.

    Args:
        cluster: its name, for errors.
        seen: minutes in which there was a leader, ascending.
        brokers: all that ever reported.

    Raises:
        PipelineError: no broker had any traffic.
    """
    in_order = sorted(brokers, key=lambda each: each.broker_id)
    sizes = _sizes(in_order)
    usual = _capacity(cluster, in_order, sizes)
    absent: set[str] = set()
    events: list[Event] = []
    for series in in_order:
        lives = _lives(series, seen)
        if not lives[0].is_there:
            absent.add(series.broker_id)
        events += _start_stop_events(series, seen, lives)
        events += _resize_events(series.broker_id, sizes[series.broker_id])
    return Fleet(
        {name: usual.times(known[0].cores_percent) for name, known in sizes.items()},
        frozenset(absent),
        tuple(sorted(events, key=lambda event: event.minute)),
    )


class _Life(NamedTuple):
    """A lifetime: a range of indexes into ``seen``."""

    is_there: bool
    start: int
    stop: int


def _lives(series: BrokerSeries, seen: Numbers) -> list[_Life]:
    """Lifetimes of a broker, and the gaps between them."""
    is_there = np.zeros(len(seen), dtype=np.bool_)
    is_there[np.searchsorted(seen, series.minutes)] = True
    for life in [*_stretches(is_there)]:
        if not life.is_there and life.stop - life.start < _GONE_MIN:
            is_there[life.start : life.stop] = True
    return [*_stretches(is_there)]


def _stretches(flags: NDArray[np.bool_]) -> Iterator[_Life]:
    start = 0
    for flag, group in groupby(flags.tolist()):
        stop = start + len(list(group))
        yield _Life(flag, start, stop)
        start = stop


def _start_stop_events(
    series: BrokerSeries, seen: Numbers, lives: Sequence[_Life]
) -> Iterator[Event]:
    """Events of one lifetime: start, drain, undrain, stop."""
    latest = np.searchsorted(series.minutes, seen, side="right") - 1
    draining = series.is_draining[np.maximum(latest, 0)]
    for life in lives:
        if life.start > 0:
            kind = EventKind.UP if life.is_there else EventKind.DOWN
            yield Event(int(seen[life.start]), series.broker_id, kind)
        if not life.is_there:
            continue
        for stretch in _stretches(draining[life.start : life.stop]):
            if stretch.is_there or stretch.start > 0:
                kind = EventKind.DRAIN if stretch.is_there else EventKind.UP
                minute = int(seen[life.start + stretch.start])
                yield Event(minute, series.broker_id, kind)


def _sizes(brokers: Sequence[BrokerSeries]) -> dict[str, list[Size]]:
    """Capacity of each broker over time; 1.0 for all if one of them does not report it."""
    if any(not each.sizes or min(each.sizes, key=_cores).cores_percent <= 0 for each in brokers):
        return {each.broker_id: [Size(0, 1.0)] for each in brokers}
    return {each.broker_id: [*_changes(each.sizes)] for each in brokers}


def _cores(size: Size) -> float:
    return size.cores_percent


def _changes(sizes: Sequence[Size]) -> Iterator[Size]:
    """The sizes without repetitions; the first one applies from the start."""
    before = [each for each in sizes if each.minute <= 0]
    first = before[-1] if before else sizes[0]
    yield Size(0, first.cores_percent)
    last = first.cores_percent
    for each in sizes:
        if each.minute > 0 and each.cores_percent != last:
            yield each
            last = each.cores_percent


def _resize_events(broker_id: str, sizes: Sequence[Size]) -> Iterator[Event]:
    usual = sizes[0].cores_percent
    for each in sizes[1:]:
        factor = each.cores_percent / usual
        yield Event(each.minute, broker_id, EventKind.CAPACITY, factor)


def _capacity(
    cluster: str, brokers: Sequence[BrokerSeries], sizes: Mapping[str, Sequence[Size]]
) -> Capacity:
    """Capacity of a broker of size 1 at which the traffic yields the reported usage."""
    used = room = messages = octets = 0.0
    for series in brokers:
        changes = sizes[series.broker_id]
        places = np.searchsorted([each.minute for each in changes], series.minutes, side="right")
        strong = np.array([each.cores_percent for each in changes])[np.maximum(places - 1, 0)]
        used += float((series.usage * strong).sum())
        room += float(strong.sum())
        messages += float(series.msg_rate.sum())
        octets += float(series.bytes_s.sum())
    # Sum over the minutes of the used share of capacity, in broker sizes.
    full = used if used > 0 else room * MEAN_USAGE
    if octets > 0 and messages > 0:
        return Capacity(messages / full / _MESSAGES_RATIO, octets / full)
    if octets > 0:
        return Capacity(bytes_s=octets / full)
    if messages > 0:
        return Capacity(msg_rate=messages / full)
    raise PipelineError(f"cluster {cluster}: its brokers carried nothing")
