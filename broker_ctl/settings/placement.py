"""Choosing the receiver (reference: pulsar-load-management 6)."""

from dataclasses import dataclass
from typing import Annotated

from broker_ctl.core.placement.catalog import PLACEMENT
from broker_ctl.settings.model import Setting


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """Placement: choosing the receiver of a bundle."""

    strategy: Annotated[
        str,
        Setting(
            "loadBalancerLoadPlacementStrategy",
            "Policy that places; Pulsar's class name may stand with its package.",
            catalog=PLACEMENT,
        ),
    ] = "LeastLongTermMessageRate"
    overloaded_threshold_percent: Annotated[
        int,
        Setting(
            "loadBalancerBrokerOverloadedThresholdPercentage",
            "Usage above which a broker receives nothing while another can.",
            at_most=100,
            is_dynamic=True,
        ),
    ] = 85
    max_topics: Annotated[
        int,
        Setting(
            "loadBalancerBrokerMaxTopics",
            "Topics on a broker above which it receives nothing while another can.",
            at_least=1,
            is_dynamic=True,
        ),
    ] = 50_000

    @property
    def overloaded_threshold_ratio(self) -> float:
        """As a fraction of full usage."""
        return self.overloaded_threshold_percent / 100
