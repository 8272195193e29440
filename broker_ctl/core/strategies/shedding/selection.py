"""Selects the bundles of one broker that may move, and those that do.

Docs: pulsar-shedders.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from broker_ctl.core.cluster.decisions import Reason, Skip, Transfer, Unload
from broker_ctl.core.cluster.imbalance import improves
from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load_vector import LoadVector
from broker_ctl.core.rules.rules import SheddingRules
from broker_ctl.core.strategies.shedding.measure import Amount, Measure


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
