"""Decisions that are carried out, and what came of each written down, whoever's hands do it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from broker_ctl.balancer.context.decision_recorder import DecisionRecorder
from broker_ctl.clock import Clock
from broker_ctl.core.cluster.decisions import Action
from broker_ctl.core.history.journal import Outcome
from broker_ctl.core.model.commands import Reply
from broker_ctl.errors import AuthorityLost, BrokerCtlError, Fenced

log = logging.getLogger(__name__)


class ExecutionLog:
    """Those of one leading.

    Args:
        act: carries one decision out; raises why it could not.
        at_once: so many at a time. How many moves there may be is for the plan's budgets to say.
    """

    def __init__(
        self,
        outcomes: DecisionRecorder,
        clock: Clock,
        act: Callable[[Action], Awaitable[Reply]],
        at_once: int,
    ) -> None:
        self._outcomes = outcomes
        self._clock = clock
        self._act = act
        self._at_once = at_once

    async def perform(self, decisions: Iterable[Action]) -> Mapping[Action, Reply]:
        """Carry out all of them, some at a time; answers with what was done, and its replies.

        Raises:
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        room = asyncio.Semaphore(self._at_once)
        done: dict[Action, Reply] = {}

        async def one(decision: Action) -> None:
            async with room:
                with suppress_non_fatal():
                    done[decision] = await self.carry_out(decision)

        async with asyncio.TaskGroup() as group:
            for decision in decisions:
                group.create_task(one(decision), name=f"{decision.kind} {decision.bundles[0]}")
        return done

    async def carry_out(self, decision: Action) -> Reply:
        """Carry out one, and write down what came of it; answers as whoever did it.

        Raises:
            OwnershipError, PeerError, NoBroker, StoreError: why it was not done.
            Fenced, AuthorityLost: this broker does not lead any more.
        """
        with self.written_down(decision):
            return await self._act(decision)

    @contextmanager
    def written_down(self, decision: Action) -> Iterator[None]:
        """What comes of the block is what came of the decision."""
        began_s = self._clock.now_s()
        try:
            yield
        except BrokerCtlError as error:
            outcome = Outcome("failed", str(error), self._clock.now_s() - began_s)
            self._outcomes.record(decision, outcome)
            raise
        self._outcomes.record(decision, Outcome("done", took_s=self._clock.now_s() - began_s))


@contextmanager
def suppress_non_fatal() -> Iterator[None]:
    """One that fails is no reason to stop the others, unless all must stop."""
    try:
        yield
    except (AuthorityLost, Fenced):
        raise
    except BrokerCtlError as error:
        log.debug("%s", error)
