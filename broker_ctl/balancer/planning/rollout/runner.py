"""Carries a rollout out, as far as it is the cluster's: pause, drains, gates, give back.

The restarts themselves are the driver's, which an operator runs. The state is in a node: another
leader continues, and so does another driver.
"""

import asyncio
import logging
import math
from dataclasses import replace
from typing import Final

from broker_ctl.balancer.context.rules import LeaderRules
from broker_ctl.balancer.planning.drains import Drains
from broker_ctl.balancer.planning.rollout.batch_steps import BatchSteps
from broker_ctl.balancer.planning.rollout.evacuation import Evacuation
from broker_ctl.balancer.planning.rollout.rollout_directives import RolloutDirectives
from broker_ctl.balancer.planning.rollout.rollout_store import RolloutStore
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.rollout.broker_machine import Event as BrokerEvent
from broker_ctl.core.rollout.broker_machine import State as BrokerState
from broker_ctl.core.rollout.machine import Event, State
from broker_ctl.core.rollout.rollout import Rollout
from broker_ctl.errors import OrderConflict, RolloutMissing

log = logging.getLogger(__name__)

_INTERVAL_S: Final = 0.5


class RolloutRunner:
    """The rollout of a cluster, in one term."""

    def __init__(self, term: LeaderTerm, drains: Drains, evacuation: Evacuation) -> None:
        self._term = term
        self._clock = term.dependencies.clock
        self._nodes = RolloutStore(term.dependencies.store, term.leadership)
        self._directives = RolloutDirectives(term, drains)
        self._steps = BatchSteps(term)
        self._evacuation = evacuation
        self._rollout: Rollout | None = None
        self._is_loaded = False
        self._is_restored = False
        # Serialises reading and writing.
        self._turn = asyncio.Lock()
        self._due_s = -math.inf

    @property
    def due_s(self) -> float:
        """When the next step is due; infinity if there is nothing to do."""
        is_idle = self._rollout is None or (self._rollout.is_over and self._is_restored)
        return math.inf if self._is_loaded and is_idle else self._due_s

    # Requests of operators and of the driver.

    async def current(self) -> Rollout:
        """The rollout in progress, or the last one.

        Raises:
            RolloutMissing: there was none.
            StoreError: it could not be read.
        """
        async with self._turn:
            return await self._required()

    async def check_begin(self) -> None:
        """Check that a rollout may begin.

        Raises:
            OrderConflict: another is in progress.
            StoreError: it could not be read.
        """
        async with self._turn:
            await self._check_none()

    async def begin(self, rollout: Rollout) -> Rollout:
        """Begin a rollout.

        Raises:
            OrderConflict: another is in progress.
            StoreError: it was not written.
        """
        async with self._turn:
            await self._check_none()
            await self._write(rollout)
        log.info("rollout %s begins%s", rollout.rollout_id, rollout.order.suffix)
        return rollout

    async def act(self, event: Event, note: str, *, is_dry_run: bool = False) -> Rollout:
        """Pause, resume or abort the rollout.

        Raises:
            RolloutMissing: there is none.
            InvalidTransition: it does not fit the state.
            StoreError: it was not written.
        """
        async with self._turn:
            now_ms, known = self._clock.wall_ms(), await self._required()
            if event is Event.RESUME and known.state is State.RUNNING:
                # Its driver is gone, and another one continues.
                return known
            changed = known.on(event, now_ms, note)
            if event is Event.RESUME:
                for each in known.brokers:
                    if each.state is BrokerState.FAILED:
                        changed = changed.on_broker(each.broker_id, BrokerEvent.RETRY, now_ms)
                # Perhaps it stopped because there is less traffic than before.
                changed = replace(changed, msg_rate=self._steps.msg_rate())
            if not is_dry_run:
                await self._write(changed)
            return changed

    async def note_restart(
        self, broker_id: str, event: BrokerEvent | None, detail: str = ""
    ) -> Rollout:
        """What the driver says of a broker; no event: it has found it healthy.

        Raises:
            RolloutMissing: there is none, or the broker is not part of it.
            InvalidTransition: it does not fit the state of the broker.
            StoreError: it was not written.
        """
        async with self._turn:
            now_ms, known = self._clock.wall_ms(), await self._required()
            progress = known.progress_of(broker_id)
            if progress is None:
                raise RolloutMissing(f"{broker_id} is not part of rollout {known.rollout_id}")
            if event is None:
                changed = known.found_healthy(broker_id)
            elif event is BrokerEvent.RESTARTED and progress.state is BrokerState.CHECKING:
                # The leader has seen the new process before the driver's command ended.
                changed = known
            else:
                if event is BrokerEvent.RESTART_BEGAN and not known.is_holding:
                    raise OrderConflict(f"rollout {known.rollout_id} is {known.state.value}")
                changed = known.on_broker(broker_id, event, now_ms, detail=detail)
            if event is BrokerEvent.FAIL:
                changed = changed.on(Event.FAIL, now_ms, f"{broker_id}: {detail}")
            await self._write(changed)
            return changed

    # Execution by the leader.

    async def advance(self, rules: LeaderRules) -> None:
        """Do what is due.

        Raises:
            StoreError: a node could not be read, or not be written.
            InvariantBroken: a plan would violate an invariant; nothing of it is executed.
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        if self._clock.now_s() < self.due_s:
            return
        self._due_s = self._clock.now_s() + _INTERVAL_S
        await self._term.leadership.wait_deciding()
        async with self._turn:
            known = await self._loaded()
            if known is None:
                return
            self._evacuation.rollout = known
        await self._restore(known)
        if known.is_over:
            return
        if known.state is State.SETTLING and await self._evacuation.give_back(rules):
            return
        async with self._turn:
            latest = await self._required()
            changed = await self._step(latest)
            if changed != latest:
                await self._write(changed)
        await self._restore(changed)

    async def _restore(self, rollout: Rollout) -> None:
        """Do what the state asks for; one that is over is looked at until that has succeeded."""
        await self._directives.reconcile(rollout)
        self._is_restored = rollout.is_over

    async def _step(self, rollout: Rollout) -> Rollout:
        now_ms = self._clock.wall_ms()
        moved = self._evacuation.take_count()
        rollout = replace(rollout, moves=rollout.moves + moved)
        match rollout.state:
            case State.ABORTING:
                return rollout.on(Event.RESTORED, now_ms, rollout.note)
            case State.SETTLING:
                return rollout.on(Event.SETTLED, now_ms)
            case State.RUNNING | State.PAUSED:
                return await self._steps.step(rollout)
            case _:
                return rollout

    async def _write(self, rollout: Rollout) -> None:
        before = self._rollout
        # After a failure the node shows whether it was written.
        self._is_loaded = self._is_restored = False
        await self._nodes.write(rollout)
        self._rollout, self._is_loaded = rollout, True
        self._evacuation.rollout = rollout
        if before is None or before.state is not rollout.state:
            self._due_s = -math.inf
            log.info("rollout %s is %s", rollout.rollout_id, rollout.state.value)

    async def _loaded(self) -> Rollout | None:
        if not self._is_loaded:
            self._rollout = await self._nodes.read()
            self._is_loaded = True
            self._evacuation.rollout = self._rollout
        return self._rollout

    async def _check_none(self) -> None:
        known = await self._loaded()
        if known is not None and not known.is_over:
            raise OrderConflict(
                f"rollout {known.rollout_id} is {known.state.value}; broker-ctl rollout resume "
                "continues it, abort ends it"
            )

    async def _required(self) -> Rollout:
        if (known := await self._loaded()) is None:
            raise RolloutMissing("no rollout has begun; broker-ctl rollout run begins one")
        return known
