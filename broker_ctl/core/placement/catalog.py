"""Placement strategies by name (broker.conf: loadBalancerLoadPlacementStrategy)."""

from typing import Final

from broker_ctl.core.catalog import Catalog
from broker_ctl.core.placement.least_long_term_message_rate import LeastLongTermMessageRate
from broker_ctl.core.placement.policy import PlacementPolicy

PLACEMENT: Final[Catalog[PlacementPolicy]] = Catalog(
    "placement strategy",
    {"LeastLongTermMessageRate": LeastLongTermMessageRate()},
)
