"""A recorded history as a back-test replays it: its brokers, and their bundles.

Builds a scenario from a recorded history, minute by minute.

Docs: load-history-sources.

Assumptions where the history has no data:

- A minute without a cycle (there was no leader) repeats the one before it.
- Of a cluster with many bundles several minutes are a cell: its mean is carried in each of them.
  What was there for a part of a cell carries that part of its load, so that sums are kept.
- A bundle that its owner has not reported yet carries its last known load, or else its first one. A
  bundle that is missing for a single minute keeps its load: its row was lost.
- Bundles are those of the first minute. The load of later children counts for their parent, which
  has topics on both sides of each recorded split; the load of a merged bundle is divided by the
  width of its parts.
- Only the number of topics is known: they lie at equal distances.
- The capacity of brokers is not recorded. It is proportional to their processors, and scaled so
  that the traffic yields their recorded mean usage; the limit in bytes is reached before the one in
  messages. Other resources, such as memory, are not modelled.
- A broker without a report for two consecutive minutes or more was gone; a shorter gap is ignored.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.model.names import RING_HIGH, RING_LOW, Bundle, BundleRange, Namespace
from broker_ctl.errors import PipelineError
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.scenario import (
    MEAN_USAGE,
    MOST_CELLS,
    MOST_TOPICS,
    Rates,
    Scenario,
    ScenarioEvent,
    ScenarioEventKind,
    TopicShares,
    Traffic,
)

# The brokers of a recorded cluster: their lifetimes and capacities.


Numbers = NDArray[np.int64]

# A broker that is missing for a shorter time only reported late.
_GONE_MIN: Final = 2
# As in the named scenarios: the capacity in bytes is reached at half of that in messages.
_MESSAGES_RATIO: Final = 0.5


class RecordedSize(NamedTuple):
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
    sizes: Sequence[RecordedSize]


class Fleet(NamedTuple):
    """As `Scenario` has it."""

    brokers: Mapping[str, Capacity]
    absent: frozenset[str]
    events: tuple[ScenarioEvent, ...]


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
    events: list[ScenarioEvent] = []
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
) -> Iterator[ScenarioEvent]:
    """Events of one lifetime: start, drain, undrain, stop."""
    latest = np.searchsorted(series.minutes, seen, side="right") - 1
    draining = series.is_draining[np.maximum(latest, 0)]
    for life in lives:
        if life.start > 0:
            kind = ScenarioEventKind.UP if life.is_there else ScenarioEventKind.DOWN
            yield ScenarioEvent(int(seen[life.start]), series.broker_id, kind)
        if not life.is_there:
            continue
        for stretch in _stretches(draining[life.start : life.stop]):
            if stretch.is_there or stretch.start > 0:
                kind = ScenarioEventKind.DRAIN if stretch.is_there else ScenarioEventKind.UP
                minute = int(seen[life.start + stretch.start])
                yield ScenarioEvent(minute, series.broker_id, kind)


def _sizes(brokers: Sequence[BrokerSeries]) -> dict[str, list[RecordedSize]]:
    """Capacity of each broker over time; 1.0 for all if one of them does not report it."""
    if any(not each.sizes or min(each.sizes, key=_cores).cores_percent <= 0 for each in brokers):
        return {each.broker_id: [RecordedSize(0, 1.0)] for each in brokers}
    return {each.broker_id: [*_changes(each.sizes)] for each in brokers}


def _cores(size: RecordedSize) -> float:
    return size.cores_percent


def _changes(sizes: Sequence[RecordedSize]) -> Iterator[RecordedSize]:
    """The sizes without repetitions; the first one applies from the start."""
    before = [each for each in sizes if each.minute <= 0]
    first = before[-1] if before else sizes[0]
    yield RecordedSize(0, first.cores_percent)
    last = first.cores_percent
    for each in sizes:
        if each.minute > 0 and each.cores_percent != last:
            yield each
            last = each.cores_percent


def _resize_events(broker_id: str, sizes: Sequence[RecordedSize]) -> Iterator[ScenarioEvent]:
    usual = sizes[0].cores_percent
    for each in sizes[1:]:
        factor = each.cores_percent / usual
        yield ScenarioEvent(each.minute, broker_id, ScenarioEventKind.CAPACITY, factor)


def _capacity(
    cluster: str, brokers: Sequence[BrokerSeries], sizes: Mapping[str, Sequence[RecordedSize]]
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


_RATES: Final = 4
# Each a part of the next one, and of an hour.
_CELLS_MIN: Final = (1, 5, 10, 30, 60)
# Rows are lost with a leader that dies in the middle of a cycle, and when a history queue is full.
_LOST_MIN: Final = 1


@dataclass(frozen=True, slots=True, eq=False)
class BundleSeries:
    """The load of a bundle while it existed.

    Attributes:
        cells: those in which the leader knew it, ascending.
        rates: messages in and out, bytes in and out a second, shape (4, cells); NaN: its owner
            had not reported it.
        owner: who had it first; None: nobody ever did.
        topics: most that it had.
    """

    bundle: Bundle
    cells: Numbers
    rates: Rates
    owner: str | None
    topics: int


@dataclass(frozen=True, slots=True, eq=False)
class RecordedHistory:
    """The recorded history of a cluster.

    Attributes:
        seen: minutes with a leader, ascending; the first is 0.
        rings: bundle boundaries of the first minute, as far as recorded.
        cell_min: minutes in a cell of the bundles' series.
    """

    cluster: str
    seen: Numbers
    rings: Mapping[Namespace, Sequence[int]]
    bundles: Sequence[BundleSeries]
    brokers: Sequence[BrokerSeries]
    cell_min: int = 1

    @property
    def cells(self) -> Numbers:
        """Those with a leader, ascending."""
        return np.unique(self.seen // self.cell_min)


def cell_min_of(minutes: int, bundles: int) -> int:
    """Minutes in a cell, so that there are not too many; 0: there would be, even of an hour."""
    return next((each for each in _CELLS_MIN if minutes // each * bundles <= MOST_CELLS), 0)


def build_scenario(history: RecordedHistory) -> Scenario:
    """Build the scenario of a recorded history.

    Raises:
        PipelineError: it has no bundles, no traffic, or too much of it.
    """
    if not history.bundles:
        raise PipelineError(f"cluster {history.cluster}: no bundle was ever reported")
    parents = _Parents(_first_bundles(history))
    minutes = int(history.seen[-1]) + 1
    _check_size(history, minutes // history.cell_min, len(parents.bundles))
    traffic = _traffic(history, parents, minutes)
    fleet = build_fleet(history.cluster, history.seen, history.brokers)
    owners = _owners(history, parents, fleet)
    return Scenario(
        f"cluster:{history.cluster}", traffic, fleet.brokers, owners, fleet.absent, fleet.events
    )


def _check_size(history: RecordedHistory, cells: int, bundles: int) -> None:
    """Check the size of the scenario, which the number of rows does not show.

    Cells and bundles may have none.
    """
    if cells * bundles > MOST_CELLS:
        raise PipelineError(
            f"cluster {history.cluster}: {cells * history.cell_min} minutes of {bundles} bundles,"
            f" {history.cell_min} in a cell; at most {MOST_CELLS} cells: --hours takes the newest"
        )
    topics = sum(each.topics for each in history.bundles)
    if topics > MOST_TOPICS:
        raise PipelineError(f"cluster {history.cluster}: {topics} topics; at most {MOST_TOPICS}")


class _Parents:
    """The bundles of the first minute, by name and range.

    Attributes:
        bundles: in their order.
    """

    def __init__(self, bundles: Sequence[Bundle]) -> None:
        self.bundles = tuple(sorted(bundles))
        self._highs: dict[Namespace, list[int]] = {}
        self._first: dict[Namespace, int] = {}
        for place, bundle in enumerate(self.bundles):
            self._first.setdefault(bundle.namespace, place)
            self._highs.setdefault(bundle.namespace, []).append(bundle.range.high)

    def of(self, bundle: Bundle) -> Iterator[tuple[int, float]]:
        """Indexes of the bundles that it overlaps, and its share in each, by width."""
        highs, first = self._highs[bundle.namespace], self._first[bundle.namespace]
        low, high = bundle.range.low, bundle.range.high
        for place in range(bisect_left(highs, low + 1), len(highs)):
            span = self.bundles[first + place].range
            if span.low >= high:
                return
            yield first + place, (min(high, span.high) - max(low, span.low)) / (high - low)


def _first_bundles(history: RecordedHistory) -> list[Bundle]:
    """The bundles of recorded rings; without a ring, those that were observed first."""
    points = {name: set(ring) for name, ring in history.rings.items()}
    taken: dict[Namespace, list[BundleRange]] = {}
    for series in sorted(history.bundles, key=lambda each: (int(each.cells[0]), each.bundle)):
        name, span = series.bundle.namespace, series.bundle.range
        if name in history.rings or any(span.overlaps(each) for each in taken.get(name, ())):
            continue
        taken.setdefault(name, []).append(span)
        points.setdefault(name, {RING_LOW, RING_HIGH}).update((span.low, span.high))
    return [
        Bundle(name, BundleRange(low, high))
        for name, known in points.items()
        for low, high in pairwise(sorted(known))
    ]


def _traffic(history: RecordedHistory, parents: _Parents, minutes: int) -> Traffic:
    count = len(parents.bundles)
    cells = history.cells
    carried = np.zeros((_RATES, len(cells), count), np.float32)
    pieces: list[list[_Piece]] = [[] for _ in range(count)]
    for series in history.bundles:
        held = _sample_rates(series, cells)
        octets = float(
            held[2:].sum(axis=0, dtype=np.float64)[np.searchsorted(cells, series.cells)].mean()
        )
        for place, part in parents.of(series.bundle):
            carried[:, :, place] += held * np.float32(part)
            pieces[place].append(_Piece(series.bundle.range, octets, series.topics))
    if not carried.any():
        raise PipelineError(f"cluster {history.cluster}: its bundles carried nothing")
    # For each cell, the last observed one up to it.
    wanted = np.arange((minutes - 1) // history.cell_min + 1)
    rows = np.searchsorted(cells, wanted, side="right") - 1
    topics = tuple(map(_topics, parents.bundles, pieces))
    return Traffic(parents.bundles, topics, *carried[:, rows], cell_min=history.cell_min)


def _sample_rates(series: BundleSeries, seen: Numbers) -> Rates:
    """Its load in each observed cell, shape (4, seen); 0 while it did not exist."""
    full: Rates = np.zeros((_RATES, len(seen)), np.float32)
    known = np.flatnonzero(~np.isnan(series.rates[0]))
    if not known.size:
        return full
    # The last known value, or the first one if there is none before.
    latest = np.searchsorted(known, np.arange(len(series.cells)), side="right") - 1
    places = np.searchsorted(seen, series.cells)
    full[:, places] = series.rates[:, known[np.maximum(latest, 0)]]
    before = places[:-1][np.diff(places) == _LOST_MIN + 1]
    full[:, before + _LOST_MIN] = full[:, before]
    return full


@dataclass(frozen=True, slots=True)
class _Piece:
    """A range that was a bundle at some time; ``octets`` is its mean load in bytes/s."""

    range: BundleRange
    octets: float
    topics: int


def _topics(parent: Bundle, pieces: Sequence[_Piece]) -> TopicShares:
    """The topics of a bundle, and their shares by the smallest bundle that each once lay in."""
    low, high = parent.range.low, parent.range.high
    ends = {end for each in pieces for end in (each.range.low, each.range.high) if low < end < high}
    atoms = [BundleRange(a, b) for a, b in pairwise([low, *sorted(ends), high])]
    positions: list[int] = []
    weights: list[float] = []
    for atom in atoms:
        weight, topics = _inside(atom, pieces)
        even = TopicShares.even(Bundle(parent.namespace, atom), topics)
        positions += even.positions
        weights += [weight / topics] * topics
    total = math.fsum(weights)
    if total <= 0:
        return TopicShares(tuple(positions), (1 / len(positions),) * len(positions))
    return TopicShares(tuple(positions), tuple(weight / total for weight in weights))


def _inside(atom: BundleRange, pieces: Sequence[_Piece]) -> tuple[float, int]:
    """Bytes/s and topics of a range that was never split."""
    around = [each for each in pieces if each.range.overlaps(atom)]
    if not around:
        return 0.0, 1
    piece = min(around, key=lambda each: each.range.high - each.range.low)
    part = (atom.high - atom.low) / (piece.range.high - piece.range.low)
    return piece.octets * part, min(max(1, round(piece.topics * part)), atom.high - atom.low)


def _owners(history: RecordedHistory, parents: _Parents, fleet: Fleet) -> tuple[str, ...]:
    """The first owner of each bundle; if unknown or not started yet, the brokers in turn."""
    there = [broker for broker in fleet.brokers if broker not in fleet.absent]
    found: dict[int, str] = {}
    for series in sorted(history.bundles, key=lambda each: (int(each.cells[0]), each.bundle)):
        if series.owner in there:
            for place, _ in parents.of(series.bundle):
                found.setdefault(place, series.owner)
    return tuple(
        found.get(place, there[place % len(there)]) for place in range(len(parents.bundles))
    )
