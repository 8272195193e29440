"""The brokers that take part in a cycle of shedding."""

from broker_ctl.core.cluster.decisions import Reason, Skip
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.rules.rules import SheddingRules


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
