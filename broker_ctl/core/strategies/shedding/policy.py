"""What every shedding strategy is: two functions and a memory that is a plain value.

The leader runs them in a thread beside its event loop, one call at a time. They change nothing that
they are given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from broker_ctl.core.cluster.decisions import Decision
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.rules.rules import SheddingRules


class Memory(Protocol):
    """What a strategy keeps from cycle to cycle; frozen."""

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values, for a row of history."""
        ...


@dataclass(frozen=True, slots=True)
class NoMemory:
    """Of a strategy that decides on the view alone."""

    def to_row(self) -> dict[str, Any]:
        """Nothing."""
        return {}


class Memoryless:
    """The half of a strategy that has nothing to remember."""

    def recall(self, row: Mapping[str, Any] | None) -> NoMemory:
        """An empty one."""
        del row
        return NoMemory()

    def observe(
        self,
        memory: NoMemory,
        view: ClusterView,
        rules: SheddingRules,
    ) -> NoMemory:
        """Nothing is learnt."""
        del view, rules
        return memory


MemoryT = TypeVar("MemoryT", bound=Memory)


class SheddingPolicy(Protocol[MemoryT]):
    """Proposes what overloaded brokers give up. The plan says where it goes, and may refuse."""

    def recall(self, row: Mapping[str, Any] | None) -> MemoryT:
        """The memory that ``to_row`` wrote; an empty one for None."""
        ...

    def observe(self, memory: MemoryT, view: ClusterView, rules: SheddingRules) -> MemoryT:
        """Learn from a view: once a cycle, before `shed`."""
        ...

    def shed(self, view: ClusterView, memory: MemoryT, rules: SheddingRules) -> Sequence[Decision]:
        """What to give up, and why the rest stays; at least one decision."""
        ...
