"""Taking a `ClusterView`: what brokers reported, corrected by what is known to have moved since.

Reports lag: a bundle that just moved is still in the report of its former owner and not yet in
that of the new one, and a move in flight is in neither where it will be. Deciding on reports alone
sheds the same load twice and floods the broker that looks idle (reference: pulsar-load-management
11, rows 3 and 14). Here a broker's load is its report, minus the share of the bundles that it no
longer carries, plus the footprint of those that it carries and has not reported. No bookings are
kept that could leak or be lost: the next report confirms each correction by making it vanish.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import fsum

from broker_ctl.core.bundle import Bundle
from broker_ctl.core.footprint import Footprint
from broker_ctl.core.namespace import Ring
from broker_ctl.core.view import BrokerView, BundleView, ClusterView, InFlight, Settled

# Bundle's text -> broker that reports it -> the part of that broker's usage that it causes.
_Shares = Mapping[str, Mapping[str, float]]


def snapshot(
    *,
    epoch: int,
    taken_at_s: float,
    draw_seed: int,
    brokers: Iterable[BrokerView],
    bundles: Iterable[BundleView],
    rings: Iterable[Ring] = (),
    moves: Iterable[InFlight] = (),
    splitting: Iterable[Bundle] = (),
    settled: Iterable[Settled] = (),
) -> ClusterView:
    """Join the facts of one moment; `BrokerView` and `BundleView` come with their facts only."""
    live = {broker.broker_id: broker for broker in sorted(brokers, key=lambda b: b.broker_id)}
    shares = _usage_shares(live.values())
    usage_per_byte = _usage_per_byte(live.values())
    view = ClusterView(
        epoch=epoch,
        taken_at_s=taken_at_s,
        draw_seed=draw_seed,
        brokers=live,
        bundles={
            seen.bundle: _measured(seen, live, shares.get(str(seen.bundle), {}), usage_per_byte)
            for seen in sorted(bundles, key=lambda seen: seen.bundle)
        },
        rings={ring.namespace: ring for ring in rings},
        moves={move.bundle: move for move in moves},
        splitting=frozenset(splitting),
        settled=tuple(settled),
    )
    carried: dict[str, set[Bundle]] = defaultdict(set)
    for bundle in view.bundles:
        carrier = view.carrier(bundle)
        if carrier is not None:
            carried[carrier].add(bundle)
    return replace(
        view,
        brokers={
            broker_id: replace(
                broker,
                owned=frozenset(carried[broker_id]),
                expected=_expected(broker, [view.bundles[b] for b in carried[broker_id]], shares),
            )
            for broker_id, broker in live.items()
        },
    )


def _usage_shares(brokers: Iterable[BrokerView]) -> _Shares:
    """Usage follows bytes: a broker's usage is divided among its bundles by their throughput."""
    shares: dict[str, dict[str, float]] = defaultdict(dict)
    for broker in brokers:
        total = fsum(stats.throughput for stats in broker.load.bundles.values())
        for text, stats in broker.load.bundles.items():
            ratio = stats.throughput / total if total > 0 else 0.0
            shares[text][broker.broker_id] = broker.usage_ratio * ratio
    return shares


def _usage_per_byte(brokers: Iterable[BrokerView]) -> float:
    reports = list(brokers)
    total = fsum(stats.throughput for broker in reports for stats in broker.load.bundles.values())
    return fsum(broker.usage_ratio for broker in reports) / total if total > 0 else 0.0


def _measured(
    seen: BundleView,
    brokers: Mapping[str, BrokerView],
    shares: Mapping[str, float],
    usage_per_byte: float,
) -> BundleView:
    """A bundle with its line in its owner's report, and with its footprint.

    Usage is taken from that report, else from the freshest one that has the bundle, else from its
    throughput at the cluster's mean cost of a byte.
    """
    owner = brokers.get(seen.owner) if seen.owner is not None else None
    current = owner.load.bundles.get(str(seen.bundle)) if owner else None
    throughput = seen.load.short.throughput
    if owner is not None and owner.broker_id in shares:
        usage = shares[owner.broker_id]
    elif shares:
        usage = shares[min(shares, key=lambda broker_id: (brokers[broker_id].age_s, broker_id))]
    else:
        usage = throughput * usage_per_byte
    topics = current.topics if current else seen.load.topics
    footprint = Footprint(usage, throughput, seen.load.long.msg_rate, topics)
    return replace(seen, current=current, footprint=footprint)


def _expected(broker: BrokerView, carried: list[BundleView], shares: _Shares) -> Footprint:
    reported = broker.load.bundles
    texts = {str(seen.bundle) for seen in carried}
    left = fsum(shares[text][broker.broker_id] for text in reported if text not in texts)
    came = fsum(seen.footprint.usage_ratio for seen in carried if str(seen.bundle) not in reported)
    return Footprint(
        max(0.0, broker.usage_ratio - left + came),
        fsum(seen.footprint.throughput_bytes for seen in carried),
        fsum(seen.footprint.msg_rate for seen in carried),
        sum(seen.footprint.topics for seen in carried),
    )
