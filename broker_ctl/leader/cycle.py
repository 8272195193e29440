"""The leader's cycle: view, proposals, plan, deeds (design 7; reference: 4.2, 4.3).

Shedding and splitting have intervals of their own; what is due at the same time is planned
together. A pause and a dry run stop after the plan: what would have been done is written down.
"""

import asyncio
import logging
from typing import Any, Final

from broker_ctl.core.decisions import Decision
from broker_ctl.core.draw import splitmix64
from broker_ctl.core.plan import Plan, plan
from broker_ctl.core.shedding.policy import SheddingPolicy
from broker_ctl.core.splitting.candidates import candidates
from broker_ctl.core.view import ClusterView
from broker_ctl.errors import AuthorityLost, BrokerCtlError, Fenced, InvariantBroken
from broker_ctl.leader.leading import Leading
from broker_ctl.leader.rules import LeaderRules
from broker_ctl.leader.steadiness import Steadiness
from broker_ctl.ports import Outcome
from broker_ctl.store import paths
from broker_ctl.tasks import wait_until

log = logging.getLogger(__name__)

_IDLE_S: Final = 1.0


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
        self._shed_due_s = 0.0
        self._split_due_s = 0.0
        self.plan: Plan | None = None
        self.is_paused = False

    async def run(self) -> None:
        """Cycle until leading ends.

        Raises:
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        await self._settle()
        while True:
            await self._steadiness.wait_steady()
            rules, now_s = self._parts.rules(), self._parts.clock.now_s()
            is_shed_due = rules.shedding is not None and now_s >= self._shed_due_s
            is_split_due = rules.splitting is not None and now_s >= self._split_due_s
            if is_shed_due or is_split_due:
                await self._try_once(rules, is_shed_due=is_shed_due, is_split_due=is_split_due)
                ended_s = self._parts.clock.now_s()
                if is_shed_due:
                    self._shed_due_s = ended_s + rules.shedding_interval_s
                if is_split_due:
                    self._split_due_s = ended_s + rules.splitting_interval_s
            await asyncio.sleep(self._pause_s(rules))

    async def _settle(self) -> None:
        """Until all who are registered have reported, or the time for that is over."""
        if not await wait_until(self._has_all_reports, self._parts.rules().settle_s):
            log.info("not every broker has reported: going on with those that have")

    async def _has_all_reports(self) -> bool:
        return self._parts.registry.peers.keys() <= self._leading.board.reports.keys()

    def _pause_s(self, rules: LeaderRules) -> float:
        """Until something is due; rules that change meanwhile are noticed within a second."""
        due_s = [
            due_s
            for policy, due_s in (
                (rules.shedding, self._shed_due_s),
                (rules.splitting, self._split_due_s),
            )
            if policy is not None
        ]
        left_s = min(due_s, default=float("inf")) - self._parts.clock.now_s()
        return min(max(0.0, left_s), _IDLE_S)

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
        await self._leading.executor.adopt()
        view = await self._leading.survey.take(self._draw_seed())
        proposals: list[Decision] = []
        if is_split_due and rules.splitting is not None:
            proposals += candidates(view, rules.splitting)
        if is_shed_due and rules.shedding is not None:
            proposals += self._shed(rules.shedding, view, rules)
        self.plan = plan(
            view,
            proposals,
            placement=rules.placement,
            placement_rules=rules.placement_rules,
            budgets=rules.budgets,
        )
        log.debug("cycle %d: %s", self._leading.outcomes.cycle, self.plan.sentence)
        await self._carry_out(self.plan, rules)
        return self.plan

    def _shed(
        self, policy: SheddingPolicy[Any], view: ClusterView, rules: LeaderRules
    ) -> tuple[Decision, ...]:
        if policy is not self._policy:
            # What one policy remembers says nothing to another.
            self._policy, self._memory = policy, policy.recall(None)
        self._memory = policy.observe(self._memory, view, rules.shedding_rules)
        return policy.shed(view, self._memory, rules.shedding_rules)

    async def _carry_out(self, decided: Plan, rules: LeaderRules) -> None:
        outcomes = self._leading.outcomes
        for skip in decided.skipped:
            outcomes.record(skip, Outcome("skipped"))
        self.is_paused = await self._parts.store.exists(paths.PAUSE) is not None
        held_back = "paused" if self.is_paused else "dry_run" if rules.is_dry_run else ""
        if not held_back:
            await self._leading.executor.perform(decided.decisions)
            return
        for decision in decided.decisions:
            outcomes.record(decision, Outcome(held_back))

    def _draw_seed(self) -> int:
        """Another one each cycle, and the same for whoever replays it."""
        return splitmix64(splitmix64(self._leading.leadership.epoch) ^ self._leading.outcomes.cycle)
