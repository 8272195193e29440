"""What operators have ordered for longer than one act, as the leader's cycle carries it out.

Drains and approved plans are moved on between two cycles, by the same task: so the budgets count
what each has begun, and no two plans claim one bundle.
"""

import asyncio
from typing import Final

from broker_ctl.balancer.context.rules import LeaderRules
from broker_ctl.balancer.planning.approvals import Approvals
from broker_ctl.balancer.planning.drains import Drains
from broker_ctl.balancer.planning.term import LeaderTerm

# No loop can sleep for less, and none must go round and round instead.
_INSTANT_S: Final = 0.001


class DirectiveRunner:
    """Those of one leading.

    Attributes:
        drains: brokers that are emptied.
        approvals: plans that are carried out.
    """

    def __init__(self, leading: LeaderTerm) -> None:
        self._parts = leading.parts
        self.drains = Drains(leading)
        self.approvals = Approvals(leading)
        self._wake = asyncio.Event()

    async def advance(self, rules: LeaderRules) -> None:
        """A batch of each that is due.

        Raises:
            StoreError: a view or a node could not be read, or not be written.
            InvariantBroken: a plan would break a safety sentence; nothing of it is done.
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        await self.approvals.advance(rules)
        await self.drains.advance(rules)

    async def wait(self, limit_s: float) -> None:
        """Until something is due or was ordered, but no longer than the limit."""
        stop_listening = self._parts.directives.listen(self.wake)
        try:
            async with asyncio.timeout(max(_INSTANT_S, min(limit_s, self._left_s()))):
                await self._wake.wait()
        except TimeoutError:
            return
        finally:
            stop_listening()
            self._wake.clear()

    def wake(self) -> None:
        """Something was ordered, or taken back: whoever waits looks again."""
        self._wake.set()

    def _left_s(self) -> float:
        due_s = min(self.drains.due_s, self.approvals.due_s)
        return due_s - self._parts.clock.now_s()
