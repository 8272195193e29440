"""What every shedding strategy is: two functions and a memory that is a plain value.

Both functions go in steps: a strategy that walks over thousands of bundles lets others have a turn
now and then. One that has little to do yields once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from broker_ctl.core.cluster.decisions import Decision
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.steps import Steps
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
    ) -> Steps[NoMemory]:
        """Nothing is learnt."""
        del view, rules
        yield
        return memory


MemoryT = TypeVar("MemoryT", bound=Memory)


class SheddingPolicy(Protocol[MemoryT]):
    """Proposes what overloaded brokers give up. The plan says where it goes, and may refuse."""

    def recall(self, row: Mapping[str, Any] | None) -> MemoryT:
        """The memory that ``to_row`` wrote; an empty one for None."""
        ...

    def observe(self, memory: MemoryT, view: ClusterView, rules: SheddingRules) -> Steps[MemoryT]:
        """Learn from a view: once a cycle, before `shed`."""
        ...

    def shed(
        self, view: ClusterView, memory: MemoryT, rules: SheddingRules
    ) -> Steps[tuple[Decision, ...]]:
        """What to give up, and why the rest stays; at least one decision."""
        ...
