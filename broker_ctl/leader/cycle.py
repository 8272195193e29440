"""The leader's cycle: view, proposals, plan, deeds (design 7; reference: 4.2, 4.3).

Shedding has an interval of its own, splitting and merging share another; what is due at the same
time is planned together. A pause and a dry run stop after the plan: what would have been done is
written down.
"""

import asyncio
import logging
import math
from collections.abc import Mapping
from typing import Any, Final

from broker_ctl.coordination.turns import in_turns
from broker_ctl.core.bundle import Bundle
from broker_ctl.core.decisions import Action, Decision
from broker_ctl.core.draw import splitmix64
from broker_ctl.core.hits import Hits
from broker_ctl.core.merging import candidates as merges
from broker_ctl.core.plan import Plan
from broker_ctl.core.shedding.averages import usage_averages
from broker_ctl.core.shedding.policy import SheddingPolicy
from broker_ctl.core.splitting import candidates as splits
from broker_ctl.core.steps import Steps, batched
from broker_ctl.core.view import ClusterView
from broker_ctl.errors import AuthorityLost, BrokerCtlError, Fenced, InvariantBroken
from broker_ctl.leader.leading import Leading
from broker_ctl.leader.new_parts import parts_of, spread_parts
from broker_ctl.leader.planning import planned_in_steps
from broker_ctl.leader.rules import LeaderRules
from broker_ctl.leader.steadiness import Steadiness
from broker_ctl.leader.survey import let_go, remains_of
from broker_ctl.ports import Outcome, Reply
from broker_ctl.store import paths
from broker_ctl.tasks import wait_until

log = logging.getLogger(__name__)

_IDLE_S: Final = 1.0
_AT_ONCE: Final = 50


class Cycle:
    """The loop of one leading.

    Attributes:
        plan: the newest one.
        is_paused: whether the newest one was held back by an operator.
    """

    def __init__(self, leading: Leading, steadiness: Steadiness) -> None:
        self._leading = leading
        self._parts = leading.parts
        self._steadiness = steadiness
        self._policy: SheddingPolicy[Any] | None = None
        self._memory: Any = None
        self._hot: Hits[Bundle] = Hits()
        self._cold: Hits[merges.Pair] = Hits()
        # When each was last done; what is due is said by the interval of the moment.
        self._shed_s = -math.inf
        self._split_s = -math.inf
        self.plan: Plan | None = None
        self.is_paused = False

    @property
    def usage_averages(self) -> Mapping[str, float]:
        """Moving average of each broker's usage, where the strategy of shedding keeps one."""
        return usage_averages(self._memory)

    async def run(self) -> None:
        """Cycle until leading ends.

        Raises:
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        await self._settle()
        while True:
            await self._steadiness.wait_steady()
            rules, now_s = self._parts.rules(), self._parts.clock.now_s()
            shed_due_s, split_due_s = self._due_s(rules)
            is_shed_due, is_split_due = now_s >= shed_due_s, now_s >= split_due_s
            if is_shed_due or is_split_due:
                await self._try_once(rules, is_shed_due=is_shed_due, is_split_due=is_split_due)
                ended_s = self._parts.clock.now_s()
                if is_shed_due:
                    self._shed_s = ended_s
                if is_split_due:
                    self._split_s = ended_s
            await asyncio.sleep(self._pause_s(rules))

    async def _settle(self) -> None:
        """Until all who are registered have reported, or the time for that is over."""
        if not await wait_until(self._has_all_reports, self._parts.rules().settle_s):
            log.info("not every broker has reported: going on with those that have")

    async def _has_all_reports(self) -> bool:
        return self._parts.registry.peers.keys() <= self._leading.board.reports.keys()

    def _pause_s(self, rules: LeaderRules) -> float:
        """Until something is due; rules that change meanwhile are noticed within a second."""
        left_s = min(self._due_s(rules)) - self._parts.clock.now_s()
        return min(max(0.0, left_s), _IDLE_S)

    def _due_s(self, rules: LeaderRules) -> tuple[float, float]:
        """When shedding is due, and splitting and merging; infinity: not at all."""
        return (
            math.inf if rules.shedding is None else self._shed_s + rules.shedding_interval_s,
            self._split_s + rules.splitting_interval_s if rules.is_reshaping else math.inf,
        )

    async def _try_once(self, rules: LeaderRules, *, is_shed_due: bool, is_split_due: bool) -> None:
        try:
            await self.once(rules, is_shed_due=is_shed_due, is_split_due=is_split_due)
        except (AuthorityLost, Fenced):
            raise
        except InvariantBroken:
            log.exception("cycle %d: the plan is refused", self._leading.outcomes.cycle)
        except BrokerCtlError as error:
            log.warning("cycle %d: %s", self._leading.outcomes.cycle, error)

    async def once(
        self, rules: LeaderRules, *, is_shed_due: bool = True, is_split_due: bool = True
    ) -> Plan:
        """One cycle.

        Raises:
            StoreError: the view could not be taken.
            InvariantBroken: the plan would break a safety sentence; nothing of it is done.
        """
        await self._leading.leadership.wait_deciding()
        self._leading.outcomes.cycle += 1
        began_s = self._parts.clock.now_s()
        await self._leading.executor.adopt()
        view = await self._leading.survey.take(self._draw_seed())
        proposals: list[Decision] = (
            await in_turns(self._reshape(view, rules)) if is_split_due else []
        )
        await asyncio.sleep(0)  # either takes a while where there are many bundles
        if is_shed_due and rules.shedding is not None:
            proposals += await in_turns(self._shed(rules.shedding, view, rules))
        self.plan = await in_turns(planned_in_steps(view, proposals, rules))
        took_s = self._parts.clock.now_s() - began_s
        number, sentence = self._leading.outcomes.cycle, self.plan.sentence
        log.debug("cycle %d took %.3f s: %s", number, took_s, sentence)
        remains = remains_of(view)
        del view
        await let_go(remains)
        done = await self._carry_out(self.plan, rules)
        if rules.splitting is not None and rules.splitting.is_unloading:
            await spread_parts(self._leading, parts_of(done), self._draw_seed())
        return self.plan

    def _reshape(self, view: ClusterView, rules: LeaderRules) -> Steps[list[Decision]]:
        """What is too much for one bundle, and what is too little for two."""
        proposals: list[Decision] = []
        if rules.splitting is None:
            self._hot = Hits()
        else:
            self._hot = yield from splits.observe_in_steps(self._hot, view, rules.splitting)
            proposals += yield from splits.candidates_in_steps(view, rules.splitting, self._hot)
        if rules.merging is None:
            self._cold = Hits()
        else:
            self._cold = yield from merges.observe_in_steps(self._cold, view, rules.merging)
            proposals += yield from merges.candidates_in_steps(view, rules.merging, self._cold)
        return proposals

    def _shed(
        self, policy: SheddingPolicy[Any], view: ClusterView, rules: LeaderRules
    ) -> Steps[tuple[Decision, ...]]:
        if policy is not self._policy:
            # What one policy remembers says nothing to another.
            self._policy, self._memory = policy, policy.recall(None)
        self._memory = yield from policy.observe(self._memory, view, rules.shedding_rules)
        return (yield from policy.shed(view, self._memory, rules.shedding_rules))

    async def _carry_out(self, decided: Plan, rules: LeaderRules) -> Mapping[Action, Reply]:
        """What was done; nothing while it is held back."""
        outcomes = self._leading.outcomes
        for some in batched(decided.skipped, _AT_ONCE):
            for skip in some:
                outcomes.record(skip, Outcome("skipped"))
            await asyncio.sleep(0)
        self.is_paused = await self._parts.store.exists(paths.PAUSE) is not None
        held_back = "paused" if self.is_paused else "dry_run" if rules.is_dry_run else ""
        if not held_back:
            return await self._leading.executor.perform(decided.decisions)
        for decision in decided.decisions:
            outcomes.record(decision, Outcome(held_back))
        return {}

    def _draw_seed(self) -> int:
        """Another one each cycle, and the same for whoever replays it."""
        return splitmix64(splitmix64(self._leading.leadership.epoch) ^ self._leading.outcomes.cycle)
