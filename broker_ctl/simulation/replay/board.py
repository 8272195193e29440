"""The load monitor of the simulated leader: late reports, and the leader's own memory."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.cluster.snapshot import snapshot
from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView, Settled
from broker_ctl.core.model.counting import splitmix64
from broker_ctl.core.model.load import (
    LONG_SAMPLES,
    SHORT_SAMPLES,
    BrokerLoad,
    BundleLoad,
    BundleStats,
    TimeAverage,
    max_usage,
    size_ratios,
)
from broker_ctl.core.model.names import Bundle
from broker_ctl.simulation.replay.cluster import NOBODY, Broker, ReplayCluster

# What the brokers report at the end of a minute.


@dataclass(frozen=True, slots=True, eq=False)
class Reports:
    """Load reports of all brokers, at one moment.

    Attributes:
        minute: the minute whose load they report.
        loads: by broker id.
        bundles: all bundles at that time.
        owned: indexes of the reported ones among them.
        rates: of each of these, shape (4, owned).
        topics: of each of these.
        shape: of the cluster at that time.
    """

    minute: int
    loads: Mapping[str, BrokerLoad]
    bundles: tuple[Bundle, ...]
    owned: NDArray[np.int64]
    rates: Floats
    topics: NDArray[np.int64]
    shape: int


def reports_of(cluster: ReplayCluster, minute: int) -> Reports:
    """The reports of all live brokers on the bundles that they own."""
    owned: NDArray[np.int64] = np.flatnonzero(cluster.owners != NOBODY)
    rates: Floats = cluster.rates[:, owned]
    subranges = [cluster.subranges[place] for place in owned.tolist()]
    lines: dict[int, dict[str, BundleStats]] = {}
    numbers = cluster.owners[owned].tolist()
    # A topic has a producer and a consumer.
    topics = [parcel.topics for parcel in subranges]
    stats = map(BundleStats, *rates.tolist(), topics, topics, topics)
    for number, parcel, line in zip(numbers, subranges, stats, strict=True):
        lines.setdefault(number, {})[parcel.text] = line
    totals = cluster.totals(cluster.rates)
    return Reports(
        minute=minute,
        loads={
            broker.broker_id: _load(broker, minute, lines.get(broker.number, {}), totals)
            for broker in cluster.present
        },
        bundles=tuple(parcel.bundle for parcel in cluster.subranges),
        owned=owned,
        rates=rates,
        topics=np.array(topics, dtype=np.int64),
        shape=cluster.shape,
    )


def empty_report(broker: Broker) -> BrokerLoad:
    """The report of a broker that has just started."""
    return BrokerLoad(broker.broker_id, broker.capacity.usage_by(BundleStats()))


def _load(
    broker: Broker, minute: int, lines: Mapping[str, BundleStats], totals: Floats
) -> BrokerLoad:
    total = BundleStats(*totals[:, broker.number].tolist())
    usage = broker.capacity.usage_by(total)
    return BrokerLoad(broker.broker_id, usage, lines, updated_ms=minute * 60_000)


# The averages of all bundles at once, as the leader's board keeps them one by one.
#
# A day of five hundred bundles is a million samples. They are folded by columns, and each number
# is to the last bit what `BundleLoad.fold` makes of it with a weight of one.


_LIMITS: Final = (SHORT_SAMPLES, LONG_SAMPLES)


def _kept(limit: int) -> Floats:
    """By the number of samples there were: how much of the average the next one leaves."""
    unsampled = 0.0
    rising = [samples / (samples + 1) for samples in range(1, limit)]
    full = 1 - 1 / limit
    return np.array([unsampled, *rising, full])


_KEPT: Final = tuple(_kept(limit) for limit in _LIMITS)


class Averages:
    """Short and long average of each bundle, by its place among all.

    Args:
        count: bundles; nobody has measured one of them.
    """

    def __init__(self, count: int) -> None:
        unseen = _columns([BundleLoad.unseen()] * count)
        self._values, self._samples, self._topics = unseen

    def fold(self, places: NDArray[np.int64], rates: Floats, topics: NDArray[np.int64]) -> None:
        """One sample of each bundle at ``places``: rates of shape (4, places)."""
        for row, limit in enumerate(_LIMITS):
            samples = self._samples[row, places]
            keep = _KEPT[row][samples]
            before = self._values[row][:, places]
            self._values[row][:, places] = before * keep + rates * (1 - keep)
            self._samples[row, places] = np.minimum(samples + 1, limit)
        self._topics[places] = topics

    def replace(self, place: int, count: int, new: Sequence[BundleLoad]) -> None:
        """Other bundles take the place of ``count`` of them."""
        values, samples, topics = _columns(new)
        stop = place + count
        self._values = np.concatenate(
            [self._values[..., :place], values, self._values[..., stop:]], axis=2
        )
        self._samples = np.concatenate(
            [self._samples[:, :place], samples, self._samples[:, stop:]], axis=1
        )
        self._topics = np.concatenate([self._topics[:place], topics, self._topics[stop:]])

    def all(self) -> list[BundleLoad]:
        """Of each bundle."""
        short, long = (
            map(
                TimeAverage,
                repeat(limit),
                self._samples[row].tolist(),
                *self._values[row].tolist(),
            )
            for row, limit in enumerate(_LIMITS)
        )
        return list(map(BundleLoad, short, long, self._topics.tolist()))

    def of(self, place: int) -> BundleLoad:
        """Of one bundle."""
        short, long = (
            TimeAverage(
                limit, int(self._samples[row, place]), *self._values[row][:, place].tolist()
            )
            for row, limit in enumerate(_LIMITS)
        )
        return BundleLoad(short, long, int(self._topics[place]))


def _columns(
    loads: Sequence[BundleLoad],
) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Values of shape (2, 4, loads), samples of shape (2, loads), topics."""
    pairs = [(load.short, load.long) for load in loads]
    values = [
        [
            [pair[row].msg_rate_in for pair in pairs],
            [pair[row].msg_rate_out for pair in pairs],
            [pair[row].msg_throughput_in for pair in pairs],
            [pair[row].msg_throughput_out for pair in pairs],
        ]
        for row in range(2)
    ]
    samples = [[int(pair[row].samples) for pair in pairs] for row in range(2)]
    topics = [load.topics for load in loads]
    return (
        np.array(values, dtype=np.float64),
        np.array(samples, dtype=np.int64),
        np.array(topics, dtype=np.int64),
    )


# The load monitor of the simulated leader: late reports, and the leader's own memory.
#
# The daemon's are `balancer/monitoring/load_monitor.py`, `balancer/context/bundle_history.py` and
# `balancer/monitoring/snapshot_builder.py`; what is kept, for how long, and what becomes of it at
# a split, is the same here.


_MINUTE_S: Final = 60.0
_HOUR_S: Final = 3600.0
_EPOCH: Final = 1


class Board:
    """Of one leader that lives as long as the scenario.

    Attributes:
        reports: the newest that it has got; None before the first.
    """

    def __init__(self, cluster: ReplayCluster) -> None:
        self._cluster = cluster
        count = len(cluster.subranges)
        self.reports: Reports | None = None
        self._averages = Averages(count)
        self._loads: list[BundleLoad] | None = None
        self._is_reported = [False] * count
        self._unloaded_s: list[float | None] = [None] * count
        self._split_s: list[float | None] = [None] * count
        self._settled: deque[Settled] = deque()
        self._views = 0

    # Reports.

    def fold_reports(self, reports: Reports) -> None:
        """Fold reports in; bundles that were split or merged since are skipped."""
        self.reports = reports
        owned, rates, topics = reports.owned, reports.rates, reports.topics
        if reports.shape == self._cluster.shape:
            places = owned
        else:
            found = [self._cluster.place_of(reports.bundles[old]) for old in owned.tolist()]
            kept = np.array([place is not None for place in found], dtype=np.bool_)
            places = np.array([place for place in found if place is not None], dtype=np.int64)
            rates, topics = rates[:, kept], topics[kept]
        self._averages.fold(places, rates, topics)
        self._loads = None
        for place in places.tolist():
            self._is_reported[place] = True

    # Executed decisions.

    def on_move(self, bundle: Bundle, at_s: float, throughput_bytes: float) -> None:
        """A bundle was unloaded from its owner, by a choice of the balancer."""
        place = self._cluster.place_of(bundle)
        assert place is not None
        self._unloaded_s[place] = at_s
        self._settled.append(Settled(bundle, at_s, throughput_bytes))

    def on_split(self, place: int, parent: Bundle, children: list[Bundle], at_s: float) -> None:
        """Until they are reported, children have a part of what their parent had."""
        whole = parent.range.high - parent.range.low
        load = self._averages.of(place)
        parts = [load.part((each.range.high - each.range.low) / whole) for each in children]
        self._replace(place, 1, parts, at_s, is_reported=self._is_reported[place])

    def on_merge(self, place: int, at_s: float) -> None:
        """The load of a merged bundle is unknown until it is reported."""
        self._replace(place, 2, [BundleLoad.unseen()], at_s, is_reported=False)

    def _replace(
        self, place: int, count: int, loads: list[BundleLoad], at_s: float, *, is_reported: bool
    ) -> None:
        stop = place + count
        self._averages.replace(place, count, loads)
        self._loads = None
        self._is_reported[place:stop] = [is_reported] * len(loads)
        self._unloaded_s[place:stop] = [None] * len(loads)
        self._split_s[place:stop] = [at_s] * len(loads)

    # The leader's view.

    def view(self, minute: int, at_s: float = 0.0) -> ClusterView:
        """The cluster, ``at_s`` seconds into a minute."""
        now_s = minute * _MINUTE_S + at_s
        self._views += 1
        while self._settled and self._settled[0].at_s < now_s - _HOUR_S:
            self._settled.popleft()
        return snapshot(
            epoch=_EPOCH,
            taken_at_s=now_s,
            draw_seed=splitmix64(splitmix64(minute) ^ self._views),
            brokers=self._brokers(at_s),
            bundles=self._bundles(),
            rings=self._cluster.rings.values(),
            settled=tuple(self._settled),
        )

    def _brokers(self, age_s: float) -> list[BrokerView]:
        known = self.reports
        loads = {
            broker.broker_id: known.loads[broker.broker_id]
            if known is not None
            and broker.broker_id in known.loads
            and known.minute >= (broker.since or 0)
            else empty_report(broker)
            for broker in self._cluster.present
        }
        sizes = size_ratios({broker_id: load.usage for broker_id, load in loads.items()})
        return [
            BrokerView(
                broker.broker_id,
                load := loads[broker.broker_id],
                max_usage(load.usage),
                is_draining=broker.is_draining,
                age_s=age_s,
                size_ratio=sizes[broker.broker_id],
            )
            for broker in self._cluster.present
        ]

    def _bundles(self) -> list[BundleView]:
        """Bundles in reports, and bundles that need an owner."""
        if self._loads is None:
            self._loads = self._averages.all()
        owners = self._cluster.owner_ids
        views = map(
            BundleView,
            (parcel.bundle for parcel in self._cluster.subranges),
            owners,
            self._loads,
            self._unloaded_s,
            self._split_s,
        )
        if all(self._is_reported):
            return list(views)
        return [
            seen
            for seen, owner, is_reported in zip(views, owners, self._is_reported, strict=True)
            if is_reported or owner is None
        ]
