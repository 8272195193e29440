"""The simulated cluster: its bundles, their owners, and the load that each broker serves.

Within a minute rates are constant. A bundle that moves has no owner for a while, and each broker is
charged for the part of the minute in which it served the bundle.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.model.namespace import Ring
from broker_ctl.simulation.model.scenario import Event, Scenario, Traffic
from broker_ctl.simulation.replay.brokers import Broker, build_brokers
from broker_ctl.simulation.replay.subranges import Piece, Subrange, evenly_divided

Floats = NDArray[np.float64]

_MINUTE_S: Final = 60.0
NOBODY: Final = -1


class Cluster:
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
            Subrange.of(traffic.bundles[i], (Piece(i, 1.0, traffic.topics[i]),)) for i in order
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

    def apply_event(self, event: Event) -> list[int]:
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
