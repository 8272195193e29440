"""What strategies remember of brokers: usage averages (Pulsar's ``max_ema``), and slowness.

Docs: pulsar-shedders, cruise-control.
"""

from collections.abc import Mapping

from broker_ctl.core.strategies.balance.memory import BalanceMemory
from broker_ctl.core.strategies.balance.slow import Record
from broker_ctl.core.strategies.shedding.policy import Memory
from broker_ctl.core.strategies.shedding.sequence import SequenceMemory
from broker_ctl.core.strategies.shedding.threshold import ThresholdMemory
from broker_ctl.core.strategies.shedding.transfer import TransferMemory


def usage_averages(memory: Memory | None) -> Mapping[str, float]:
    """Moving average of each broker's usage, 1.0 is full; empty if the strategy keeps none.

    With several strategies, the averages of the first one that keeps any.
    """
    match memory:
        case BalanceMemory():
            return memory.levels.usage
        case ThresholdMemory() | TransferMemory():
            return memory.history
        case SequenceMemory():
            kept = (usage_averages(each) for each in memory.memories.values())
            return next(filter(None, kept), {})
        case _:
            return {}


def slow_records(memory: Memory | None) -> Mapping[str, Record]:
    """Score and evidence of each broker that was judged; empty if the strategy judges none."""
    match memory:
        case BalanceMemory():
            return memory.slow.brokers
        case SequenceMemory():
            kept = (slow_records(each) for each in memory.memories.values())
            return next(filter(None, kept), {})
        case _:
            return {}
