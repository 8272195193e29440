"""What is left of a strategy's memory once the next one has taken its place."""

from typing import Any

from broker_ctl.core.strategies.balance.memory import BalanceMemory
from broker_ctl.core.strategies.shedding.sequence import SequenceMemory


def remains_of_memory(memory: Any) -> list[object]:
    """All of it that there is one of for each bundle; foreign memories are taken for small.

    To free a hundred thousand of them at once takes tens of milliseconds.
    """
    match memory:
        case BalanceMemory():
            return [*memory.demands.known.values()]
        case SequenceMemory():
            return [one for each in memory.memories.values() for one in remains_of_memory(each)]
        case _:
            return []
