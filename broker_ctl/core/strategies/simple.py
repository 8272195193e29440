"""The Simple manager: ranks of brokers, quotas of bundles, placement and shedding."""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Unload
from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView, participants, too_few
from broker_ctl.core.model.counting import rendezvous_choice, splitmix64
from broker_ctl.core.model.load import (
    DEFAULT_QUOTA,
    BrokerLoad,
    BundleStats,
    ResourceQuota,
    ResourceUsage,
    SystemUsage,
)
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import (
    PlacementRules,
    SheddingRules,
    SimpleRules,
    SimpleStrategy,
)
from broker_ctl.core.strategies.placement.strategies import Choice
from broker_ctl.core.strategies.shedding.policy import Memoryless, NoMemory, permanent_obstacle

# Quotas: the expected needs of each bundle, learnt slowly (docs: pulsar-simple-manager).
#
# A quota follows a rise within half an hour and a fall within a day, so that a broker keeps room
# for a load that comes back. A bundle's statistics have neither CPU nor memory: both are
# estimated from its messages and from its topics and sessions, by factors learnt from the whole
# cluster.


_RISE_S: Final = 30 * 60.0
_FALL_S: Final = 24 * 3600.0
_OBJECTS_PER_GROUP: Final = 500
# With fewer of these the factors are not updated.
_LEAST_MSG_RATE: Final = 1000.0
_LEAST_GROUPS: Final = 30
_LEAST_BUNDLES: Final = 30


@dataclass(frozen=True, slots=True)
class Clamp:
    """Lower and upper bound of a value."""

    low: float
    high: float = float("inf")

    def smooth(self, old: float, sample: float, elapsed_s: float) -> float:
        """Return ``old`` after ``elapsed_s`` of exponential smoothing towards ``sample``."""
        sample = min(max(sample, self.low), self.high)
        window_s = _RISE_S if sample > old else _FALL_S
        part = min(1.0, max(0.0, elapsed_s) / window_s)
        return min(max(old + (sample - old) * part, self.low), self.high)


MSG_RATE: Final = Clamp(5.0)
BANDWIDTH_BYTES: Final = Clamp(10_000.0, 1_000_000.0)
MEMORY_MIB: Final = Clamp(2.0, 200.0)
CPU_PER_MSG: Final = Clamp(0.01, 0.1)
MEMORY_PER_GROUP_MIB: Final = Clamp(10.0, 50.0)


@dataclass(frozen=True, slots=True)
class Factors:
    """Factors to estimate CPU and memory from traffic.

    Attributes:
        cpu_per_msg: percent of one core per msg/s.
        memory_per_group_mib: MiB per 500 topics, producers and consumers.
    """

    cpu_per_msg: float = 0.025
    memory_per_group_mib: float = 25.0

    def learn(
        self, total: BundleStats, usages: Iterable[SystemUsage], elapsed_s: float
    ) -> "Factors":
        """Update the factors after ``elapsed_s`` with this traffic and these usages."""
        held = tuple(usages)
        cpu, memory = self.cpu_per_msg, self.memory_per_group_mib
        if total.msg_rate > _LEAST_MSG_RATE:
            sample = sum(usage.cpu.usage for usage in held) / total.msg_rate
            cpu = CPU_PER_MSG.smooth(cpu, sample, elapsed_s)
        groups = object_groups(total)
        if groups > _LEAST_GROUPS:
            sample = sum(usage.memory.usage for usage in held) / groups
            memory = MEMORY_PER_GROUP_MIB.smooth(memory, sample, elapsed_s)
        return Factors(cpu, memory)


def object_groups(stats: BundleStats) -> float:
    """Return the number of topics, producers and consumers, in groups of 500."""
    return (stats.topics + stats.sessions) / _OBJECTS_PER_GROUP


def smooth_quota(
    old: ResourceQuota, stats: BundleStats, factors: Factors, elapsed_s: float
) -> ResourceQuota:
    """Return a bundle's quota after ``elapsed_s`` of this traffic; static quotas do not change."""
    if not old.is_dynamic:
        return old
    memory = object_groups(stats) * factors.memory_per_group_mib
    return ResourceQuota(
        MSG_RATE.smooth(old.msg_rate_in, stats.msg_rate_in, elapsed_s),
        MSG_RATE.smooth(old.msg_rate_out, stats.msg_rate_out, elapsed_s),
        BANDWIDTH_BYTES.smooth(old.bandwidth_in_bytes, stats.msg_throughput_in, elapsed_s),
        BANDWIDTH_BYTES.smooth(old.bandwidth_out_bytes, stats.msg_throughput_out, elapsed_s),
        MEMORY_MIB.smooth(old.memory_mib, memory, elapsed_s),
    )


def default_after(
    old: ResourceQuota,
    total: BundleStats,
    bundles: int,
    factors: Factors,
    elapsed_s: float,
) -> ResourceQuota:
    """Return the new default quota: the mean of all bundles, or the old one if they are few."""
    if bundles <= _LEAST_BUNDLES:
        return old
    mean = BundleStats(
        total.msg_rate_in / bundles,
        total.msg_rate_out / bundles,
        total.msg_throughput_in / bundles,
        total.msg_throughput_out / bundles,
        topics=round((total.topics + total.sessions) / bundles),
    )
    return smooth_quota(old, mean, factors, elapsed_s)


def quota_sum(quotas: Iterable[ResourceQuota]) -> ResourceQuota:
    """Return the sum of quotas."""
    rate_in = rate_out = bytes_in = bytes_out = memory = 0.0
    for quota in quotas:
        rate_in += quota.msg_rate_in
        rate_out += quota.msg_rate_out
        bytes_in += quota.bandwidth_in_bytes
        bytes_out += quota.bandwidth_out_bytes
        memory += quota.memory_mib
    return ResourceQuota(rate_in, rate_out, bytes_in, bytes_out, memory)


def times(quota: ResourceQuota, count: int) -> ResourceQuota:
    """Return a quota multiplied by ``count``."""
    return ResourceQuota(
        quota.msg_rate_in * count,
        quota.msg_rate_out * count,
        quota.bandwidth_in_bytes * count,
        quota.bandwidth_out_bytes * count,
        quota.memory_mib * count,
    )


@dataclass(frozen=True, slots=True)
class QuotaBook:
    """Expected needs of the brokers' bundles, for ranks.

    Attributes:
        allocated: by broker, the sum of the quotas of the bundles that it reports.
        default: quota of a bundle that is promised to a broker but not reported yet.
    """

    allocated: Mapping[str, ResourceQuota] = field(default_factory=dict)
    default: ResourceQuota = DEFAULT_QUOTA
    factors: Factors = Factors()

    def of(self, load: BrokerLoad) -> ResourceQuota:
        """Return the needs of the bundles in a report; for unknown brokers, by their number."""
        known = self.allocated.get(load.broker_id)
        return times(self.default, load.bundle_count) if known is None else known


# Rank of a broker: how full it is, and how much more it could hold (docs: pulsar-simple-manager).
#
# The rank uses the measured usage or the sum of the bundles' quotas, whichever is larger. Each
# bundle that was promised to the broker and is not yet in its report adds the default quota.


# Brokers whose usage differs by less are equal in that resource; then the next one is compared.
_POINTS: Final = 5.0
_FULL_PERCENT: Final = 100.0


@dataclass(frozen=True, slots=True)
class Rank:
    """One broker; percents are of a resource's limit, and never above 100.

    Attributes:
        load_percent: the highest of the resources.
        msg_rate: expected msg/s of all bundles that it owns or was promised.
        capacity: number of bundles of the default quota that it could hold when empty.
        is_idle: whether it owns no bundles and none are promised to it.
    """

    broker_id: str
    load_percent: float
    cpu_percent: float
    memory_percent: float
    bandwidth_in_percent: float
    bandwidth_out_percent: float
    msg_rate: float
    capacity: float
    is_idle: bool

    @property
    def free_ratio(self) -> float:
        """Free fraction of the broker's capacity; 1.0 for an empty broker."""
        return 1 - self.load_percent / _FULL_PERCENT

    def is_before(self, other: "Rank") -> bool:
        """Return whether it is emptier by more than 5 points in total, or else in one resource."""
        pairs = (
            (self.load_percent, other.load_percent),
            (self.memory_percent, other.memory_percent),
            (self.cpu_percent, other.cpu_percent),
            (self.bandwidth_in_percent, other.bandwidth_in_percent),
            (self.bandwidth_out_percent, other.bandwidth_out_percent),
        )
        for mine, others in pairs:
            if abs(mine - others) > _POINTS:
                return mine < others
        return self.load_percent < other.load_percent


def rank(broker: BrokerView, book: QuotaBook) -> Rank:
    """Return the rank of a broker."""
    usage, allocated = broker.load.usage, book.of(broker.load)
    promised_count = max(0, len(broker.owned) - broker.load.bundle_count)
    promised = times(book.default, promised_count)
    needs, promises = _needs(allocated, book.factors), _needs(promised, book.factors)
    resources = (usage.cpu, usage.memory, usage.bandwidth_in, usage.bandwidth_out)
    cpu, memory, bandwidth_in, bandwidth_out = map(_percent, resources, needs, promises)
    direct_memory = min(_FULL_PERCENT, usage.direct_memory.percent)
    return Rank(
        broker.broker_id,
        max(cpu, memory, direct_memory, bandwidth_in, bandwidth_out),
        cpu,
        memory,
        bandwidth_in,
        bandwidth_out,
        msg_rate=allocated.msg_rate + promised.msg_rate,
        capacity=_capacity(resources, _needs(book.default, book.factors)),
        is_idle=not broker.owned,
    )


def _needs(quota: ResourceQuota, factors: Factors) -> tuple[float, float, float, float]:
    """CPU in percent of one core, memory in MiB, bandwidth in Kbit/s: the units of a report."""
    return (
        quota.msg_rate * factors.cpu_per_msg,
        quota.memory_mib,
        quota.bandwidth_in_bytes * 8 / 1000,
        quota.bandwidth_out_bytes * 8 / 1000,
    )


def _percent(resource: ResourceUsage, need: float, promised: float) -> float:
    expected = ResourceUsage(max(resource.usage, need) + promised, resource.limit)
    return min(_FULL_PERCENT, expected.percent)


def _capacity(limits: Iterable[ResourceUsage], needs: tuple[float, ...]) -> float:
    """The scarcest resource decides; one of unknown limit is ignored."""
    return min(
        (
            resource.limit / need
            for resource, need in zip(limits, needs, strict=True)
            if resource.limit > 0 and need > 0
        ),
        default=0.0,
    )


# Placement of the Simple manager (docs: pulsar-simple-manager).
#
# Bundles that were promised and not yet reported count, so that a burst of choices is spread.
# Pulsar uses a rotating cursor or a random number; here the view's seed decides, so that the same
# view always gives the same choice.


@dataclass(frozen=True, slots=True)
class SimplePlacement:
    """One of the three strategies of SimpleLoadManagerImpl, as its rules say."""

    rules: SimpleRules = field(default_factory=SimpleRules)
    book: QuotaBook = field(default_factory=QuotaBook)

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """Choose the receiver among ``candidates``."""
        del rules  # the Simple manager has thresholds of its own
        if not candidates:
            return Choice(None, Reason.NO_BROKER, "no broker is left to receive it")
        ranks = [rank(view.brokers[broker_id], self.book) for broker_id in sorted(candidates)]
        if self.rules.strategy is SimpleStrategy.WEIGHTED_RANDOM:
            return _by_weight(view, bundle, ranks)
        return self._emptiest(view, bundle, ranks)

    def _emptiest(self, view: ClusterView, bundle: Bundle, ranks: list[Rank]) -> Choice:
        """Choose the emptiest broker; if it is too full, an idle one or the one with most room."""
        idle = [one for one in ranks if one.is_idle]
        busy = [one for one in ranks if not one.is_idle]
        best = self._first(busy, view, bundle) if busy else None
        if idle and (best is None or best.load_percent > self.rules.underload_percent):
            why = "nobody owns anything" if best is None else _at(best)
            return _choose_randomly(view, bundle, idle, f"idle; {why}")
        assert best is not None
        if best.load_percent >= 100:
            return _choose_randomly(view, bundle, ranks, "all are full")
        if best.load_percent > self.rules.overload_percent:
            roomiest = max(busy, key=lambda one: (one.capacity * one.free_ratio, one.broker_id))
            return Choice(roomiest.broker_id, Reason.ALL_OVERLOADED, f"most room; {_at(roomiest)}")
        if self.rules.strategy is SimpleStrategy.LEAST_MSG_RATE:
            text = f"{best.msg_rate:,.0f} msg/s expected, {_among('the least', busy)}"
            return Choice(best.broker_id, Reason.LEAST_MSG_RATE, text)
        text = f"{_among('the emptiest', busy)}; {_at(best)}"
        return Choice(best.broker_id, Reason.LEAST_USAGE, text)

    def _first(self, busy: list[Rank], view: ClusterView, bundle: Bundle) -> Rank:
        if self.rules.strategy is SimpleStrategy.LEAST_MSG_RATE:
            least = min(one.msg_rate for one in busy)
            busy = [one for one in busy if one.msg_rate == least]
        best = reduce(lambda one, other: other if other.is_before(one) else one, busy)
        equal = {one.broker_id: one for one in busy if not best.is_before(one)}
        return equal[rendezvous_choice(view.draw_seed, str(bundle), equal)]


def _among(what: str, busy: Sequence[Rank]) -> str:
    return f"{what} of {len(busy)}" if len(busy) > 1 else "the only one to choose from"


def _at(one: Rank) -> str:
    return f"{one.broker_id} at {one.load_percent:.1f} %"


def _choose_randomly(view: ClusterView, bundle: Bundle, ranks: Iterable[Rank], why: str) -> Choice:
    names = [one.broker_id for one in ranks]
    chosen = rendezvous_choice(view.draw_seed, str(bundle), names)
    return Choice(chosen, Reason.DRAWN, f"drawn out of {len(names)}: {why}")


def _by_weight(view: ClusterView, bundle: Bundle, ranks: list[Rank]) -> Choice:
    """Choose a random broker, weighted by capacity times the square of its free fraction."""
    weights = [one.capacity * one.free_ratio**2 for one in ranks]
    total = sum(weights)
    if total <= 0:
        return _choose_randomly(view, bundle, ranks, "all are full")
    seed = splitmix64((view.draw_seed & 0xFFFF_FFFF_FFFF_FFFF) ^ zlib.crc32(str(bundle).encode()))
    left = splitmix64(seed) / 2**64 * total
    chosen = 0
    while chosen < len(ranks) - 1 and left >= weights[chosen]:
        left -= weights[chosen]
        chosen += 1
    text = f"drawn with a chance of {weights[chosen] / total:.0%}; {_at(ranks[chosen])}"
    return Choice(ranks[chosen].broker_id, Reason.DRAWN, text)


# The Simple manager's rank of a broker (docs: pulsar-simple-manager, pulsar-metrics).
#
# Pulsar calls it the load rank and the quota percentages.


@dataclass(frozen=True, slots=True)
class BrokerRank:
    """Rank of one broker.

    Attributes:
        load_rank: the value that the strategy compares: percent of load, messages per second, or
            the weight in the random choice.
        needed: expected needs of its bundles, owned or promised, without its measured usage.
    """

    load_rank: float
    needed: Rank


def broker_rank(broker: BrokerView, placement: SimplePlacement) -> BrokerRank:
    """Rank a broker by a strategy and its quotas."""
    expected = rank(broker, placement.book)
    match placement.rules.strategy:
        case SimpleStrategy.LEAST_LOADED:
            load_rank = expected.load_percent
        case SimpleStrategy.LEAST_MSG_RATE:
            load_rank = expected.msg_rate
        case SimpleStrategy.WEIGHTED_RANDOM:
            load_rank = expected.capacity * expected.free_ratio**2
    usage = SystemUsage(*(ResourceUsage(0.0, one.limit) for one in broker.load.usage.resources))
    unused = replace(broker, load=replace(broker.load, usage=usage))
    return BrokerRank(load_rank, rank(unused, placement.book))


# Shedding of the Simple manager (docs: pulsar-simple-manager).
#
# A broker above the overload threshold in any of four resources sheds one bundle per cycle: the
# one that uses most of the fullest resource, if another broker has enough room for it. Pulsar
# sheds the first bundle or none. Here bundles that may not move (pinned, moving, in the grace
# period) are skipped; otherwise they would keep their broker overloaded for half an hour.


_KEY: Final = "loadBalancerBrokerOverloadedThresholdPercentage"


@dataclass(frozen=True, slots=True)
class SimpleShedder(Memoryless):
    """The shedding of Pulsar's SimpleLoadManagerImpl."""

    rules: SimpleRules = field(default_factory=SimpleRules)

    def shed(
        self, view: ClusterView, memory: NoMemory, rules: SheddingRules
    ) -> tuple[Decision, ...]:
        """Propose one bundle of each overloaded broker."""
        del memory
        brokers, skipped = participants(view, rules)
        if len(brokers) < 2:
            return (*skipped, too_few(view, len(brokers)))
        decisions = [
            self._give(view, broker, rules)
            for broker in brokers
            if bottleneck(broker)[1] > self.rules.overload_percent
        ]
        return (*skipped, *(decisions or (self._calm(brokers),)))

    def _give(self, view: ClusterView, source: BrokerView, rules: SheddingRules) -> Decision:
        resource, percent = bottleneck(source)
        detail = f"{resource} at {percent:.1f} %, limit {self.rules.overload_percent:g} % ({_KEY})"
        owned = [view.bundles[bundle] for bundle in sorted(source.owned)]
        candidates = [bundle_view for bundle_view in owned if not bundle_view.is_pinned]
        if len(candidates) < 2:
            sole = candidates[0].bundle if candidates else "nothing"
            what = f"{sole} is all that it could give up, until it owns more"
            reason = Reason.SOLE_BUNDLE if candidates else Reason.NO_BUNDLES
            return Skip(source.broker_id, reason, f"{what}; {detail}")
        obstacles = {
            bundle_view.bundle: permanent_obstacle(view, bundle_view, rules)
            for bundle_view in candidates
        }
        free = [bundle_view for bundle_view in candidates if obstacles[bundle_view.bundle] is None]
        if not free:
            first = min(obstacles.values(), key=str)
            assert first is not None
            text = f"none of its {len(candidates)} bundles may go until that ends; {detail}"
            return Skip(source.broker_id, first, text)
        heaviest = max(
            free, key=lambda bundle_view: (_part(bundle_view, resource), bundle_view.bundle)
        )
        if not self._comfortable(view, source, rules):
            text = (
                f"until another broker is below {self.rules.comfort_percent:g} % in everything "
                f"(loadBalancerBrokerComfortLoadLevelPercentage); {detail}"
            )
            return Skip(source.broker_id, Reason.NO_BROKER, text)
        return Unload(heaviest.bundle, source.broker_id, Reason.OVERLOADED, detail)

    def _comfortable(self, view: ClusterView, source: BrokerView, rules: SheddingRules) -> bool:
        """Return whether a broker could receive a bundle and stay far from overload."""
        return any(
            bottleneck(view.brokers[broker_id])[1] < self.rules.comfort_percent
            for broker_id in view.receivers(rules.report_ttl_s, source.broker_id)
        )

    def _calm(self, brokers: tuple[BrokerView, ...]) -> Skip:
        top = max(brokers, key=lambda broker: (bottleneck(broker)[1], broker.broker_id))
        resource, percent = bottleneck(top)
        text = (
            f"{top.broker_id} is highest, {resource} at {percent:.1f} %, until above "
            f"{self.rules.overload_percent:g} % ({_KEY})"
        )
        return Skip("cluster", Reason.BELOW_THRESHOLD, text)


def is_overloaded(usage: SystemUsage, rules: SimpleRules) -> bool:
    """Whether any of the four resources is above the overload threshold."""
    return max(_percents(usage).values()) > rules.overload_percent


def is_underloaded(usage: SystemUsage, rules: SimpleRules) -> bool:
    """Whether all of the four resources are below the underload threshold."""
    return max(_percents(usage).values()) < rules.underload_percent


def bottleneck(broker: BrokerView) -> tuple[str, float]:
    """The fullest of the four resources that count, and its percentage once every move is done.

    Load that has moved since the report changes all resources in proportion to the broker's usage;
    otherwise a broker would shed a bundle per cycle until its next report.
    """
    percents = _percents(broker.load.usage)
    change = (broker.expected.usage_ratio - broker.usage_ratio) * 100
    resource = max(percents, key=lambda name: percents[name])
    return resource, max(0.0, percents[resource] + change)


def _percents(usage: SystemUsage) -> dict[str, float]:
    return {
        "outgoing bandwidth": usage.bandwidth_out.percent,
        "incoming bandwidth": usage.bandwidth_in.percent,
        "CPU": usage.cpu.percent,
        "direct memory": usage.direct_memory.percent,
    }


def _part(bundle_view: BundleView, resource: str) -> float:
    """Return the statistic of a bundle that represents its use of a resource."""
    stats = bundle_view.current or BundleStats()
    return {
        "outgoing bandwidth": stats.msg_throughput_out,
        "incoming bandwidth": stats.msg_throughput_in,
        "CPU": stats.msg_rate,
        "direct memory": float(stats.topics + stats.sessions),
    }[resource]
