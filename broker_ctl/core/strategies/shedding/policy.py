"""The protocol of shedding strategies, and what they share: measures, spread, choice."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import fsum, sqrt
from typing import Any, Protocol, TypeVar

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Transfer, Unload
from broker_ctl.core.cluster.imbalance import improves
from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView
from broker_ctl.core.model.load import LoadVector, throughput_text
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import SheddingRules, TransferRules

# The protocol of shedding strategies: two functions, and a memory that is a plain value.
#
# The leader calls the functions in a thread beside its event loop, one call at a time. They must
# not change their arguments.


class Memory(Protocol):
    """The state that a strategy keeps from cycle to cycle; frozen."""

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values, for a row of history."""
        ...


@dataclass(frozen=True, slots=True)
class NoMemory:
    """The memory of a strategy that needs only the view."""

    def to_row(self) -> dict[str, Any]:
        """Nothing."""
        return {}


class Memoryless:
    """Base class of strategies without memory."""

    def recall(self, row: Mapping[str, Any] | None) -> NoMemory:
        """An empty one."""
        del row
        return NoMemory()

    def observe(
        self,
        memory: NoMemory,
        view: ClusterView,
        rules: SheddingRules,
    ) -> NoMemory:
        """Nothing is learnt."""
        del view, rules
        return memory


MemoryT = TypeVar("MemoryT", bound=Memory)


class SheddingPolicy(Protocol[MemoryT]):
    """Proposes bundles that overloaded brokers give up; the plan chooses receivers or refuses."""

    def recall(self, row: Mapping[str, Any] | None) -> MemoryT:
        """The memory that ``to_row`` wrote; an empty one for None."""
        ...

    def observe(self, memory: MemoryT, view: ClusterView, rules: SheddingRules) -> MemoryT:
        """Learn from a view: once a cycle, before `shed`."""
        ...

    def shed(self, view: ClusterView, memory: MemoryT, rules: SheddingRules) -> Sequence[Decision]:
        """Return the bundles to give up and why others stay; at least one decision."""
        ...


# The measure by which brokers are compared and bundles chosen: messages or bytes.


class Measure(StrEnum):
    """Both count traffic in and out."""

    MSG_RATE = "message rate"
    THROUGHPUT = "throughput"

    def of_bundle(self, bundle_view: BundleView) -> float:
        """Short-term average, in msg/s or bytes/s."""
        short = bundle_view.load.short
        return short.msg_rate if self is Measure.MSG_RATE else short.throughput

    def of_broker(self, view: ClusterView, broker: BrokerView) -> float:
        """Sum over its bundles of what was last reported, once every move has arrived."""
        return fsum(self._latest(view.bundles[bundle]) for bundle in broker.owned)

    def text(self, value: float) -> str:
        """For people: ``1,200 msg/s``, ``12.5 MiB/s``."""
        return f"{value:,.0f} msg/s" if self is Measure.MSG_RATE else throughput_text(value)

    def _latest(self, bundle_view: BundleView) -> float:
        # A bundle that has just moved is in no report of its owner yet.
        if bundle_view.current is None:
            return self.of_bundle(bundle_view)
        current = bundle_view.current
        return current.msg_rate if self is Measure.MSG_RATE else current.throughput


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of load to move."""

    measure: Measure
    value: float

    @property
    def text(self) -> str:
        """For people."""
        return self.measure.text(self.value)


# How unevenly usage is spread over the brokers, and whether that calls for a transfer.
#
# Docs: pulsar-shedders.


@dataclass(frozen=True, slots=True)
class Spread:
    """Loads of at least one broker: usage as the strategy judges it, and bytes/s."""

    usage: Mapping[str, float]
    throughput_bytes: Mapping[str, float]

    @property
    def mean(self) -> float:
        """Of usage."""
        return fsum(self.usage.values()) / len(self.usage)

    @property
    def std(self) -> float:
        """Population standard deviation of usage."""
        mean = self.mean
        return sqrt(fsum((load - mean) ** 2 for load in self.usage.values()) / len(self.usage))

    @property
    def ranked(self) -> list[str]:
        """Coolest first."""
        return sorted(self.usage, key=lambda broker_id: (self.usage[broker_id], broker_id))

    def after(
        self, source: str, destination: str, usage_ratio: float, throughput_bytes: float
    ) -> "Spread":
        """Return the loads after a move of that amount from one broker to another."""
        change = Counter({source: -1, destination: 1})
        return Spread(
            {each: load + change[each] * usage_ratio for each, load in self.usage.items()},
            {
                each: load + change[each] * throughput_bytes
                for each, load in self.throughput_bytes.items()
            },
        )

    def trigger(
        self, source: str, destination: str, rules: SheddingRules
    ) -> tuple[Reason, str] | None:
        """Return why load should move from hottest to coolest; None: the cluster is even."""
        limits, mean, std = rules.transfer, self.mean, self.std
        if std > limits.target_std:
            text = f"usage deviates by {std:.1%} from its mean of {mean:.1%}"
            return Reason.OVERLOADED, f"{text}, {limits.target_std:.1%} are tolerated"
        if self._is_underloaded(source, destination, limits):
            usage = self.usage[destination]
            text = f"{destination} at {usage:.1%} carries next to nothing of the mean of {mean:.1%}"
            return Reason.UNDERLOADED_RECEIVER, text
        usage, limit = self.usage[source], rules.overload.overloaded_ratio
        if usage > limit and usage > mean + limits.target_std:
            text = f"{source} at {usage:.1%} is above {limit:.1%} and far above the mean"
            return Reason.OVERLOADED, f"{text} of {mean:.1%}"
        return None

    def _is_underloaded(self, source: str, destination: str, limits: TransferRules) -> bool:
        part = min(0.5, max(0.0, limits.target_std / 2))
        return (
            self.usage[destination] < self.mean * part
            or self.throughput_bytes[destination] < self.throughput_bytes[source] * part
        )


# Runs several strategies in order: the first one with proposals decides the cycle.


@dataclass(frozen=True, slots=True)
class SequenceMemory:
    """What each strategy remembers, by its name."""

    memories: Mapping[str, Memory] = field(default_factory=dict)

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"memories": {name: memory.to_row() for name, memory in self.memories.items()}}


@dataclass(frozen=True, slots=True)
class SheddingSequence:
    """Strategies by name, in the order in which they run.

    All strategies observe every cycle, even if another one acts, because a moving average must not
    miss a sample. Hits that a later strategy resets in such a cycle are lost, which does no harm:
    the cluster that it counted them on is about to change.
    """

    policies: Mapping[str, SheddingPolicy[Any]]

    def recall(self, row: Mapping[str, Any] | None) -> SequenceMemory:
        """The memory that ``to_row`` wrote; strategies that are not in it start with nothing."""
        rows = (row or {}).get("memories", {})
        return SequenceMemory(
            {name: policy.recall(rows.get(name)) for name, policy in self.policies.items()}
        )

    def observe(
        self, memory: SequenceMemory, view: ClusterView, rules: SheddingRules
    ) -> SequenceMemory:
        """Each learns."""
        memories: dict[str, Memory] = {}
        for name, policy in self.policies.items():
            memories[name] = policy.observe(memory.memories[name], view, rules)
        return SequenceMemory(memories)

    def shed(
        self, view: ClusterView, memory: SequenceMemory, rules: SheddingRules
    ) -> Sequence[Decision]:
        """Return the proposals of the first strategy that has any, or else the skips of all."""
        reasons: list[Decision] = []
        for name, policy in self.policies.items():
            decisions = policy.shed(view, memory.memories[name], rules)
            if not all(isinstance(decision, Skip) for decision in decisions):
                return decisions
            reasons += [decision for decision in decisions if decision not in reasons]
        return tuple(reasons)


# Selects the bundles of one broker that may move, and those that do.
#
# Docs: pulsar-shedders.


def heaviest(
    view: ClusterView,
    source: BrokerView,
    rules: SheddingRules,
    *,
    target_bytes: float,
    reason: Reason,
    detail: str,
) -> tuple[Unload | Skip, ...]:
    """Unload the heaviest bundles until ``target_bytes`` of bytes/s are reached, at least one.

    A bundle that would overload the coolest broker is skipped in favour of lighter ones. The result
    is one `Skip` if no bundle may move.
    """
    amount = Amount(Measure.THROUGHPUT, target_bytes)
    coolest = coolest_receiver(view, source, rules)
    free, skipped = movable(view, source, coolest, rules, amount=amount, detail=detail)
    chosen: list[Unload] = []
    taken_bytes = 0.0
    for bundle_view in free:
        if taken_bytes >= target_bytes and chosen:
            break
        taken_bytes += bundle_view.load_vector.throughput_bytes
        text = f"{detail}; {amount.text} should go"
        chosen.append(Unload(bundle_view.bundle, source.broker_id, reason, text))
    return (*chosen, *skipped)


def fitting(free: Iterable[BundleView], amount: Amount) -> list[BundleView]:
    """Return bundles in the given order whose sum does not exceed the wanted amount."""
    chosen: list[BundleView] = []
    left = amount.value
    for bundle_view in free:
        traffic = amount.measure.of_bundle(bundle_view)
        if 0 < traffic <= left:
            chosen.append(bundle_view)
            left -= traffic
    return chosen


def nothing_fits(
    source: BrokerView, free: Sequence[BundleView], amount: Amount, detail: str
) -> Skip:
    """Return why none of the movable bundles moves; ``free`` has at least one."""
    busy = [bundle_view for bundle_view in free if amount.measure.of_bundle(bundle_view) > 0]
    if not busy:
        text = f"none of {len(free)} bundles that may go has traffic, until one has; {detail}"
        return Skip(source.broker_id, Reason.LOW_THROUGHPUT, text)
    least = min(
        busy, key=lambda bundle_view: (amount.measure.of_bundle(bundle_view), bundle_view.bundle)
    )
    size = amount.measure.text(amount.measure.of_bundle(least))
    text = (
        f"{least.bundle}, the lightest that may go, has {size}, more than the {amount.text} that "
        f"should go; {detail}; until it is smaller, {_advice(least)}"
    )
    is_hot = least.load_vector.topics == 1
    return Skip(source.broker_id, Reason.HOT_TOPIC if is_hot else Reason.TOO_LARGE, text)


def coolest_receiver(
    view: ClusterView, source: BrokerView, rules: SheddingRules
) -> LoadVector | None:
    """Return the lowest load of the possible receivers; None if there is none."""
    able = view.receivers(rules.report_ttl_s, source.broker_id)
    loads = [view.brokers[broker_id].expected for broker_id in able]
    return min(loads, key=lambda load: (load.usage_ratio, load.throughput_bytes), default=None)


def movable(
    view: ClusterView,
    source: BrokerView,
    receiver: LoadVector | None,
    rules: SheddingRules,
    *,
    amount: Amount,
    detail: str,
    among: Iterable[Bundle] | None = None,
) -> tuple[list[BundleView], list[Skip]]:
    """Return the bundles that may move to ``receiver``, heaviest first, and skips for the others.

    If no bundle may move, the skips say why; a single topic that is too heavy is always reported.
    ``among`` restricts the choice to some of the broker's bundles; None: all.
    """
    owned = source.owned if among is None else among
    candidates = [bundle for bundle in owned if not bundle.namespace.is_pinned]
    refusal = _refusal(view, source, candidates, receiver, detail)
    if refusal or receiver is None:
        return [], [refusal] if refusal else []
    by_obstacle: dict[Reason | None, list[BundleView]] = defaultdict(list)
    for bundle in candidates:
        bundle_view = view.bundles[bundle]
        obstacle = permanent_obstacle(view, bundle_view, rules)
        by_obstacle[obstacle or _futility(source, receiver, bundle_view, amount)].append(
            bundle_view
        )
    free = by_obstacle.pop(None, [])
    free.sort(key=lambda bundle_view: rank(bundle_view, amount.measure.of_bundle(bundle_view)))
    hot = by_obstacle.get(Reason.HOT_TOPIC)
    skipped = [_hottest(hot, amount)] if hot else []
    if not free:
        counts = Counter({reason: len(kept) for reason, kept in by_obstacle.items() if reason})
        skipped.insert(0, _nothing_free(source, counts, detail))
    return free, skipped


def rank(bundle_view: BundleView, traffic: float) -> tuple[float, str, str, int, int]:
    """Return a sort key, heaviest first; comparing bundles themselves is several times slower."""
    namespace, span = bundle_view.bundle.namespace, bundle_view.bundle.range
    return -traffic, namespace.tenant, namespace.name, span.low, span.high


def build_transfer(
    bundle_view: BundleView,
    source: BrokerView,
    destination: BrokerView,
    reason: Reason,
    detail: str,
) -> Transfer:
    """Build a move to a receiver that the strategy has chosen; the plan may still refuse it."""
    return Transfer(
        bundle=bundle_view.bundle,
        source=source.broker_id,
        destination=destination.broker_id,
        reason=reason,
        detail=detail,
        load_vector=bundle_view.load_vector,
        source_before=source.expected,
        destination_before=destination.expected,
    )


def permanent_obstacle(
    view: ClusterView, bundle_view: BundleView, rules: SheddingRules
) -> Reason | None:
    """Return the first reason why a bundle that is not pinned may not move to any broker."""
    bundle, unloaded_s = bundle_view.bundle, bundle_view.last_unloaded_s
    if bundle.namespace in rules.excluded_namespaces:
        return Reason.EXCLUDED
    if view.is_busy(bundle):
        return Reason.MOVING
    if not view.is_in_ring(bundle):
        return Reason.GONE
    if bundle_view.current is None:
        return Reason.NOT_MEASURED
    is_in_grace = unloaded_s is not None and view.taken_at_s - unloaded_s < rules.grace_s
    return Reason.IN_GRACE if is_in_grace else None


def _refusal(
    view: ClusterView,
    source: BrokerView,
    candidates: list[Bundle],
    receiver: LoadVector | None,
    detail: str,
) -> Skip | None:
    """Return a skip if there are no bundles to choose from."""
    broker_id, count = source.broker_id, len(source.owned)
    if not count:
        text = f"until it owns a bundle: its load comes from something else; {detail}"
        return Skip(broker_id, Reason.NO_BUNDLES, text)
    if not candidates:
        return Skip(
            broker_id,
            Reason.PINNED,
            f"all of its {count} bundles are pinned, until it owns others; {detail}",
        )
    if len(candidates) == 1:
        sole = view.bundles[candidates[0]]
        text = f"{sole.bundle} is all that it could give up, until it owns more; {detail}"
        if sole.load_vector.topics == 1:
            text = f"{text}; {_advice(sole)}"
        return Skip(broker_id, Reason.SOLE_BUNDLE, text)
    if receiver is None:
        return Skip(
            broker_id,
            Reason.NO_BROKER,
            f"nobody can receive, until another broker reports; {detail}",
        )
    return None


def _futility(
    source: BrokerView, receiver: LoadVector, bundle_view: BundleView, amount: Amount
) -> Reason | None:
    """Return why a move is useless: the receiver would be as full as the source is now."""
    if improves(source.expected, receiver, bundle_view.load_vector):
        return None
    is_hot = (
        bundle_view.load_vector.topics == 1 and amount.measure.of_bundle(bundle_view) > amount.value
    )
    return Reason.HOT_TOPIC if is_hot else Reason.NO_GAIN


def _hottest(hot: list[BundleView], amount: Amount) -> Skip:
    bundle_view = max(
        hot, key=lambda bundle_view: (amount.measure.of_bundle(bundle_view), bundle_view.bundle)
    )
    size = amount.measure.text(amount.measure.of_bundle(bundle_view))
    text = (
        f"its one topic has {size}, more than the {amount.text} that should go, and would overload "
        f"its receiver, until it is spread: {_advice(bundle_view)}"
    )
    return Skip(str(bundle_view.bundle), Reason.HOT_TOPIC, text)


def _advice(bundle_view: BundleView) -> str:
    if bundle_view.load_vector.topics == 1:
        return "give its one topic more partitions"
    return f"split it: it has {bundle_view.load_vector.topics} topics"


def _nothing_free(source: BrokerView, obstacles: Counter[Reason], detail: str) -> Skip:
    ranked = sorted(obstacles.items(), key=lambda item: (-item[1], item[0]))
    counts = ", ".join(f"{count} {reason.words}" for reason, count in ranked)
    text = f"none of its bundles may go until that ends ({counts}); {detail}"
    return Skip(source.broker_id, ranked[0][0], text)
