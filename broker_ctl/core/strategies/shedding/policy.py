"""The protocol of shedding strategies: two functions, and a memory that is a plain value.

The leader calls the functions in a thread beside its event loop, one call at a time. They must not
change their arguments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from broker_ctl.core.cluster.decisions import Decision
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.rules.rules import SheddingRules


class Memory(Protocol):
    """The state that a strategy keeps from cycle to cycle; frozen."""

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values, for a row of history."""
        ...


@dataclass(frozen=True, slots=True)
class NoMemory:
    """The memory of a strategy that needs only the view."""

    def to_row(self) -> dict[str, Any]:
        """Nothing."""
        return {}


class Memoryless:
    """Base class of strategies without memory."""

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
    """Proposes bundles that overloaded brokers give up; the plan chooses receivers or refuses."""

    def recall(self, row: Mapping[str, Any] | None) -> MemoryT:
        """The memory that ``to_row`` wrote; an empty one for None."""
        ...

    def observe(self, memory: MemoryT, view: ClusterView, rules: SheddingRules) -> MemoryT:
        """Learn from a view: once a cycle, before `shed`."""
        ...

    def shed(self, view: ClusterView, memory: MemoryT, rules: SheddingRules) -> Sequence[Decision]:
        """Return the bundles to give up and why others stay; at least one decision."""
        ...
