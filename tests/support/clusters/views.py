"""Small clusters for tests of policies: what brokers report, and who owns what."""

from collections.abc import Iterable, Mapping
from typing import TypedDict, Unpack

from broker_ctl.core.cluster.snapshot import snapshot
from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView, InFlight, Settled
from broker_ctl.core.model.broker import NO_CONSTRAINTS, Constraints
from broker_ctl.core.model.load import BrokerLoad, BundleLoad, BundleStats
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.core.rules.leader_rules import MIB

NAMESPACE = Namespace("tenant", "ns")
RING = Ring.even(NAMESPACE, 16, version=3)
BUNDLES = RING.bundles
NOW_S = 100_000.0


def stats(mib: float, topics: int = 10, msg_rate: float | None = None) -> BundleStats:
    """Traffic of ``mib`` MiB/s, half of it in; by default with 100 msg/s per MiB."""
    rate = mib * 100 if msg_rate is None else msg_rate
    return BundleStats(rate / 2, rate / 2, mib * MIB / 2, mib * MIB / 2, topics, topics, topics)


def broker(
    broker_id: str,
    usage_ratio: float,
    reported: Mapping[Bundle, BundleStats] | None = None,
    *,
    age_s: float = 0.0,
    is_draining: bool = False,
) -> BrokerView:
    """A broker by its report."""
    lines = {str(bundle): line for bundle, line in (reported or {}).items()}
    load = BrokerLoad(broker_id, bundles=lines)
    return BrokerView(broker_id, load, usage_ratio, is_draining=is_draining, age_s=age_s)


class Facts(TypedDict, total=False):
    """What a view holds besides the brokers' reports."""

    owners: Mapping[Bundle, str | None]
    loads: Mapping[Bundle, BundleLoad]
    unloaded_s: Mapping[Bundle, float]
    split_s: Mapping[Bundle, float]
    rings: Iterable[Ring]
    moves: Iterable[InFlight]
    splitting: Iterable[Bundle]
    settled: Iterable[Settled]
    draw_seed: int
    constraints: Constraints


def cluster(brokers: Iterable[BrokerView], **facts: Unpack[Facts]) -> ClusterView:
    """The view of it; who reports a bundle owns it unless ``owners`` says otherwise.

    Averages are what is reported, unless ``loads`` says otherwise.
    """
    reports = list(brokers)
    owner_of: dict[Bundle, str | None] = {}
    loads: dict[Bundle, BundleLoad] = {}
    for report in reports:
        for text, line in report.load.bundles.items():
            bundle = Bundle.parse(text)
            owner_of[bundle] = report.broker_id
            loads[bundle] = BundleLoad.unseen().fold(line)
    owner_of.update(facts.get("owners", {}))
    loads.update(facts.get("loads", {}))
    unloaded_s, split_s = facts.get("unloaded_s", {}), facts.get("split_s", {})
    return snapshot(
        epoch=7,
        taken_at_s=NOW_S,
        draw_seed=facts.get("draw_seed", 1),
        brokers=reports,
        bundles=[
            BundleView(
                bundle,
                owner,
                loads.get(bundle, BundleLoad.unseen()),
                unloaded_s.get(bundle),
                split_s.get(bundle),
            )
            for bundle, owner in owner_of.items()
        ],
        rings=facts.get("rings", (RING,)),
        moves=facts.get("moves", ()),
        splitting=facts.get("splitting", ()),
        settled=facts.get("settled", ()),
        constraints=facts.get("constraints", NO_CONSTRAINTS),
    )


def even_cluster(usages: Mapping[str, float], bundles_each: int = 2) -> ClusterView:
    """Brokers at ``usages``; each point of usage is 10 MiB/s, spread evenly over its bundles."""
    supply = iter(Ring.even(NAMESPACE, len(usages) * bundles_each).bundles)
    reports = [
        broker(
            broker_id,
            usage,
            {next(supply): stats(usage * 1000 / bundles_each) for _ in range(bundles_each)},
        )
        for broker_id, usage in usages.items()
    ]
    return cluster(reports, rings=[Ring.even(NAMESPACE, len(usages) * bundles_each)])
