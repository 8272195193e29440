"""Executes lasting directives of operators between cycles: drains, windows and approved plans.

Both run in the task of the cycle, so that budgets count the moves of each, and no two plans claim
one bundle.
"""

import asyncio
from typing import Final

from broker_ctl.balancer.context.dependencies import LeaderRules
from broker_ctl.balancer.planning.approvals import Approvals
from broker_ctl.balancer.planning.directives import DrainAdmission, Drains, Maintenance
from broker_ctl.balancer.planning.rollout.evacuation import Evacuation
from broker_ctl.balancer.planning.rollout.runner import RolloutRunner
from broker_ctl.balancer.planning.term import LeaderTerm

# Shortest sleep of the loop: prevents a busy loop.
_INSTANT_S: Final = 0.001


class DirectiveRunner:
    """The directives of one term.

    Attributes:
        drains: brokers being drained.
        admission: judges which may be.
        maintenance: drains that begin later.
        approvals: approved plans.
        rollout: restarts of brokers, one after the other.
    """

    def __init__(self, term: LeaderTerm) -> None:
        self._dependencies = term.dependencies
        evacuation = Evacuation(term)
        self.drains = Drains(term, evacuation)
        self.rollout = RolloutRunner(term, self.drains, evacuation)
        self.admission = DrainAdmission(term, self.drains)
        self.maintenance = Maintenance(term, self.admission)
        self.approvals = Approvals(term)
        self._wake = asyncio.Event()

    async def advance(self, rules: LeaderRules) -> None:
        """Execute a batch of each directive that is due.

        Raises:
            StoreError: a view or a node could not be read, or not be written.
            InvariantBroken: a plan would violate an invariant; nothing of it is executed.
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        await self.approvals.advance(rules)
        await self.maintenance.advance()
        await self.rollout.advance(rules)
        await self.drains.advance(rules)

    async def wait(self, limit_s: float) -> None:
        """Wait until a directive is due or changed, at most ``limit_s`` seconds."""
        stop_listening = self._dependencies.directives.listen(self.wake)
        try:
            async with asyncio.timeout(max(_INSTANT_S, min(limit_s, self._remaining_s()))):
                await self._wake.wait()
        except TimeoutError:
            return
        finally:
            stop_listening()
            self._wake.clear()

    def wake(self) -> None:
        """End `wait`: a directive was given or withdrawn."""
        self._wake.set()

    def _remaining_s(self) -> float:
        parts = (self.drains, self.approvals, self.maintenance, self.rollout)
        due_s = min(part.due_s for part in parts)
        return due_s - self._dependencies.clock.now_s()
