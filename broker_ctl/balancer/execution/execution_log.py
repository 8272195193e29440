"""Runs decisions and records the outcome of each, for any executor."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

from broker_ctl.balancer.context.decision_recorder import DecisionRecorder
from broker_ctl.clock import Clock
from broker_ctl.core.cluster.decisions import Action, Reason, Skip, Split
from broker_ctl.core.history.journal import Outcome
from broker_ctl.core.model.commands import Reply
from broker_ctl.errors import AuthorityLost, BrokerCtlError, Fenced, HotTopic, PeerRefused
from broker_ctl.tasks import run_all
from broker_ctl.tracing.spans import Tracer, caused_span

log = logging.getLogger(__name__)

# By decision, those that must have ended before it starts.
Waits = Mapping[Action, Sequence[Action]]
NO_WAITS: Final[Waits] = MappingProxyType({})
# Executes one decision; raises the reason for a failure.
ExecuteOne = Callable[[Action], Awaitable[Reply]]
# No boundary would split a bundle: the owner has answered, and nothing was done.
NOTHING_TO_SPLIT: Final = "NothingToSplit"
_FUTILE: Final = {HotTopic.__name__: Reason.HOT_TOPIC, NOTHING_TO_SPLIT: Reason.INDIVISIBLE}


class ExecutionLog:
    """Runs and records the decisions of one term.

    Args:
        max_concurrent: decisions at a time; moves are limited by the budgets of the plan.
        tracer: begins the trace of each decision, unless a request has; None: nothing is traced.
    """

    def __init__(
        self,
        recorder: DecisionRecorder,
        clock: Clock,
        max_concurrent: int,
        tracer: Tracer | None = None,
    ) -> None:
        self._tracer = tracer
        self._recorder = recorder
        self._clock = clock
        self._max_concurrent = max_concurrent

    async def execute_all(
        self, execute_one: ExecuteOne, decisions: Iterable[Action], waits: Waits = NO_WAITS
    ) -> Mapping[Action, Reply]:
        """Execute all decisions; returns the successful ones with their replies.

        A decision starts once those that it waits for have ended; where one of them failed, it is
        held back: there is no room for it.

        Raises:
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        decided = list(decisions)
        room = asyncio.Semaphore(self._max_concurrent)
        done: dict[Action, Reply] = {}
        ended = {decision: asyncio.Event() for decision in decided}

        async def one(decision: Action) -> None:
            try:
                for earlier in waits.get(decision, ()):
                    await ended[earlier].wait()
                missing = [earlier for earlier in waits.get(decision, ()) if earlier not in done]
                if missing:
                    self._hold_back(decision, missing[0])
                    return
                async with room:
                    with suppress_non_fatal():
                        done[decision] = await self.execute(execute_one, decision)
            finally:
                ended[decision].set()

        await run_all((f"{each.kind} {each.bundles[0]}", one(each)) for each in decided)
        return done

    def _hold_back(self, decision: Action, missing: Action) -> None:
        text = f"{missing.bundles[0]} was to make room for it, and did not leave"
        self._recorder.record(decision, Outcome("held_back", text))

    async def execute(self, execute_one: ExecuteOne, decision: Action) -> Reply:
        """Execute one decision and record its outcome; returns the reply.

        Raises:
            OwnershipError, PeerError, NoBroker, StoreError: why it was not done.
            Fenced, AuthorityLost: this broker does not lead any more.
        """
        with self.recording(decision):
            return await execute_one(decision)

    @contextmanager
    def recording(self, decision: Action, traceparent: str = "") -> Iterator[None]:
        """Record the outcome of the block as that of the decision.

        ``traceparent`` is the context in which an earlier leader began it.
        """
        began_s = self._clock.now_s()
        try:
            with caused_span(
                self._tracer,
                f"decision {decision.kind}",
                parent=traceparent,
                bundle=str(decision.bundles[0]),
                reason=decision.reason,
            ):
                yield
        except BrokerCtlError as error:
            took_s = self._clock.now_s() - began_s
            why = _futile(error) if isinstance(decision, Split) else None
            if why is None:
                self._recorder.record(decision, Outcome("failed", str(error), took_s))
            else:
                # Only the owner knows its topics: that it splits nothing is an answer, no failure.
                skip = Skip(str(decision.bundles[0]), why, str(error))
                self._recorder.record(skip, Outcome("skipped", skip.detail, took_s))
            raise
        self._recorder.record(decision, Outcome("done", took_s=self._clock.now_s() - began_s))


def _futile(error: BrokerCtlError) -> Reason | None:
    """Why a split can have no effect; None: it failed."""
    kind = error.kind if isinstance(error, PeerRefused) else type(error).__name__
    return _FUTILE.get(kind)


@contextmanager
def suppress_non_fatal() -> Iterator[None]:
    """Log an error of one decision, so that others go on; errors that end the term are raised."""
    try:
        yield
    except (AuthorityLost, Fenced):
        raise
    except BrokerCtlError as error:
        log.debug("a decision failed: %s", error)
