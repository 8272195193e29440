"""Moves of drains and rollouts: out of brokers, at a pace, and back into the last ones."""

from collections.abc import Collection
from dataclasses import replace

from broker_ctl.balancer.context.dependencies import LeaderRules
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.decisions import Transfer, Unload
from broker_ctl.core.cluster.directives import drain_proposals
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.planning.decide import plan_proposals
from broker_ctl.core.rollout.forecast import Pace, evacuate, give_back
from broker_ctl.core.rollout.rollout import Rollout


class Evacuation:
    """Proposes the moves of drains, those of a rollout among them.

    Attributes:
        rollout: as of its newest change; None: there is none.
    """

    def __init__(self, term: LeaderTerm) -> None:
        self._term = term
        self._dependencies = term.dependencies
        self.rollout: Rollout | None = None
        self._pace: Pace | None = None
        self._paced: frozenset[str] = frozenset()
        self._count = 0

    async def propose(
        self, view: ClusterView, drained: Collection[str], rules: LeaderRules
    ) -> tuple[Transfer | Unload, ...]:
        """Moves that empty the drained brokers; those of a rollout have destinations."""
        leaving = self._leaving(drained)
        others = [each for each in drained if each not in leaving]
        proposals: tuple[Transfer | Unload, ...] = drain_proposals(view, others)
        if leaving and self.rollout is not None:
            settled = view.brokers.keys() - self.rollout.outstanding
            proposals += await self._dependencies.planner.run(
                evacuate, view, leaving, settled, rules.placement_rules
            )
        return proposals

    def paced(self, drained: Collection[str], rules: LeaderRules) -> LeaderRules:
        """The rules with as many moves in flight as their interruption allows."""
        if self._pace is None or not self._paced.intersection(drained):
            self._pace = Pace.of(rules.budgets.max_moves_per_broker)
        self._paced = frozenset(drained)
        moves = self._pace.moves
        budgets = replace(
            rules.budgets,
            max_moves_per_broker=moves,
            max_moves=max(rules.budgets.max_moves, moves * len(drained)),
        )
        return replace(rules, budgets=budgets)

    def record(self, moved: int, took_s: float) -> None:
        """Take a group of moves into account."""
        if self._pace is None or not moved:
            return
        self._pace = self._pace.after(moved, took_s)
        if self._leaving(self._paced):
            self._count += moved

    def take_count(self) -> int:
        """Number of bundles that were moved since the last call."""
        count, self._count = self._count, 0
        return count

    async def give_back(self, rules: LeaderRules) -> bool:
        """Fill the brokers that restarted last; false: they have their share.

        Raises:
            StoreError: the view could not be taken.
            InvariantBroken: the plan would violate an invariant; nothing of it is executed.
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        if self.rollout is None or not self.rollout.batches:
            return False
        view = await self._term.snapshot_builder.build(self._term.leadership.epoch)
        moves = await self._dependencies.planner.run(
            give_back, view, self.rollout.batches[-1], rules.placement_rules
        )
        plan = await self._dependencies.planner.run(plan_proposals, view, moves, rules)
        done = await self._term.executor.execute_all(plan.decisions, plan.order.waits)
        self._count += len(done)
        return bool(done)

    def _leaving(self, drained: Collection[str]) -> frozenset[str]:
        if self.rollout is None:
            return frozenset()
        return self.rollout.drained.intersection(drained)
