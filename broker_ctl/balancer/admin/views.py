"""What the leader tells people: plain JSON values out of its newest view."""

from collections.abc import Mapping
from typing import Any, Final

from broker_ctl.balancer.context.decision_rows import decision_row, named
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.imbalance import imbalance
from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.errors import InvalidName
from broker_ctl.store.records.broker_ctl import MoveNode

_MAX_BUNDLES: Final = 1000
_DECISIONS: Final = 50
_SEARCHED: Final = 1000
_EXPLAINED: Final = 20


def overview(leading: LeaderTerm, *, is_paused: bool) -> Mapping[str, Any]:
    """The whole cluster; of the bundles the heaviest."""
    view, outcomes = leading.survey.latest, leading.outcomes
    uneven = None if view is None else imbalance(view)
    recent = leading.parts.journal.recent(_DECISIONS)
    return {
        "leader": leading.parts.own_id,
        "epoch": leading.leadership.epoch,
        "cycle": outcomes.cycle,
        "taken_at_ms": leading.survey.latest_ms,
        "usage_imbalance": uneven.usage if uneven else None,
        "throughput_imbalance": uneven.throughput if uneven else None,
        "brokers": [] if view is None else [broker_row(b) for b in view.brokers.values()],
        "bundles": [] if view is None else _heaviest(view),
        "bundle_count": 0 if view is None else len(view.bundles),
        "moves": [move_row(record.move) for record in leading.parts.moves.all],
        "decisions": [decision_row(entry) for entry in recent],
        "paused": is_paused,
        "dry_run": leading.parts.rules().is_dry_run,
        "splits": outcomes.done["split"],
        "unloads": outcomes.done["transfer"],
    }


def explain(leading: LeaderTerm, subject: str) -> Mapping[str, Any]:
    """One broker or one bundle, and what was last decided on it.

    Raises:
        InvalidName: neither a live broker nor a bundle.
    """
    view = leading.survey.latest
    if view is not None and subject in view.brokers:
        told = _broker(leading, view, subject)
    elif leading.parts.registry.peer(subject) is not None:
        told = {"broker": subject, "reported": False}
    else:
        told = _bundle(leading, view, _known_bundle(view, subject))
    decisions = [
        decision_row(entry)
        for entry in leading.parts.journal.recent(_SEARCHED)
        if subject in named(entry.decision.to_row())
    ]
    return {**told, "decisions": decisions[:_EXPLAINED]}


def _known_bundle(view: ClusterView | None, subject: str) -> Bundle:
    try:
        bundle = Bundle.parse(subject)
    except InvalidName:
        raise InvalidName(f"{subject[:200]!r} is neither a live broker nor a bundle") from None
    if view is not None and bundle.namespace in view.rings and not view.is_in_ring(bundle):
        raise InvalidName(f"{bundle} is no bundle of its namespace (any more)")
    return bundle


def _promised_to(leading: LeaderTerm, view: ClusterView, bundle: Bundle) -> str | None:
    """Who is to take it; nobody any more, once it is owned or in no ring."""
    held, seen = leading.placements.reserved.get(bundle), view.bundles.get(bundle)
    is_open = view.is_in_ring(bundle) and (seen is None or seen.owner is None)
    return held.broker_id if held is not None and is_open else None


def _broker(leading: LeaderTerm, view: ClusterView, broker_id: str) -> dict[str, Any]:
    broker = view.brokers[broker_id]
    owned = [view.bundles[bundle] for bundle in broker.owned]
    owned.sort(key=lambda seen: (-seen.load.short.throughput, seen.bundle))
    promised = [
        str(bundle)
        for bundle in leading.placements.reserved
        if _promised_to(leading, view, bundle) == broker_id
    ]
    return {
        **broker_row(broker),
        "reported": True,
        "reported_usage_ratio": broker.usage_ratio,
        "owned": [bundle_row(seen) for seen in owned[:_MAX_BUNDLES]],
        "promised": sorted(promised),
    }


def _bundle(leading: LeaderTerm, view: ClusterView | None, bundle: Bundle) -> dict[str, Any]:
    seen = view.bundles.get(bundle) if view is not None else None
    load, remembered = leading.board.load_of(bundle), leading.memory.of(bundle)
    now_s, moving = leading.parts.clock.now_s(), leading.parts.moves.of(bundle)

    def ago(then_s: float | None) -> float | None:
        return None if then_s is None else now_s - then_s

    return {
        **bundle_row(seen or BundleView(bundle, None, load)),
        "known": seen is not None,
        "long_msg_per_s": load.long.msg_rate,
        "long_throughput_bytes_per_s": load.long.throughput,
        "samples": load.long.samples,
        "usage_ratio": 0.0 if seen is None else seen.footprint.usage_ratio,
        "last_owner": remembered.owner,
        "unowned_s": ago(remembered.free_since_s),
        "since_unload_s": ago(remembered.unloaded_s),
        "since_split_s": ago(remembered.split_s),
        "move": None if moving is None else move_row(moving.move),
        "promised_to": None if view is None else _promised_to(leading, view, bundle),
    }


def _heaviest(view: ClusterView) -> list[dict[str, Any]]:
    ordered = sorted(view.bundles.values(), key=lambda s: (-s.load.short.throughput, s.bundle))
    return [bundle_row(seen) for seen in ordered[:_MAX_BUNDLES]]


def broker_row(broker: BrokerView) -> dict[str, Any]:
    """A broker with all that is on its way to and from it."""
    expected = broker.expected
    return {
        "broker": broker.broker_id,
        "usage_ratio": expected.usage_ratio,
        "msg_per_s": expected.msg_rate,
        "throughput_bytes_per_s": expected.throughput_bytes,
        "bundles": len(broker.owned),
        "is_draining": broker.is_draining,
        "age_s": broker.age_s,
        "version": broker.load.version or None,
        "started_ms": broker.load.started_ms or None,
    }


def bundle_row(seen: BundleView) -> dict[str, Any]:
    """A bundle by its short average."""
    return {
        "bundle": str(seen.bundle),
        "owner": seen.owner,
        "msg_per_s": seen.load.short.msg_rate,
        "throughput_bytes_per_s": seen.load.short.throughput,
        "topics": seen.load.topics,
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
