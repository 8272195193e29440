"""Admin views of the newest snapshot, as plain JSON values."""

from collections.abc import Mapping
from itertools import islice
from math import isclose
from types import MappingProxyType
from typing import Any, Final

from broker_ctl.balancer.context.decisions import outcome_row, subjects_of
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.imbalance import imbalance
from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.strategies.balance.slowness import SlownessRecord
from broker_ctl.core.strategies.placement.filters import broken_limits, is_cluster_full
from broker_ctl.errors import InvalidName
from broker_ctl.store.records.broker_ctl import MoveNode

_MAX_BUNDLES: Final = 1000
_MAX_MISPLACED: Final = 50
_MAX_SURGES: Final = 50
_MAX_HOT: Final = 50
_DECISIONS: Final = 50
_SEARCHED: Final = 1000
_EXPLAINED: Final = 20
NOTHING_SLOW: Final[Mapping[str, SlownessRecord]] = MappingProxyType({})


def overview(term: LeaderTerm, lost_since_ms: Mapping[str, int]) -> Mapping[str, Any]:
    """The whole cluster, with its heaviest bundles."""
    pause, orphans = term.dependencies.directives.pause, term.orphan_progress
    view, recorder = term.snapshot_builder.latest, term.recorder
    uneven = None if view is None else imbalance(view)
    recent = term.dependencies.journal.recent(_DECISIONS)
    hot_topics = term.snapshot_builder.hot_topics
    return {
        "leader": term.dependencies.own_id,
        "epoch": term.leadership.epoch,
        "cycle": recorder.cycle,
        "taken_at_ms": 0 if view is None else view.taken_at_ms,
        "usage_imbalance": uneven.usage if uneven else None,
        "throughput_imbalance": uneven.throughput if uneven else None,
        "brokers": [] if view is None else [broker_row(b) for b in view.brokers.values()],
        "bundles": [] if view is None else _heaviest(view),
        "bundle_count": 0 if view is None else len(view.bundles),
        "moves": [move_row(record.move) for record in term.dependencies.moves.all],
        "decisions": [outcome_row(entry) for entry in recent],
        "paused": pause is not None,
        "pause_reason": "" if pause is None else pause.order.why,
        "lost_brokers": sorted(lost_since_ms),
        "lost_since_ms": dict(lost_since_ms),
        "misplaced_bundles": len(term.snapshot_builder.misplaced),
        "misplaced": [one.to_row() for one in term.snapshot_builder.misplaced[:_MAX_MISPLACED]],
        "surges": surge_rows(term),
        "hot_topics": [hot.to_row() for hot in islice(hot_topics.values(), _MAX_HOT)],
        **_limits(view, term),
        "offline_bundles": orphans.left,
        "offline_eta_s": orphans.eta_s,
        "dry_run": term.dependencies.rules().is_dry_run,
        "splits": recorder.done["split"],
        "unloads": recorder.done["transfer"],
    }


def surge_rows(term: LeaderTerm) -> list[dict[str, Any]]:
    """Bundles and tenants whose traffic has just grown many times."""
    current = term.load_monitor.surges.current
    rows = [{"subject": str(subject), **surge.to_row()} for subject, surge in current.items()]
    return sorted(rows, key=lambda row: row["subject"])[:_MAX_SURGES]


def _limits(view: ClusterView | None, term: LeaderTerm) -> dict[str, Any]:
    """Brokers beyond hard limits or caps of topics, and whether all are."""
    rules = term.dependencies.rules().placement_rules
    broken = {} if view is None else broken_limits(view, rules.limits, rules.topic_cap)
    return {
        "over_limits": [
            {"broker": broker_id, "reason": reason.value, "detail": text}
            for broker_id, (reason, text) in broken.items()
        ],
        "is_full": view is not None and is_cluster_full(view, rules.limits),
    }


def explain(
    term: LeaderTerm, subject: str, slow: Mapping[str, SlownessRecord] = NOTHING_SLOW
) -> Mapping[str, Any]:
    """One broker or one bundle, with its last decisions.

    ``slow`` is what the strategy has found out about slow brokers.

    Raises:
        InvalidName: neither a live broker nor a bundle.
    """
    view = term.snapshot_builder.latest
    if view is not None and subject in view.brokers:
        row = {**_broker(term, view, subject), "slow": _slow_row(slow.get(subject))}
    elif term.dependencies.registry.peer(subject) is not None:
        row = {"broker": subject, "reported": False}
    else:
        row = _bundle(term, view, _known_bundle(view, subject))
    decisions = [
        outcome_row(entry)
        for entry in term.dependencies.journal.recent(_SEARCHED)
        if subject in subjects_of(entry.decision.to_row())
    ]
    return {**row, "decisions": decisions[:_EXPLAINED]}


def _known_bundle(view: ClusterView | None, subject: str) -> Bundle:
    try:
        bundle = Bundle.parse(subject)
    except InvalidName:
        raise InvalidName(f"{subject[:200]!r} is neither a live broker nor a bundle") from None
    if view is not None and bundle.namespace in view.rings and not view.is_in_ring(bundle):
        raise InvalidName(f"{bundle} is not a bundle of its namespace (any more)")
    return bundle


def _reserved_for(term: LeaderTerm, view: ClusterView, bundle: Bundle) -> str | None:
    """The broker with the reservation; None once the bundle is owned or in no ring."""
    held, view_of_bundle = term.placements.reserved.get(bundle), view.bundles.get(bundle)
    is_open = view.is_in_ring(bundle) and (view_of_bundle is None or view_of_bundle.owner is None)
    return held.broker_id if held is not None and is_open else None


def _broker(term: LeaderTerm, view: ClusterView, broker_id: str) -> dict[str, Any]:
    broker = view.brokers[broker_id]
    owned = [view.bundles[bundle] for bundle in broker.owned]
    owned.sort(
        key=lambda view_of_bundle: (-view_of_bundle.load.short.throughput, view_of_bundle.bundle)
    )
    promised = [
        str(bundle)
        for bundle in term.placements.reserved
        if _reserved_for(term, view, bundle) == broker_id
    ]
    return {
        **broker_row(broker),
        "reported": True,
        "reported_usage_ratio": broker.usage_ratio,
        "owned": [bundle_row(view_of_bundle) for view_of_bundle in owned[:_MAX_BUNDLES]],
        "promised": sorted(promised),
    }


def _slow_row(record: SlownessRecord | None) -> dict[str, Any] | None:
    """Why a broker is, or is not, taken for slow; None: it was not judged."""
    if record is None:
        return None
    finding = record.finding
    return {
        "score": record.score,
        "is_judged": finding.is_judged,
        "is_slow": finding.is_slow,
        "evidence": finding.text,
        "cost_of_peers": finding.multiple,
        "history": list(record.history),
    }


def _bundle(term: LeaderTerm, view: ClusterView | None, bundle: Bundle) -> dict[str, Any]:
    view_of_bundle = view.bundles.get(bundle) if view is not None else None
    load, remembered = term.load_monitor.load_of(bundle), term.memory.get(bundle)
    now_s, moving = term.dependencies.clock.now_s(), term.dependencies.moves.of(bundle)
    hot = term.snapshot_builder.hot_topics.get(bundle)

    def ago(then_s: float | None) -> float | None:
        return None if then_s is None else now_s - then_s

    return {
        **bundle_row(view_of_bundle or BundleView(bundle, None, load)),
        "known": view_of_bundle is not None,
        "long_msg_per_s": load.long.msg_rate,
        "long_throughput_bytes_per_s": load.long.throughput,
        "samples": load.long.samples,
        "usage_ratio": 0.0 if view_of_bundle is None else view_of_bundle.load_vector.usage_ratio,
        "last_owner": remembered.owner,
        "unowned_s": ago(remembered.free_since_s),
        "since_unload_s": ago(remembered.released_s),
        "since_split_s": ago(remembered.split_s),
        "move": None if moving is None else move_row(moving.move),
        "promised_to": None if view is None else _reserved_for(term, view, bundle),
        "surge": _surge_row(term, bundle),
        "hot_topic": None if hot is None else hot.to_row(),
    }


def _surge_row(term: LeaderTerm, bundle: Bundle) -> dict[str, Any] | None:
    """The surge of a bundle, or of its tenant."""
    surges = term.load_monitor.surges.current
    surge = surges.get(bundle) or surges.get(bundle.namespace.tenant)
    return None if surge is None else surge.to_row()


def _heaviest(view: ClusterView) -> list[dict[str, Any]]:
    ordered = sorted(view.bundles.values(), key=lambda s: (-s.load.short.throughput, s.bundle))
    return [bundle_row(view_of_bundle) for view_of_bundle in ordered[:_MAX_BUNDLES]]


def broker_row(broker: BrokerView) -> dict[str, Any]:
    """A broker with the moves to and from it."""
    expected = broker.expected
    return {
        "broker": broker.broker_id,
        "usage_ratio": expected.usage_ratio,
        "resource_usage_ratio": broker.load.usage.ratios,
        "fullest_resource": _fullest(broker),
        "msg_per_s": expected.msg_rate,
        "throughput_bytes_per_s": expected.throughput_bytes,
        "bundles": len(broker.owned),
        "is_draining": broker.is_draining,
        "age_s": broker.age_s,
        "version": broker.load.version or None,
        "started_ms": broker.load.started_ms or None,
    }


def _fullest(broker: BrokerView) -> str:
    """The resource that its usage is that of; empty: none is, or the weights make it another."""
    ratios = broker.load.usage.ratios.items()
    named = (name for name, ratio in ratios if ratio > 0 and isclose(ratio, broker.usage_ratio))
    return next(named, "")


def bundle_row(view_of_bundle: BundleView) -> dict[str, Any]:
    """A bundle by its short average."""
    return {
        "bundle": str(view_of_bundle.bundle),
        "owner": view_of_bundle.owner,
        "msg_per_s": view_of_bundle.load.short.msg_rate,
        "throughput_bytes_per_s": view_of_bundle.load.short.throughput,
        "topics": view_of_bundle.load.topics,
    }


def move_row(move: MoveNode) -> dict[str, Any]:
    """A move in flight."""
    return {
        "id": move.move_id,
        "bundle": str(move.bundle),
        "from": move.from_broker,
        "to": move.to_broker,
        "epoch": move.epoch,
        "deadline_ms": move.deadline_ms,
    }
