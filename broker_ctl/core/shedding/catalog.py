"""Shedding strategies by name (broker.conf: loadBalancerLoadSheddingStrategy)."""

from typing import Any, Final

from broker_ctl.core.catalog import Catalog
from broker_ctl.core.shedding.policy import SheddingPolicy
from broker_ctl.core.shedding.threshold import ThresholdShedder

SHEDDING: Final[Catalog[SheddingPolicy[Any]]] = Catalog(
    "shedding strategy",
    {"ThresholdShedder": ThresholdShedder()},
)
