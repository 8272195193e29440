"""Placement strategies by name (broker.conf: loadBalancerLoadPlacementStrategy)."""

from typing import Final

from broker_ctl.core.model.catalog import Catalog
from broker_ctl.core.strategies.placement.avg_shedder import AvgShedderPlacement
from broker_ctl.core.strategies.placement.balance import BalancePlacement
from broker_ctl.core.strategies.placement.least_long_term_message_rate import (
    LeastLongTermMessageRate,
)
from broker_ctl.core.strategies.placement.least_resource_usage_with_weight import (
    LeastResourceUsageWithWeight,
)
from broker_ctl.core.strategies.placement.policy import PlacementPolicy
from broker_ctl.core.strategies.placement.round_robin import RoundRobin

PLACEMENT: Final[Catalog[PlacementPolicy]] = Catalog(
    "placement strategy",
    {
        "balance": BalancePlacement(),
        "LeastLongTermMessageRate": LeastLongTermMessageRate(),
        "LeastResourceUsageWithWeight": LeastResourceUsageWithWeight(),
        "AvgShedder": AvgShedderPlacement(),
        "RoundRobinBrokerSelector": RoundRobin(),
    },
)
