"""The load monitor of the simulated leader: late reports, and the leader's own memory.

The daemon's are `balancer/monitoring/load_monitor.py`, `balancer/context/bundle_history.py` and
`balancer/monitoring/snapshot_builder.py`; what is kept, for how long, and what becomes of it at a
split, is the same here.
"""

from collections import deque
from typing import Final

import numpy as np

from broker_ctl.core.cluster.snapshot import snapshot
from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView, Settled
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load import BundleLoad, max_usage, size_ratios
from broker_ctl.core.model.tie_break import splitmix64
from broker_ctl.simulation.replay.averages import Averages
from broker_ctl.simulation.replay.cluster import Cluster
from broker_ctl.simulation.replay.reports import Reports, empty_report

_MINUTE_S: Final = 60.0
_HOUR_S: Final = 3600.0
_EPOCH: Final = 1


class Board:
    """Of one leader that lives as long as the scenario.

    Attributes:
        reports: the newest that it has got; None before the first.
    """

    def __init__(self, cluster: Cluster) -> None:
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
