"""Shedding strategies by name (broker.conf: loadBalancerLoadSheddingStrategy)."""

from typing import Any, Final

from broker_ctl.core.model.counting import Catalog
from broker_ctl.core.strategies.balance.policy import BalancePlanner
from broker_ctl.core.strategies.shedding.avg import AvgShedder
from broker_ctl.core.strategies.shedding.policy import SheddingPolicy
from broker_ctl.core.strategies.shedding.threshold import (
    OverloadShedder,
    ThresholdShedder,
    UniformLoadShedder,
)
from broker_ctl.core.strategies.shedding.transfer import TransferShedder

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
