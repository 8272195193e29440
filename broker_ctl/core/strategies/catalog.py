"""Shedding strategies by name (broker.conf: loadBalancerLoadSheddingStrategy)."""

from typing import Any, Final

from broker_ctl.core.model.catalog import Catalog
from broker_ctl.core.strategies.balance.policy import BalancePlanner
from broker_ctl.core.strategies.shedding.avg import AvgShedder
from broker_ctl.core.strategies.shedding.overload import OverloadShedder
from broker_ctl.core.strategies.shedding.policy import SheddingPolicy
from broker_ctl.core.strategies.shedding.threshold import ThresholdShedder
from broker_ctl.core.strategies.shedding.transfer import TransferShedder
from broker_ctl.core.strategies.shedding.uniform import UniformLoadShedder

# Our own, and the name of its placement half.
BALANCE: Final = "balance"

SHEDDING: Final[Catalog[SheddingPolicy[Any]]] = Catalog(
    "shedding strategy",
    {
        BALANCE: BalancePlanner(),
        "OverloadShedder": OverloadShedder(),
        "ThresholdShedder": ThresholdShedder(),
        "UniformLoadShedder": UniformLoadShedder(),
        "AvgShedder": AvgShedder(),
        "TransferShedder": TransferShedder(),
    },
)
