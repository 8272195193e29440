"""Which bundles of one broker may go, and which of them do.

Reference: pulsar-load-management 5 (common part) and 5.1.
"""

from collections import Counter

from broker_ctl.core.decisions import Reason, Skip, Unload
from broker_ctl.core.footprint import Footprint, throughput_text
from broker_ctl.core.imbalance import improves
from broker_ctl.core.rules import SheddingRules
from broker_ctl.core.view import BrokerView, BundleView, ClusterView


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

    A bundle that would only carry the overload to the coolest broker is passed over, so that the
    lighter ones get their turn. One `Skip` where nothing may go.
    """
    owned = sorted(source.owned)
    movable = [bundle for bundle in owned if not bundle.namespace.is_pinned]
    if not movable:
        text = f"all of its {len(owned)} bundles are pinned" if owned else "it owns no bundle"
        return (Skip(source.broker_id, Reason.PINNED, f"{text}; {detail}"),)
    if len(movable) == 1:
        text = f"{movable[0]} is all that it could give up; {detail}"
        return (Skip(source.broker_id, Reason.SOLE_BUNDLE, text),)
    coolest = _coolest(view, source, rules)
    if coolest is None:
        return (Skip(source.broker_id, Reason.NO_BROKER, f"nobody can receive; {detail}"),)
    obstacles = {
        bundle: _obstacle(view, source, coolest, view.bundles[bundle], rules) for bundle in movable
    }
    free = [view.bundles[bundle] for bundle, obstacle in obstacles.items() if obstacle is None]
    if not free:
        return (_nothing_free(source, Counter(o for o in obstacles.values() if o), detail),)
    free.sort(key=lambda seen: (-seen.footprint.throughput_bytes, seen.bundle))
    chosen: list[Unload] = []
    taken_bytes = 0.0
    for seen in free:
        if taken_bytes >= target_bytes and chosen:
            break
        taken_bytes += seen.footprint.throughput_bytes
        text = f"{detail}; {throughput_text(target_bytes)} should go"
        chosen.append(Unload(seen.bundle, source.broker_id, reason, text))
    return tuple(chosen)


def _coolest(view: ClusterView, source: BrokerView, rules: SheddingRules) -> Footprint | None:
    """The least load among those that could receive; None where nobody could."""
    able = view.receivers(rules.report_ttl_s, source.broker_id)
    loads = [view.brokers[broker_id].expected for broker_id in able]
    return min(loads, key=lambda load: (load.usage_ratio, load.throughput_bytes), default=None)


def _obstacle(
    view: ClusterView,
    source: BrokerView,
    coolest: Footprint,
    seen: BundleView,
    rules: SheddingRules,
) -> Reason | None:
    """The first reason why a bundle may not go."""
    bundle, unloaded_s = seen.bundle, seen.last_unloaded_s
    is_in_grace = unloaded_s is not None and view.taken_at_s - unloaded_s < rules.grace_s
    obstacles = (
        (bundle.namespace in rules.excluded_namespaces, Reason.EXCLUDED),
        (view.is_busy(bundle), Reason.MOVING),
        (not view.is_in_ring(bundle), Reason.GONE),
        (seen.current is None, Reason.NOT_MEASURED),
        (is_in_grace, Reason.IN_GRACE),
        (not improves(source.expected, coolest, seen.footprint), Reason.NO_GAIN),
    )
    return next((reason for stands, reason in obstacles if stands), None)


def _nothing_free(source: BrokerView, obstacles: Counter[Reason], detail: str) -> Skip:
    ranked = sorted(obstacles.items(), key=lambda item: (-item[1], item[0]))
    counts = ", ".join(f"{count} {reason.words}" for reason, count in ranked)
    return Skip(source.broker_id, ranked[0][0], f"none of its bundles may go ({counts}); {detail}")
