"""The simulated cluster: its bundles, their owners, its brokers, and the load that each serves."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.cluster.decisions import Assign, Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.names import Bundle, BundleRange, Namespace, Ring
from broker_ctl.core.planning.decide import CycleRules
from broker_ctl.core.strategies.placement.pipeline import place
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.scenario import (
    Scenario,
    ScenarioEvent,
    ScenarioEventKind,
    TopicShares,
    Traffic,
)

# The record of a replay: usage by minute, and all executed decisions.


# Scores skip the start, before a strategy has acted.
_WARM_UP_MIN: Final = 10


class MoveCause(StrEnum):
    """Why a bundle changed its owner."""

    LOAD = "load"
    DRAIN = "drain"
    DEATH = "death"
    REFILL = "refill"


@dataclass(frozen=True, slots=True)
class Moved:
    """A change of a bundle's owner.

    Attributes:
        bytes_s: its bytes a second at that time, in and out.
        reason: why it moved, or why its receiver was chosen where it had lost its broker.
        cause: `Cause.REFILL`: it went to a broker that had come within the last hour.
    """

    minute: int
    bundle: Bundle
    source: str
    destination: str
    bytes_s: float
    reason: Reason
    cause: MoveCause


@dataclass(frozen=True, slots=True)
class Reshaped:
    """Bundles that were replaced by others: one by several, or two by one."""

    minute: int
    before: tuple[Bundle, ...]
    after: tuple[Bundle, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """A scenario under one set of rules.

    Attributes:
        brokers: all that were ever there, by id.
        usage: shape (minutes, brokers), 1.0 is full, more is more than there is; NaN: it was down.
        offered_bytes: bytes/s of all bundles, served or not, by minute.
        moves, splits, merges: in the order in which they were done.
    """

    scenario: Scenario
    brokers: tuple[str, ...]
    usage: Floats
    offered_bytes: Floats
    moves: tuple[Moved, ...]
    splits: tuple[Reshaped, ...]
    merges: tuple[Reshaped, ...]

    @property
    def max_over_mean(self) -> Floats:
        """Of the usage of the brokers that were there, by minute; 1.0 where there was no load."""
        mean = np.nanmean(self.usage, axis=1)
        most = np.nanmax(self.usage, axis=1)
        ratios: Floats = np.divide(most, mean, out=np.ones_like(mean), where=mean > 0)
        return ratios


@dataclass(slots=True)
class ReplayRecord:
    """A replay while it is made."""

    usage: list[Floats] = field(default_factory=list)
    offered_bytes: list[float] = field(default_factory=list)
    moves: list[Moved] = field(default_factory=list)
    splits: list[Reshaped] = field(default_factory=list)
    merges: list[Reshaped] = field(default_factory=list)

    def finished(self, scenario: Scenario, brokers: tuple[str, ...]) -> Replay:
        """As a value."""
        return Replay(
            scenario=scenario,
            brokers=brokers,
            usage=np.array(self.usage).reshape(-1, len(brokers)),
            offered_bytes=np.array(self.offered_bytes),
            moves=tuple(self.moves),
            splits=tuple(self.splits),
            merges=tuple(self.merges),
        )


def after_warm_up(series: Floats) -> Floats:
    """A series by minute without the first ten, unless there are no others."""
    return series[_WARM_UP_MIN:] if len(series) > _WARM_UP_MIN else series


# Maps a current bundle to parts of the bundles that a scenario begins with.
#
# A scenario defines the traffic of its initial bundles. A split divides the traffic by topics,
# and a merge adds it up; each resulting bundle refers to its parts of the initial series.


@dataclass(frozen=True, slots=True)
class BundlePiece:
    """A part of one of the first bundles.

    Attributes:
        origin: which one, by its place in ``Traffic.bundles``.
        weight: its part of that bundle's traffic.
        topics: the topics that lie in it.
    """

    origin: int
    weight: float
    topics: TopicShares

    def within(self, span: BundleRange) -> "BundlePiece":
        """What of it lies in ``span``; all of it where it has no topics."""
        inside = [
            (position, share)
            for position, share in zip(self.topics.positions, self.topics.shares, strict=True)
            if position in span
        ]
        if len(inside) == len(self.topics.positions):
            return self
        topics = TopicShares(tuple(p for p, _ in inside), tuple(s for _, s in inside))
        return BundlePiece(self.origin, math.fsum(topics.shares), topics)


@dataclass(frozen=True, slots=True)
class Subrange:
    """A bundle with what lies in it.

    Attributes:
        text: of the bundle, as it stands in reports.
        topics: how many.
    """

    bundle: Bundle
    text: str
    pieces: tuple[BundlePiece, ...]
    topics: int

    @classmethod
    def of(cls, bundle: Bundle, pieces: tuple[BundlePiece, ...]) -> Self:
        """The parcel of these pieces, by their place on the ring."""
        topics = sum(len(piece.topics.positions) for piece in pieces)
        return cls(bundle, str(bundle), pieces, topics)

    def cut(self, boundaries: tuple[int, ...]) -> list["Subrange"]:
        """Its children; what has traffic and no topics goes to the first.

        Raises:
            InvalidName: no boundary, or one that is not strictly inside.
        """
        bare = [piece for piece in self.pieces if not piece.topics.positions]
        children: list[Subrange] = []
        for child in self.bundle.cut(boundaries):
            parts = [piece.within(child.range) for piece in self.pieces]
            held = [part for part in parts if part.topics.positions]
            children.append(Subrange.of(child, (*bare, *held)))
            bare = []
        return children

    def joined(self, right: "Subrange") -> "Subrange":
        """What comes of the two when they are merged."""
        return Subrange.of(self.bundle.joined(right.bundle), (*self.pieces, *right.pieces))


def evenly_divided(subranges: Sequence[Subrange], count: int) -> list[tuple[Subrange, int]]:
    """Each namespace as ``count`` even bundles; of each the place of the one in which it begins.

    Args:
        subranges: the bundles of whole namespaces, in the order of the ring.
        count: as a cluster makes them that has this number for new namespaces.
    """
    found: list[tuple[Subrange, int]] = []
    for namespace in dict.fromkeys(parcel.bundle.namespace for parcel in subranges):
        places = [n for n, each in enumerate(subranges) if each.bundle.namespace == namespace]
        for bundle in Ring.even(namespace, count).bundles:
            span = bundle.range
            near = [place for place in places if subranges[place].bundle.overlaps(bundle)]
            pieces = [
                part
                for place in near
                for piece in subranges[place].pieces
                # What has no topics lies where its bundle begins.
                if (part := piece.within(span)).topics.positions
                or (not piece.topics.positions and subranges[place].bundle.range.low in span)
            ]
            found.append((Subrange.of(bundle, tuple(pieces)), near[0]))
    return found


# The brokers of a simulated cluster: lifetimes, capacities and drains.


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

    def after(self, event: ScenarioEvent) -> "Broker":
        """The broker after an event."""
        match event.kind:
            case ScenarioEventKind.UP:
                since = self.since if self.is_up else event.minute
                return replace(self, is_up=True, is_draining=False, since=since)
            case ScenarioEventKind.DOWN:
                return replace(self, is_up=False, is_draining=False)
            case ScenarioEventKind.DRAIN:
                return replace(self, is_draining=self.is_up)
            case ScenarioEventKind.CAPACITY:
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


def by_minute(events: Iterable[ScenarioEvent]) -> dict[int, list[ScenarioEvent]]:
    """Events of each minute, in their order."""
    found: dict[int, list[ScenarioEvent]] = {}
    for event in events:
        found.setdefault(event.minute, []).append(event)
    return found


# Bundles of a dead broker, which wait for the end of its session and are placed again.
#
# The daemon's is `balancer/planning/orphans.py`: the heaviest first, each on a view that keeps
# what was promised before. Those without traffic come last; there it is a lookup that places
# them.


@dataclass(frozen=True, slots=True)
class Orphan:
    """A bundle that has lost its broker.

    Attributes:
        former: whose it was.
        from_minute: when it may be placed again: a dead broker's session must end before.
    """

    former: str
    cause: MoveCause
    from_minute: int


def due_orphans(orphans: Mapping[Bundle, Orphan], minute: int) -> list[Bundle]:
    """Orphans that may be placed now."""
    return [bundle for bundle, orphan in orphans.items() if orphan.from_minute <= minute]


def place_orphans(view: ClusterView, bundles: Iterable[Bundle], rules: CycleRules) -> list[Assign]:
    """Choose owners; bundles without a possible receiver are left out."""
    seen = [view.bundles[bundle] for bundle in bundles]
    assigns: list[Assign] = []
    for one in sorted(seen, key=lambda one: (-one.load.short.throughput, one.bundle)):
        able = view.receivers(rules.placement_rules.report_ttl_s)
        choice = place(view, one.bundle, able, rules.placement, rules.placement_rules)
        if choice.broker_id is None:
            continue
        assigns.append(Assign(one.bundle, choice.broker_id, choice.reason, choice.detail))
        view = view.after(assigns[-1])
    return assigns


# The simulated cluster: its bundles, their owners, and the load that each broker serves.
#
# Within a minute rates are constant. A bundle that moves has no owner for a while, and each
# broker is charged for the part of the minute in which it served the bundle.


_MINUTE_S: Final = 60.0
NOBODY: Final = -1


class ReplayCluster:
    """The state of the cluster, which executed commands change.

    Attributes:
        brokers: all that are ever there, by id.
        subranges: the bundles of now, by namespace and range.
        owners: of each parcel the number of its broker; `NOBODY`.
        rings: of each namespace.
        rates: this minute's messages in and out, bytes in and out of each parcel a second, shape
            (4, subranges).
        minute: whose rates they are.
        shape: grows whenever bundles are split or merged.

    Args:
        bundles_per_namespace: even bundles of each namespace at the start, in place of those of the
            scenario; a bundle begins where the one was in which its range begins.
    """

    def __init__(self, scenario: Scenario, bundles_per_namespace: int | None = None) -> None:
        self.brokers = {broker.broker_id: broker for broker in build_brokers(scenario)}
        traffic = scenario.traffic
        order = sorted(range(len(traffic.bundles)), key=traffic.bundles.__getitem__)
        self.subranges = [
            Subrange.of(traffic.bundles[i], (BundlePiece(i, 1.0, traffic.topics[i]),))
            for i in order
        ]
        numbers = [self.brokers[scenario.owners[i]].number for i in order]
        if bundles_per_namespace is not None:
            divided = evenly_divided(self.subranges, bundles_per_namespace)
            self.subranges = [parcel for parcel, _ in divided]
            numbers = [numbers[place] for _, place in divided]
        self.owners: NDArray[np.int64] = np.array(numbers, dtype=np.int64)
        self.rings = _rings(parcel.bundle for parcel in self.subranges)
        self.shape = 0
        self._ids = tuple(self.brokers)
        self._series = _series(traffic)
        self._cell_min = traffic.cell_min
        self._served_from_s = np.zeros(len(self.subranges))
        self._earlier = np.zeros((4, len(self._ids)))
        self._index()
        self.begin(0)

    # What there is.

    def place_of(self, bundle: Bundle) -> int | None:
        """Its place among the subranges; None: the bundle was split or merged."""
        return self._places.get(bundle)

    @property
    def owner_ids(self) -> list[str | None]:
        """Of each parcel."""
        ids = (*self._ids, None)
        return [ids[number] for number in self.owners.tolist()]

    @property
    def present(self) -> list[Broker]:
        """Brokers that are there, by id."""
        return [broker for broker in self.brokers.values() if broker.is_up]

    def bytes_of(self, place: int) -> float:
        """Bytes a second of one bundle, in and out."""
        return float(self.rates[2, place] + self.rates[3, place])

    def topics_of(self, place: int) -> Iterator[tuple[int, float, float]]:
        """Of one bundle: position, messages a second and bytes a second, in and out, of each."""
        for piece in self.subranges[place].pieces:
            four = self._series[self.minute // self._cell_min, :, piece.origin].tolist()
            messages, octets = four[0] + four[1], four[2] + four[3]
            for position, share in zip(piece.topics.positions, piece.topics.shares, strict=True):
                yield position, messages * share, octets * share

    def carried_bytes(self, start: int, stop: int) -> Floats:
        """Bytes a second of each bundle of now, in and out, from one minute to another.

        As if they had been bundles all the time; shape (minutes, subranges).
        """
        cells = np.arange(start, stop) // self._cell_min
        octets = self._series[cells, 2] + self._series[cells, 3]
        pieces = octets[:, self._piece_origins] * self._piece_weights
        return np.array([np.bincount(self._piece_places, row) for row in pieces])

    # Time.

    def begin(self, minute: int) -> None:
        """Start a minute with its rates; owners serve their bundles from its first second."""
        self.minute = minute
        self._served_from_s[:] = 0.0
        self._earlier[:] = 0.0
        self._measure()

    def apply_event(self, event: ScenarioEvent) -> list[int]:
        """Apply an event; returns places of the bundles that lost their owner."""
        broker = self.brokers[event.broker_id].after(event)
        self.brokers[event.broker_id] = broker
        if broker.is_up:
            return []
        left: list[int] = np.flatnonzero(self.owners == broker.number).tolist()
        self.owners[left] = NOBODY
        return left

    # Orders.

    def give(self, place: int, broker_id: str, at_s: float, served_s: float) -> None:
        """A bundle goes to a broker, which serves it from ``served_s`` of this minute on."""
        self._charge(place, at_s)
        self.owners[place] = self.brokers[broker_id].number
        self._served_from_s[place] = served_s

    def split(self, place: int, boundaries: tuple[int, ...]) -> list[Bundle]:
        """A bundle is replaced by its children, which stay with its owner."""
        parcel = self.subranges[place]
        children = parcel.cut(boundaries)
        namespace = parcel.bundle.namespace
        self.rings[namespace] = self.rings[namespace].split(parcel.bundle, boundaries)
        self._replace(place, 1, children, float(self._served_from_s[place]))
        return [child.bundle for child in children]

    def merge(self, place: int, at_s: float) -> Bundle:
        """A bundle and the next one are replaced by one, which stays with their owner."""
        left, right = self.subranges[place : place + 2]
        whole = left.joined(right)
        namespace = left.bundle.namespace
        self.rings[namespace] = self.rings[namespace].merge(left.bundle, right.bundle)
        for each in (place, place + 1):
            self._charge(each, at_s)
        # What is not served yet when it is merged is served from the later moment on.
        latest_s = max(at_s, *self._served_from_s[place : place + 2].tolist())
        self._replace(place, 2, [whole], latest_s)
        return whole.bundle

    # Load.

    def served(self) -> Floats:
        """What each broker served in this minute on the mean, shape (4, brokers)."""
        parts = np.maximum(_MINUTE_S - self._served_from_s, 0.0) / _MINUTE_S
        return self.totals(self.rates * parts) + self._earlier

    def totals(self, rates: Floats) -> Floats:
        """Sums by owner, shape (4, brokers); what nobody owns counts nowhere."""
        owned = self.owners != NOBODY
        return _sums(self.owners[owned], rates[:, owned], len(self._ids))

    def usage(self, totals: Floats) -> Floats:
        """How full each broker is, 1.0 is full and more is too much; NaN where it is down."""
        usage = np.full(len(self._ids), math.nan)
        for broker in self.present:
            msg_in, msg_out, bytes_in, bytes_out = totals[:, broker.number].tolist()
            messages = (msg_in + msg_out) / broker.capacity.msg_rate
            usage[broker.number] = max(messages, (bytes_in + bytes_out) / broker.capacity.bytes_s)
        return usage

    # Within.

    def _charge(self, place: int, at_s: float) -> None:
        """Its owner is charged for what it has served of the bundle until ``at_s``."""
        number = self.owners[place]
        part = max(0.0, at_s - self._served_from_s[place]) / _MINUTE_S
        if number != NOBODY and part > 0:
            self._earlier[:, number] += self.rates[:, place] * part

    def _replace(self, place: int, count: int, new: list[Subrange], served_s: float) -> None:
        stop, owner = place + count, int(self.owners[place])
        self.subranges[place:stop] = new
        owners, served_from_s = np.full(len(new), owner), np.full(len(new), served_s)
        self.owners = np.concatenate([self.owners[:place], owners, self.owners[stop:]])
        self._served_from_s = np.concatenate(
            [self._served_from_s[:place], served_from_s, self._served_from_s[stop:]]
        )
        self.shape += 1
        self._index()
        self._measure()

    def _index(self) -> None:
        self._places = {parcel.bundle: place for place, parcel in enumerate(self.subranges)}
        pieces = [
            (place, piece.origin, piece.weight)
            for place, parcel in enumerate(self.subranges)
            for piece in parcel.pieces
        ]
        places, origins, weights = zip(*pieces, strict=True)
        self._piece_places = np.array(places, dtype=np.int64)
        self._piece_origins = np.array(origins, dtype=np.int64)
        self._piece_weights = np.array(weights, dtype=np.float64)

    def _measure(self) -> None:
        now = self._series[self.minute // self._cell_min]
        carried = now[:, self._piece_origins] * self._piece_weights
        self.rates = _sums(self._piece_places, carried, len(self.subranges))


def _series(traffic: Traffic) -> Floats:
    """Messages in and out, bytes in and out, shape (cells, 4, bundles)."""
    four = (traffic.msg_rate_in, traffic.msg_rate_out, traffic.bytes_in, traffic.bytes_out)
    return np.stack([rates.astype(np.float64) for rates in four], axis=1)


def _sums(places: NDArray[np.int64], rates: Floats, count: int) -> Floats:
    """Of each row what falls on each of ``count`` places."""
    return np.array([np.bincount(places, row, count) for row in rates], dtype=np.float64)


def _rings(bundles: Iterable[Bundle]) -> dict[Namespace, Ring]:
    points: dict[Namespace, set[int]] = {}
    for bundle in bundles:
        points.setdefault(bundle.namespace, set()).update((bundle.range.low, bundle.range.high))
    return {name: Ring(name, tuple(sorted(known)), 0) for name, known in points.items()}
