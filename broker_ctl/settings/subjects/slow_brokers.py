"""Brokers that are slow, which strategy balance gives nothing (docs: cruise-control)."""

from dataclasses import dataclass
from typing import Annotated

from broker_ctl.settings.conditions import BALANCING, DETECTING
from broker_ctl.settings.schema import Setting


@dataclass(frozen=True, slots=True)
class SlowBrokerSettings:
    """Slow brokers: which strategy balance gives nothing."""

    detection_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerSlowBrokerDetectionEnabled",
            "Give nothing to a broker for which a byte costs far more than for its peers.",
            is_dynamic=True,
            used_with=BALANCING,
        ),
    ] = True
    removal_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerSlowBrokerRemovalEnabled",
            "Empty a broker that has been slow for long.",
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = False
    peers_multiple: Annotated[
        float,
        Setting(
            "loadBalancerSlowBrokerPeersMultiple",
            "Cost of a byte, over the median of the peers, from which a broker is slow.",
            above=1,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 3.0
    history_multiple: Annotated[
        float,
        Setting(
            "loadBalancerSlowBrokerHistoryMultiple",
            "Cost of a byte, over the 90th percentile of its own past, from which a broker is "
            "slow.",
            above=1,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 3.0
    min_throughput_kib: Annotated[
        int,
        Setting(
            "loadBalancerSlowBrokerMinThroughputKbytes",
            "Traffic a second below which a broker is not judged.",
            at_least=0,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 1024
    min_usage_percent: Annotated[
        int,
        Setting(
            "loadBalancerSlowBrokerMinUsagePercentage",
            "Usage below which a broker is not judged.",
            at_least=0,
            at_most=100,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 20
    demotion_score: Annotated[
        int,
        Setting(
            "loadBalancerSlowBrokerDemotionScore",
            "Slow cycles, less the others, after which a broker gets nothing.",
            at_least=1,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 5
    removal_score: Annotated[
        int,
        Setting(
            "loadBalancerSlowBrokerRemovalScore",
            "Slow cycles, less the others, after which a broker is emptied where that is enabled.",
            at_least=1,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 50
    max_percent: Annotated[
        int,
        Setting(
            "loadBalancerSlowBrokerMaxPercentage",
            "Part of the brokers, at least one, that may be acted on at once; of more it is told.",
            at_least=0,
            at_most=100,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 10
