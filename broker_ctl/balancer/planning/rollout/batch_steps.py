"""What happens to the brokers of a batch: as the leader sees it, each time that it looks."""

import logging
from dataclasses import replace
from typing import Final

from broker_ctl.balancer.planning.rollout.observer import RolloutObserver
from broker_ctl.balancer.planning.rollout.patience import Patience
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.rollout.broker_machine import Event as BrokerEvent
from broker_ctl.core.rollout.broker_machine import State as BrokerState
from broker_ctl.core.rollout.gates import closed_gates
from broker_ctl.core.rollout.machine import Event, State
from broker_ctl.core.rollout.rollout import BrokerProgress, Rollout

log = logging.getLogger(__name__)

# A drain during which no bundle leaves for this time fails.
_STUCK_S: Final = 600.0


class BatchSteps:
    """The steps of the batch in progress, in one term."""

    def __init__(self, term: LeaderTerm) -> None:
        self._term = term
        self._clock = term.dependencies.clock
        self._observer = RolloutObserver(term)
        self._patience = Patience(self._clock)

    def msg_rate(self) -> float:
        """See `RolloutObserver.msg_rate`."""
        return self._observer.msg_rate()

    async def step(self, rollout: Rollout) -> Rollout:
        """The rollout after what has happened to the batch in progress.

        Raises:
            StoreError: the view could not be taken.
        """
        batch = rollout.current
        if not batch:
            if rollout.state is State.PAUSED:
                return rollout
            return rollout.on(Event.RESTARTED, self._clock.wall_ms())
        if all(each.state is BrokerState.WAITING for each in batch):
            if rollout.state is State.PAUSED:
                return rollout
            if missing := self._missing(rollout):
                return self._wait_for(rollout, missing)
            live_ids = await self._observer.live_ids()
            rollout = replace(rollout, msg_rate=self._observer.msg_rate(), live_ids=live_ids)
        view = await self._term.snapshot_builder.build()
        seen = await self._observer.on(view, rollout)
        rollout = await self._look_from_outside(rollout)
        for progress in rollout.current:
            rollout = self._step_broker(rollout, progress, seen)
        return rollout

    async def _look_from_outside(self, rollout: Rollout) -> Rollout:
        """Where no driver can ask a restarted broker, this process does."""
        if (is_healthy := self._term.dependencies.is_healthy) is None:
            return rollout
        for each in rollout.current:
            is_checked = each.state is BrokerState.CHECKING and not each.is_healthy
            if is_checked and await is_healthy(each.broker_id):
                rollout = rollout.found_healthy(each.broker_id)
        return rollout

    def _missing(self, rollout: Rollout) -> tuple[str, ...]:
        """Brokers of the rollout that are not alive: none of them is being restarted now."""
        names = (each.broker_id for each in rollout.brokers)
        return tuple(name for name in names if self._observer.run_of(name) is None)

    def _wait_for(self, rollout: Rollout, missing: tuple[str, ...]) -> Rollout:
        """Begin no further broker while others are gone: perhaps those that have restarted."""
        if self._patience.waited_s(rollout.rollout_id, missing) <= rollout.terms.gate_timeout_s:
            return rollout
        why = f"not registered: {', '.join(missing)}"
        log.warning("rollout %s stops: %s", rollout.rollout_id, why)
        return rollout.on(Event.FAIL, self._clock.wall_ms(), why)

    def _step_broker(
        self, rollout: Rollout, progress: BrokerProgress, seen: "RolloutObserver"
    ) -> Rollout:
        now_ms, broker_id = self._clock.wall_ms(), progress.broker_id
        run = seen.run_of(broker_id)
        match progress.state:
            case BrokerState.WAITING:
                return rollout.on_broker(broker_id, BrokerEvent.BEGIN, now_ms)
            case BrokerState.DRAINING:
                return self._step_draining(rollout, progress, seen)
            case BrokerState.RESTARTING if run not in {None, progress.run_before}:
                return rollout.on_broker(broker_id, BrokerEvent.RESTARTED, now_ms)
            case BrokerState.EMPTY | BrokerState.RESTARTING:
                return self._step_awaiting_driver(rollout, progress)
            case BrokerState.CHECKING:
                return self._step_checking(rollout, progress, seen)
            case _:
                return rollout

    def _step_draining(
        self, rollout: Rollout, progress: BrokerProgress, seen: "RolloutObserver"
    ) -> Rollout:
        now_ms, broker_id = self._clock.wall_ms(), progress.broker_id
        left = seen.bundles_left(broker_id)
        if not left and broker_id in self._term.dependencies.directives.drains:
            run = seen.run_of(broker_id)
            return rollout.on_broker(
                broker_id, BrokerEvent.EMPTIED, now_ms, run_before="" if run is None else run
            )
        if self._patience.waited_s(broker_id, (progress.state, left)) > _STUCK_S:
            return self._fail(rollout, broker_id, f"{left} bundles could not leave it")
        return rollout

    def _step_awaiting_driver(self, rollout: Rollout, progress: BrokerProgress) -> Rollout:
        """Nothing stays drained for a driver that is gone."""
        limit_s = rollout.terms.gate_timeout_s
        sign = progress.state, progress.changed_ms, progress.heard_ms
        if self._patience.waited_s(progress.broker_id, sign) <= limit_s:
            return rollout
        why = f"its driver has said nothing for {limit_s} s"
        return self._fail(rollout, progress.broker_id, why)

    def _step_checking(
        self, rollout: Rollout, progress: BrokerProgress, seen: "RolloutObserver"
    ) -> Rollout:
        now_ms, broker_id = self._clock.wall_ms(), progress.broker_id
        closed = closed_gates(seen.readings(progress), rollout.terms.version)
        if not closed:
            return rollout.on_broker(broker_id, BrokerEvent.PASSED, now_ms)
        sign = progress.state, progress.changed_ms
        if self._patience.waited_s(broker_id, sign) > rollout.terms.gate_timeout_s:
            return self._fail(rollout, broker_id, "; ".join(closed))
        return rollout.waiting_for({broker_id: "; ".join(closed)})

    def _fail(self, rollout: Rollout, broker_id: str, why: str) -> Rollout:
        now_ms = self._clock.wall_ms()
        log.warning("rollout %s stops at %s: %s", rollout.rollout_id, broker_id, why)
        failed = rollout.on_broker(broker_id, BrokerEvent.FAIL, now_ms, detail=why)
        return failed.on(Event.FAIL, now_ms, f"{broker_id}: {why}")
