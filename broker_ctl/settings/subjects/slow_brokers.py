"""Detection of slow brokers by strategy balance (docs: cruise-control)."""

from dataclasses import dataclass
from typing import Annotated

from broker_ctl.settings.conditions import BALANCING, DETECTING
from broker_ctl.settings.schema import Setting


@dataclass(frozen=True, slots=True)
class SlowBrokerSettings:
    """Slow brokers: how strategy balance detects and demotes them."""

    detection_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerSlowBrokerDetectionEnabled",
            "Whether a broker on which a byte costs far more than on its peers receives no "
            "bundles.",
            is_dynamic=True,
            used_with=BALANCING,
        ),
    ] = True
    removal_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerSlowBrokerRemovalEnabled",
            "Whether a broker that has been slow for a long time is drained.",
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = False
    peers_multiple: Annotated[
        float,
        Setting(
            "loadBalancerSlowBrokerPeersMultiple",
            "Multiple of the peers' median cost of a byte from which a broker counts as slow.",
            above=1,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 3.0
    history_multiple: Annotated[
        float,
        Setting(
            "loadBalancerSlowBrokerHistoryMultiple",
            "Multiple of the 90th percentile of a broker's own past cost of a byte from which "
            "it counts as slow.",
            above=1,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 3.0
    min_throughput_kib_per_s: Annotated[
        int,
        Setting(
            "loadBalancerSlowBrokerMinThroughputKbytes",
            "Throughput below which a broker is not checked.",
            at_least=0,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 1024
    min_usage_percent: Annotated[
        int,
        Setting(
            "loadBalancerSlowBrokerMinUsagePercentage",
            "Usage below which a broker is not checked.",
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
            "Score (slow cycles minus other cycles) from which a broker receives no bundles.",
            at_least=1,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 5
    removal_score: Annotated[
        int,
        Setting(
            "loadBalancerSlowBrokerRemovalScore",
            "Score (slow cycles minus other cycles) from which a broker is drained if removal "
            "is enabled.",
            at_least=1,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 50
    max_percent: Annotated[
        int,
        Setting(
            "loadBalancerSlowBrokerMaxPercentage",
            "Maximum share of brokers (at least one) that may be demoted as slow at the same "
            "time; any further ones are only reported.",
            at_least=0,
            at_most=100,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 10
