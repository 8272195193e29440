"""The planner, and Pulsar's strategies as it ships them, each with the placement that goes with it.

Shedding and splitting have the defaults of Pulsar 4.0, those of ``avg5`` the defaults of Pulsar
5.0; nothing is merged, and nothing limits how much moves (docs: pulsar-shedders, pulsar-split-task,
pulsar-configuration).
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from broker_ctl.core.planning.cycle import CycleRules
from broker_ctl.core.rules.rules import Budgets, PlacementRules, SheddingRules, SplitRules
from broker_ctl.core.rules.shedding import DifferenceRules
from broker_ctl.core.strategies.catalog import BALANCE, SHEDDING
from broker_ctl.core.strategies.placement.catalog import PLACEMENT
from broker_ctl.core.strategies.shedding.policy import SheddingPolicy
from broker_ctl.simulation.model.pace import Pace

# Pulsar's shedders have quiet times of their own, and no other limits.
UNLIMITED: Final = Budgets(
    max_moves_per_broker=sys.maxsize,
    max_moves=sys.maxsize,
    hourly_load_ratio=sys.float_info.max / 1e100,
    cool_down_s=0.0,
    namespace_ratio=1.0,
)
# Rounds that the extensible load manager waits; the modular one waits for none.
_EXTENSIBLE_HITS: Final = 3


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a scenario is replayed against.

    Attributes:
        bundles_per_namespace: even bundles of each namespace at the start
            (defaultNumberOfNamespaceBundles); None: those of the scenario.
    """

    rules: CycleRules
    pace: Pace = field(default_factory=Pace)
    bundles_per_namespace: int | None = None


def _pair(shedding: str, placement: str, hit_count: int = 0) -> Baseline:
    policy: SheddingPolicy[Any] = SHEDDING.find(shedding)
    return Baseline(
        CycleRules(
            placement=PLACEMENT.find(placement),
            shedding=policy,
            splitting=SplitRules(hit_count=hit_count),
            # loadBalancerDistributeBundlesEvenlyEnabled is on in 4.0.
            placement_rules=PlacementRules(is_spread_evenly=True),
            budgets=UNLIMITED,
        )
    )


def _avg5() -> Baseline:
    """AvgShedder with the defaults of 5.0.

    They are maxUnloadPercentage, loadBalancerDistributeBundlesEvenlyEnabled and
    defaultNumberOfNamespaceBundles.
    """
    before = _pair("AvgShedder", "AvgShedder").rules
    rules = replace(
        before,
        shedding_rules=SheddingRules(difference=DifferenceRules(max_ratio=0.5)),
        placement_rules=PlacementRules(),
    )
    return Baseline(rules, bundles_per_namespace=32)


def _balance() -> Baseline:
    """Ours, with default settings."""
    return Baseline(
        CycleRules(
            placement=PLACEMENT.find(BALANCE),
            shedding=SHEDDING.find(BALANCE),
            splitting=SplitRules(max_share_ratio=0.1, is_unloading=False),
        ),
        # The daemon decides again after five seconds where moves in flight have cut a plan short.
        Pace(cycles_per_minute=12),
    )


POLICIES: Final[Mapping[str, Callable[[], Baseline]]] = MappingProxyType(
    {
        "balance": _balance,
        "overload": lambda: _pair("OverloadShedder", "LeastLongTermMessageRate"),
        "threshold": lambda: _pair("ThresholdShedder", "LeastResourceUsageWithWeight"),
        "uniform": lambda: _pair("UniformLoadShedder", "LeastLongTermMessageRate"),
        "avg": lambda: _pair("AvgShedder", "AvgShedder"),
        "avg5": _avg5,
        "transfer": lambda: _pair(
            "TransferShedder", "LeastResourceUsageWithWeight", _EXTENSIBLE_HITS
        ),
    }
)
