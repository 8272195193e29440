"""`ClusterView`: the frozen snapshot of the cluster, on which every policy decides."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, fsum
from typing import Final, assert_never

from broker_ctl.core.cluster.decisions import (
    Assign,
    Decision,
    Merge,
    Reason,
    Skip,
    Split,
    Transfer,
    Unload,
)
from broker_ctl.core.cluster.surges import Surge
from broker_ctl.core.model.broker import NO_CONSTRAINTS, Constraints
from broker_ctl.core.model.load import (
    NO_LOAD,
    BrokerLoad,
    BundleLoad,
    BundleStats,
    LoadVector,
    TimeAverage,
)
from broker_ctl.core.model.names import (
    NO_TOPIC_PARTITIONS,
    Bundle,
    BundleRange,
    Namespace,
    PartitionCounts,
    Ring,
    TopicPartitions,
)
from broker_ctl.core.rules.leader_rules import SheddingRules

# `ClusterView`: the frozen snapshot of the cluster, on which every policy decides.
#
# It is built once per cycle (`core/cluster/snapshot.py`). Together with the rules and the
# policy's memory it is the whole input of a policy: the same view gives the same decisions in the
# daemon, in the simulator and in Spark.


# What surges: a bundle, or a tenant by its name.
Subject = Bundle | str


@dataclass(frozen=True, slots=True)
class BrokerView:
    """One live broker.

    Attributes:
        load: its last report, unchanged.
        usage_ratio: weighted maximum of that report (`core.load.max_usage`), 1.0 is full.
        is_draining: it is stopping or drained: it gives bundles up and receives none.
        age_s: age of the report.
        owned: bundles that it owns once every move in flight has ended.
        expected: load of ``owned``: the report, corrected for bundles that came or went since. Set
            by `snapshot`, updated by `ClusterView.after`.
        served: number of ``owned`` bundles of each namespace; set and updated likewise.
        partitions: partitions of each topic in ``owned``; likewise, where topics are known.
        takes_persistent, takes_non_persistent: kinds of topics that it serves.
        session_id: session of its registration; a restarted broker has another one.
        size_ratio: its capacity over that of the mean broker (`core.load.size_ratios`).
    """

    broker_id: str
    load: BrokerLoad
    usage_ratio: float
    is_draining: bool = False
    age_s: float = 0.0
    owned: frozenset[Bundle] = frozenset()
    expected: LoadVector = NO_LOAD
    served: Mapping[Namespace, int] = field(default_factory=dict)
    takes_persistent: bool = True
    takes_non_persistent: bool = True
    session_id: int = 0
    size_ratio: float = 1.0
    partitions: PartitionCounts = field(default_factory=dict)

    @property
    def held(self) -> LoadVector:
        """The load of ``owned``, and of the bundles that its report only sums up."""
        rest = self.load.unlisted
        if not self.load.unlisted_bundles:
            return self.expected
        return self.expected + LoadVector(
            0.0,
            rest.throughput,
            rest.msg_rate,
            rest.topics,
            bytes_in=rest.msg_throughput_in,
            bytes_out=rest.msg_throughput_out,
            sessions=rest.sessions,
        )

    def holding(
        self,
        *,
        gone: Iterable[Bundle] = (),
        come: Iterable[Bundle] = (),
        expected: LoadVector,
        topics: TopicPartitions = NO_TOPIC_PARTITIONS,
    ) -> "BrokerView":
        """The broker after some of its bundles have gone, and others have come."""
        left, new = self.owned.intersection(gone), frozenset(come) - self.owned
        served = Counter(self.served)
        served.update(bundle.namespace for bundle in new)
        served.subtract(bundle.namespace for bundle in left)
        return replace(
            self,
            owned=self.owned - left | new,
            expected=expected,
            served={namespace: count for namespace, count in served.items() if count > 0},
            partitions=topics.after(self.partitions, left, new),
        )


@dataclass(frozen=True, slots=True)
class BundleView:
    """A bundle that has an owner or was looked up.

    Attributes:
        owner: broker id of the owner node, or None.
        load: short and long average.
        last_unloaded_s: time of its last move that the balancer chose, on the clock of
            ``ClusterView.taken_at_s``.
        last_split_s: time of the split that created it.
        last_released_s: time at which its broker was last commanded to release it, for any cause.
        current: its line in the report of its *owner*; None until the owner has reported it.
        footprint: its load on its broker. ``current`` and ``footprint`` are set by `snapshot`.
        hot_topic: the topic that has nearly all of its traffic, as its owner says; empty: unknown.
    """

    bundle: Bundle
    owner: str | None
    load: BundleLoad
    last_unloaded_s: float | None = None
    last_split_s: float | None = None
    current: BundleStats | None = None
    load_vector: LoadVector = NO_LOAD
    hot_topic: str = ""
    last_released_s: float | None = None

    @property
    def is_pinned(self) -> bool:
        """Return whether it is a heartbeat or SLA bundle, which stays with its broker."""
        return self.bundle.namespace.is_pinned


@dataclass(frozen=True, slots=True)
class InFlight:
    """A move that was started and has not ended; ``is_own``: the balancer chose it."""

    bundle: Bundle
    source: str
    destination: str
    is_own: bool = True


@dataclass(frozen=True, slots=True)
class Settled:
    """A move that ended, for the hourly budget."""

    bundle: Bundle
    at_s: float
    throughput_bytes: float


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ClusterView:
    """The cluster at one moment.

    Attributes:
        epoch: leader epoch at which it was built.
        taken_at_s: time at which it was built, on the clock of all other ``_s`` values.
        taken_at_ms: the same in ms since 1970.
        draw_seed: seed for breaking ties.
        brokers: live brokers by id.
        bundles: bundles with an owner, a move or a load.
        rings: rings of the namespaces of these bundles.
        moves: moves in flight.
        splitting: bundles with a split in progress.
        settled: moves that the balancer chose and that ended within the last hour.
        constraints: constraints on placement.
        surges: bundles and tenants whose traffic has just grown many times.
    """

    epoch: int
    taken_at_s: float
    draw_seed: int
    brokers: Mapping[str, BrokerView]
    bundles: Mapping[Bundle, BundleView]
    rings: Mapping[Namespace, Ring] = field(default_factory=dict)
    moves: Mapping[Bundle, InFlight] = field(default_factory=dict)
    splitting: frozenset[Bundle] = frozenset()
    settled: tuple[Settled, ...] = ()
    constraints: Constraints = NO_CONSTRAINTS
    taken_at_ms: int = 0
    surges: Mapping[Subject, Surge] = field(default_factory=dict)

    def surge_of(self, bundle: Bundle) -> Surge | None:
        """The surge of the bundle, or of its tenant."""
        if not self.surges:
            return None
        return self.surges.get(bundle) or self.surges.get(bundle.namespace.tenant)

    def is_in_ring(self, bundle: Bundle) -> bool:
        """Return whether the ring has this bundle; reports may lag behind a split."""
        ring = self.rings.get(bundle.namespace)
        return ring is not None and bundle in ring

    def is_busy(self, bundle: Bundle) -> bool:
        """Return whether a move or a split of it is in progress."""
        return bundle in self.moves or bundle in self.splitting

    def carrier(self, bundle: Bundle) -> str | None:
        """The broker that owns the bundle once its move, if any, has ended."""
        move = self.moves.get(bundle)
        return move.destination if move else self.bundles[bundle].owner

    def receivers(self, report_ttl_s: float, source: str | None = None) -> tuple[str, ...]:
        """Ids of brokers that may receive bundles: alive, not draining, with a recent report.

        ``source``, the broker that releases the bundle, is excluded.
        """
        return tuple(
            sorted(
                broker.broker_id
                for broker in self.brokers.values()
                if broker.broker_id != source
                and not broker.is_draining
                and broker.age_s <= report_ttl_s
            )
        )

    def after(self, decision: Decision) -> "ClusterView":
        """The view as if ``decision`` had been executed, for the decisions after it.

        The cluster's load stays the same; only its distribution changes.

        Raises:
            BundleGone: the bundle of a split or merge is not in the ring.
            InvalidName: a boundary is not strictly inside, or merged bundles are not adjacent.
        """
        match decision:
            case Skip():
                return self
            case Assign():
                return self._with_owner(decision.bundle, decision.destination)
            case Unload():
                return self._with_owner(decision.bundle, None)
            case Transfer():
                return self._with_owner(decision.bundle, decision.destination)
            case Split():
                return self._split(decision)
            case Merge():
                return self._merged(decision)
        assert_never(decision)

    def _with_owner(self, bundle: Bundle, receiver: str | None) -> "ClusterView":
        bundle_view = self.bundles[bundle]
        brokers = dict(self.brokers)
        giver, topics = self.carrier(bundle), self.constraints.topics
        if giver in brokers:
            broker = brokers[giver]
            left = broker.expected - bundle_view.load_vector
            brokers[giver] = broker.holding(gone=[bundle], expected=left, topics=topics)
        if receiver in brokers:
            broker = brokers[receiver]
            more = broker.expected + bundle_view.load_vector
            brokers[receiver] = broker.holding(come=[bundle], expected=more, topics=topics)
        unloaded_s = bundle_view.last_unloaded_s if bundle_view.owner is None else self.taken_at_s
        moved = replace(bundle_view, owner=receiver, last_unloaded_s=unloaded_s, current=None)
        return replace(self, brokers=brokers, bundles={**self.bundles, bundle: moved})

    def _split(self, split: Split) -> "ClusterView":
        parent = self.bundles[split.bundle]
        # The owner will choose the boundary by its topics; until then the middle is a good guess.
        boundaries = split.boundaries or split.bundle.range.middle
        children = [
            replace(
                parent,
                bundle=child,
                load=_scaled(parent.load, ratio := _ratio(child.range, split.bundle.range)),
                last_split_s=self.taken_at_s,
                current=None,
                load_vector=parent.load_vector.part(ratio),
            )
            for child in split.bundle.cut(boundaries)
        ]
        ring = self.rings[split.bundle.namespace].split(split.bundle, boundaries)
        return self._replaced((parent,), children, ring)

    def _merged(self, merge: Merge) -> "ClusterView":
        left, right = self.bundles[merge.left], self.bundles[merge.right]
        ring = self.rings[merge.left.namespace].merge(merge.left, merge.right)
        whole = replace(
            left,
            bundle=ring.find(merge.left.range.low),
            load=_sum(left.load, right.load),
            current=None,
            load_vector=left.load_vector + right.load_vector,
        )
        return self._replaced((left, right), [whole], ring)

    def _replaced(
        self, old: tuple[BundleView, ...], new: list[BundleView], ring: Ring
    ) -> "ClusterView":
        gone, come = (
            {bundle_view.bundle for bundle_view in old},
            {bundle_view.bundle for bundle_view in new},
        )
        brokers = dict(self.brokers)
        owner = old[0].owner
        if owner in brokers:
            broker = brokers[owner]
            topics = self.constraints.topics
            brokers[owner] = broker.holding(
                gone=gone, come=come, expected=broker.expected, topics=topics
            )
        bundles = dict(self.bundles)
        for bundle in gone:
            del bundles[bundle]
        bundles.update((bundle_view.bundle, bundle_view) for bundle_view in new)
        rings = {**self.rings, ring.namespace: ring}
        return replace(self, brokers=brokers, bundles=bundles, rings=rings)


def _ratio(part: BundleRange, whole: BundleRange) -> float:
    return (part.high - part.low) / (whole.high - whole.low)


def _scaled(load: BundleLoad, ratio: float) -> BundleLoad:
    return BundleLoad(
        _unsampled(load.short, ratio), _unsampled(load.long, ratio), round(load.topics * ratio)
    )


def _unsampled(average: TimeAverage, ratio: float) -> TimeAverage:
    """An estimate for a child without samples, which the first real sample replaces."""
    return TimeAverage(
        average.max_samples,
        0,
        average.msg_rate_in * ratio,
        average.msg_rate_out * ratio,
        average.msg_throughput_in * ratio,
        average.msg_throughput_out * ratio,
    )


def _sum(left: BundleLoad, right: BundleLoad) -> BundleLoad:
    return BundleLoad(
        _joined(left.short, right.short),
        _joined(left.long, right.long),
        left.topics + right.topics,
    )


def _joined(left: TimeAverage, right: TimeAverage) -> TimeAverage:
    return TimeAverage(
        left.max_samples,
        min(left.samples, right.samples),
        left.msg_rate_in + right.msg_rate_in,
        left.msg_rate_out + right.msg_rate_out,
        left.msg_throughput_in + right.msg_throughput_in,
        left.msg_throughput_out + right.msg_throughput_out,
    )


# The brokers that take part in a cycle of shedding.


def participants(
    view: ClusterView, rules: SheddingRules
) -> tuple[tuple[BrokerView, ...], tuple[Skip, ...]]:
    """The participating brokers by id; and why the others do not participate."""
    brokers: list[BrokerView] = []
    skipped: list[Skip] = []
    for broker_id, broker in sorted(view.brokers.items()):
        if broker.is_draining:
            text = "it is being emptied, until its drain ends"
            skipped.append(Skip(broker_id, Reason.DRAINING, text))
        elif broker.age_s > rules.report_ttl_s:
            text = (
                f"last heard of {broker.age_s:.0f} s ago, {rules.report_ttl_s:.0f} s count "
                "(loadBalancerBrokerLoadDataTTLInSeconds), until its next report"
            )
            skipped.append(Skip(broker_id, Reason.STALE_REPORT, text))
        else:
            brokers.append(broker)
    return tuple(brokers), tuple(skipped)


def too_few(view: ClusterView, count: int) -> Skip:
    """The decision to do nothing, because only ``count`` brokers participate."""
    text = f"{count} of {len(view.brokers)} brokers can give and receive, until two can"
    return Skip("cluster", Reason.TOO_FEW_BROKERS, text)


# When what holds a decision back ends, for people.


REST_KEY: Final = "loadBalancerSheddingGracePeriodMinutes"
_HOUR_S: Final = 3600.0
_MINUTE_MS: Final = 60_000
_HOUR_MINUTES: Final = 60
_DAY_MINUTES: Final = 24 * 60


def until_text(view: ClusterView, at_s: float) -> str:
    """``until 10:42 UTC`` for a time on the clock of the view; a view without a date: how long."""
    left_s = max(0.0, at_s - view.taken_at_s)
    if not view.taken_at_ms:
        return f"for {ceil(left_s / 60)} min more"
    # Rounded up: at the minute that is named it has ended.
    minutes = ceil((view.taken_at_ms + left_s * 1000) / _MINUTE_MS) % _DAY_MINUTES
    hours, minutes = divmod(minutes, _HOUR_MINUTES)
    return f"until {hours:02}:{minutes:02} UTC"


def rest_text(view: ClusterView, at_s: float) -> str:
    """``rests until 10:42 UTC, loadBalancerSheddingGracePeriodMinutes``."""
    return f"rests {until_text(view, at_s)}, {REST_KEY}"


def room_text(view: ClusterView, excess_bytes: float) -> str:
    """When as many bytes/s have left the hour that counts: the oldest moves leave first."""
    for past in sorted(view.settled, key=lambda each: each.at_s):
        excess_bytes = fsum((excess_bytes, -past.throughput_bytes))
        if excess_bytes <= 0:
            return until_text(view, past.at_s + _HOUR_S)
    return "until an hour after the moves of now"
