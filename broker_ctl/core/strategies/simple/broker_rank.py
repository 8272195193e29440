"""The Simple manager's rank of a broker (docs: pulsar-simple-manager, pulsar-metrics).

Pulsar calls it the load rank and the quota percentages.
"""

from dataclasses import dataclass, replace

from broker_ctl.core.cluster.view import BrokerView
from broker_ctl.core.model.load import ResourceUsage, SystemUsage
from broker_ctl.core.rules.simple import SimpleStrategy
from broker_ctl.core.strategies.simple.placement import SimplePlacement
from broker_ctl.core.strategies.simple.rank import Rank, rank


@dataclass(frozen=True, slots=True)
class BrokerRank:
    """Rank of one broker.

    Attributes:
        load_rank: the value that the strategy compares: percent of load, messages per second, or
            the weight in the random choice.
        needed: expected needs of its bundles, owned or promised, without its measured usage.
    """

    load_rank: float
    needed: Rank


def broker_rank(broker: BrokerView, placement: SimplePlacement) -> BrokerRank:
    """Rank a broker by a strategy and its quotas."""
    expected = rank(broker, placement.book)
    match placement.rules.strategy:
        case SimpleStrategy.LEAST_LOADED:
            load_rank = expected.load_percent
        case SimpleStrategy.LEAST_MSG_RATE:
            load_rank = expected.msg_rate
        case SimpleStrategy.WEIGHTED_RANDOM:
            load_rank = expected.capacity * expected.free_ratio**2
    usage = SystemUsage(*(ResourceUsage(0.0, one.limit) for one in broker.load.usage.resources))
    unused = replace(broker, load=replace(broker.load, usage=usage))
    return BrokerRank(load_rank, rank(unused, placement.book))
