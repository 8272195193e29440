"""Runs several strategies in order: the first one with proposals decides the cycle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker_ctl.core.cluster.decisions import Decision, Skip
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.rules.rules import SheddingRules
from broker_ctl.core.strategies.shedding.policy import Memory, SheddingPolicy


@dataclass(frozen=True, slots=True)
class SequenceMemory:
    """What each strategy remembers, by its name."""

    memories: Mapping[str, Memory] = field(default_factory=dict)

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"memories": {name: memory.to_row() for name, memory in self.memories.items()}}


@dataclass(frozen=True, slots=True)
class SheddingSequence:
    """Strategies by name, in the order in which they run.

    All strategies observe every cycle, even if another one acts, because a moving average must not
    miss a sample. Hits that a later strategy resets in such a cycle are lost, which does no harm:
    the cluster that it counted them on is about to change.
    """

    policies: Mapping[str, SheddingPolicy[Any]]

    def recall(self, row: Mapping[str, Any] | None) -> SequenceMemory:
        """The memory that ``to_row`` wrote; strategies that are not in it start with nothing."""
        rows = (row or {}).get("memories", {})
        return SequenceMemory(
            {name: policy.recall(rows.get(name)) for name, policy in self.policies.items()}
        )

    def observe(
        self, memory: SequenceMemory, view: ClusterView, rules: SheddingRules
    ) -> SequenceMemory:
        """Each learns."""
        memories: dict[str, Memory] = {}
        for name, policy in self.policies.items():
            memories[name] = policy.observe(memory.memories[name], view, rules)
        return SequenceMemory(memories)

    def shed(
        self, view: ClusterView, memory: SequenceMemory, rules: SheddingRules
    ) -> Sequence[Decision]:
        """Return the proposals of the first strategy that has any, or else the skips of all."""
        reasons: list[Decision] = []
        for name, policy in self.policies.items():
            decisions = policy.shed(view, memory.memories[name], rules)
            if not all(isinstance(decision, Skip) for decision in decisions):
                return decisions
            reasons += [decision for decision in decisions if decision not in reasons]
        return tuple(reasons)
