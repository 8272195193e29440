"""Placement strategies by name (broker.conf: loadBalancerLoadPlacementStrategy)."""

from typing import Final

from broker_ctl.core.catalog import Catalog
from broker_ctl.core.placement.avg_shedder import AvgShedder
from broker_ctl.core.placement.balance import Balance
from broker_ctl.core.placement.least_long_term_message_rate import LeastLongTermMessageRate
from broker_ctl.core.placement.least_resource_usage_with_weight import (
    LeastResourceUsageWithWeight,
)
from broker_ctl.core.placement.policy import PlacementPolicy
from broker_ctl.core.placement.round_robin import RoundRobin

PLACEMENT: Final[Catalog[PlacementPolicy]] = Catalog(
    "placement strategy",
    {
        "balance": Balance(),
        "LeastLongTermMessageRate": LeastLongTermMessageRate(),
        "LeastResourceUsageWithWeight": LeastResourceUsageWithWeight(),
        "AvgShedder": AvgShedder(),
        "RoundRobinBrokerSelector": RoundRobin(),
    },
)
