"""Choice of the receiver of a bundle (docs: pulsar-placement)."""

from dataclasses import dataclass
from typing import Annotated, Final

from broker_ctl.core.rules.limits import ALLOWED, NO_BROKER_LIMITS, BrokerLimits
from broker_ctl.settings.conditions import (
    BALANCED,
    MODULAR,
    NOT_PLACED_BY_BALANCE,
    SIMPLE,
    either,
    placing_by,
)
from broker_ctl.settings.schema import Setting
from broker_ctl.settings.strategies import PLACEMENT_STRATEGIES
from broker_ctl.settings.values import one_of

_STRATEGIES: Final = one_of(
    [*PLACEMENT_STRATEGIES.entries, "an entry point of broker_ctl.placement"]
)


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """Placement: choosing the receiver of a bundle."""

    strategy: Annotated[
        str,
        Setting(
            "loadBalancerLoadPlacementStrategy",
            "Placement strategy; Pulsar's class name is accepted with or without its package.",
            allowed=_STRATEGIES,
            catalog=PLACEMENT_STRATEGIES,
            is_dynamic=True,
            used_with=(BALANCED, MODULAR),
        ),
    ] = "balance"
    overloaded_threshold_percent: Annotated[
        int,
        Setting(
            "loadBalancerBrokerOverloadedThresholdPercentage",
            "Usage above which a broker receives no bundles while another broker can.",
            at_most=100,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 85
    max_topics: Annotated[
        int,
        Setting(
            "loadBalancerBrokerMaxTopics",
            "Number of topics above which a broker receives no bundles while another broker can.",
            at_least=1,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 50_000
    limits: Annotated[
        BrokerLimits,
        Setting(
            "loadBalancerBrokerLimits",
            "What no move brings a broker beyond: usage in percent, mbytes_in and mbytes_out per "
            "second, msg_rate, topics, sessions (producers and consumers), and cpu_cores. The "
            "first row that matches a broker's id counts. A broker beyond a limit gives some away "
            "where others have room. A bundle without an owner is served even if every broker is "
            "at its limits.",
            allowed=ALLOWED,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = NO_BROKER_LIMITS
    topic_cap: Annotated[
        int,
        Setting(
            "loadBalancerTopicPartitionsPerBroker",
            "Maximum number of partitions of one topic that a move brings to a broker; brokers "
            "with more give some away where others have room. 0: any number, and receivers with "
            "few partitions of a topic are only preferred. A bundle without an owner is served "
            "anyway.",
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 0
    usage_difference_percent: Annotated[
        int,
        Setting(
            "loadBalancerAverageResourceUsageDifferenceThresholdPercentage",
            "LeastResourceUsageWithWeight: minimum distance, in percentage points, of a "
            "receiver below the mean usage.",
            at_most=100,
            is_dynamic=True,
            used_with=placing_by("LeastResourceUsageWithWeight"),
        ),
    ] = 10
    is_spread_evenly: Annotated[
        bool,
        Setting(
            "loadBalancerDistributeBundlesEvenlyEnabled",
            "Whether only brokers with the fewest bundles of the namespace receive, regardless "
            "of load; strategy balance ignores it.",
            is_dynamic=True,
            used_with=(BALANCED, either(SIMPLE, NOT_PLACED_BY_BALANCE)),
        ),
    ] = False
    failure_domains_enabled: Annotated[
        bool,
        Setting(
            "failureDomainsEnabled",
            "Whether anti-affinity groups are spread over failure domains first, then over "
            "brokers.",
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = False
    prefers_later_versions: Annotated[
        bool,
        Setting(
            "preferLaterVersions",
            "Whether only brokers of the latest version receive bundles while one is available.",
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = False

    @property
    def overloaded_threshold_ratio(self) -> float:
        """As a fraction of full usage."""
        return self.overloaded_threshold_percent / 100

    @property
    def usage_difference_ratio(self) -> float:
        """As a fraction of full usage."""
        return self.usage_difference_percent / 100
