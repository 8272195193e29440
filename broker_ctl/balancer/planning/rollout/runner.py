"""Carries a rollout out, as far as it is the cluster's: pause, drains, gates, restarts, returns."""

import asyncio
import logging
import math
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from broker_ctl.balancer.context.dependencies import LeaderRules
from broker_ctl.balancer.planning.directives import Drains, write_directives
from broker_ctl.balancer.planning.rollout.evacuation import Evacuation
from broker_ctl.balancer.planning.rollout.observer import RolloutObserver
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.clock import Clock
from broker_ctl.coordination.election import Leadership
from broker_ctl.core.cluster.directives import AuditInfo, Drain, Pause
from broker_ctl.core.rollout.broker_machine import BrokerRolloutEvent as BrokerEvent
from broker_ctl.core.rollout.broker_machine import BrokerRolloutState as BrokerState
from broker_ctl.core.rollout.machine import RolloutEvent, RolloutState
from broker_ctl.core.rollout.rollout import BrokerProgress, Rollout, closed_gates
from broker_ctl.errors import CorruptRecord, NewerVersion, NodeExists, OrderConflict, RolloutMissing
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, Delete, MetadataStore, SetData
from broker_ctl.store.records.directives import DrainRecord, PauseRecord
from broker_ctl.store.records.rollout import MOST_ROLLOUT_BYTES, RolloutRecord

log = logging.getLogger(__name__)

# The rollout in the store; leaders are its only writers, under their epoch.


class RolloutStore:
    """Reads and writes the node of the rollout."""

    def __init__(self, store: MetadataStore, leadership: Leadership) -> None:
        self._store = store
        self._leadership = leadership

    async def read(self) -> Rollout | None:
        """The rollout in progress or the last one; None: there was none.

        Raises:
            StoreError: the node could not be read.
        """
        # Sync first: an earlier leader may have written until just now.
        await self._store.sync(paths.ROLLOUT)
        node = await self._store.get(paths.ROLLOUT)
        if node is None:
            return None
        try:
            return RolloutRecord.decode(node.path, node.data).rollout
        except (CorruptRecord, NewerVersion) as error:
            log.warning("the rollout is ignored: %s", error)
            return None

    async def is_missing(self) -> bool:
        """Whether there is no node; one that cannot be read, as that of a newer release, is there.

        Raises:
            StoreError: it could not be asked for.
        """
        return await self._store.exists(paths.ROLLOUT) is None

    async def write(self, rollout: Rollout) -> None:
        """Store the rollout.

        Raises:
            OrderConflict: it is too large for a node.
            Fenced: another leader was elected.
            StoreError: it was not written.
        """
        data = RolloutRecord(rollout).encode()
        if len(data) > MOST_ROLLOUT_BYTES:
            raise OrderConflict(
                f"a rollout of {len(rollout.brokers)} brokers does not fit into a node; "
                "name some of them with --brokers"
            )
        is_new = await self.is_missing()
        change = Create(paths.ROLLOUT, data) if is_new else SetData(paths.ROLLOUT, data)
        await self._leadership.write(self._store, change)


# What a rollout holds while it runs: a pause of the balancing, and drains.
#
# Both are directives like an operator's, with the name of the rollout as the giver. So every
# broker shows who paused and why, and what a rollout ends is only what it began: a pause and
# drains of operators stay, also those with which an operator has taken a rollout's over.


class RolloutDirectives:
    """The pause and the drains of rollouts, in one term."""

    def __init__(self, term: LeaderTerm, drains: Drains) -> None:
        self._term = term
        self._dependencies = term.dependencies
        self._drains = drains

    async def reconcile(self, rollout: Rollout) -> None:
        """Begin and end what the state of a rollout asks for; repeated, it changes nothing.

        Raises:
            Fenced: another leader was elected.
            StoreError: a node could not be read, or not be written.
        """
        directives = self._dependencies.directives
        if not rollout.is_holding:
            # What was begun just now is not in this broker's copy yet, and nobody looks later.
            await directives.wait_synced()
        if rollout.is_holding and directives.pause is None:
            await self._pause(rollout)
        for broker_id in sorted(rollout.drained - directives.drains.keys()):
            await self._drain(rollout, broker_id)
        for broker_id, drain in sorted(directives.drains.items()):
            if drain.rollout_id and broker_id not in rollout.drained:
                await self._undrain(broker_id)
        pause = directives.pause
        if not rollout.is_holding and pause is not None and pause.rollout_id:
            await self._resume()

    async def end(self) -> None:
        """End what rollouts have begun: there is none any more.

        Raises:
            Fenced: another leader was elected.
            StoreError: a node could not be read, or not be written.
        """
        directives = self._dependencies.directives
        await directives.wait_synced()
        for broker_id, drain in sorted(directives.drains.items()):
            if drain.rollout_id:
                log.warning(
                    "the node of rollout %s is gone: its drain of %s ends",
                    drain.rollout_id,
                    broker_id,
                )
                await self._undrain(broker_id)
        pause = directives.pause
        if pause is not None and pause.rollout_id:
            log.warning("the node of rollout %s is gone: its pause ends", pause.rollout_id)
            await self._resume()

    async def _pause(self, rollout: Rollout) -> None:
        pause = Pause(self._order(rollout), rollout_id=rollout.rollout_id)
        await write_directives(self._term, Create(paths.PAUSE, PauseRecord(pause).encode()))

    async def _resume(self) -> None:
        node = await self._dependencies.store.get(paths.PAUSE)
        if node is None:
            return
        try:
            is_of_rollout = bool(PauseRecord.decode(node.path, node.data).pause.rollout_id)
        except (CorruptRecord, NewerVersion):
            return
        if is_of_rollout:
            # By its version: an operator may make the pause their own meanwhile.
            await write_directives(self._term, Delete(paths.PAUSE, node.stat.version))

    async def _drain(self, rollout: Rollout, broker_id: str) -> None:
        if await self._dependencies.store.exists(paths.DRAINS) is None:
            with suppress(NodeExists):
                await self._dependencies.store.create(paths.DRAINS, make_parents=True)
        order, left = self._order(rollout), self._drains.left(broker_id)
        drain = Drain(order, *left, rollout_id=rollout.rollout_id)
        data = DrainRecord(drain).encode()
        await write_directives(self._term, Create(paths.drain(broker_id), data))

    async def _undrain(self, broker_id: str) -> None:
        path = paths.drain(broker_id)
        node = await self._dependencies.store.get(path)
        if node is None:
            return
        try:
            is_of_rollout = bool(DrainRecord.decode(node.path, node.data).drain.rollout_id)
        except (CorruptRecord, NewerVersion):
            return
        if is_of_rollout:
            await write_directives(self._term, Delete(path, node.stat.version))

    def _order(self, rollout: Rollout) -> AuditInfo:
        why = rollout.order.why or "brokers restart one after the other"
        return AuditInfo.of(self._dependencies.clock.wall_ms(), rollout.who, why)


# How long a broker of a rollout has shown no progress.


class Patience:
    """Counts by this leader's monotonic clock: a step of the wall clock stops no rollout.

    The next leader counts from the start.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[Hashable, float]] = {}

    def waited_s(self, broker_id: str, sign: Hashable) -> float:
        """Seconds since the broker first gave this sign of life, without another one between."""
        now_s = self._clock.now_s()
        known = self._seen.get(broker_id)
        if known is None or known[0] != sign:
            known = self._seen[broker_id] = sign, now_s
        return now_s - known[1]


# What happens to the brokers of a batch: as the leader sees it, each time that it looks.


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
            if rollout.state is RolloutState.PAUSED:
                return rollout
            return rollout.on(RolloutEvent.RESTARTED, self._clock.wall_ms())
        if all(each.state is BrokerState.WAITING for each in batch):
            if rollout.state is RolloutState.PAUSED:
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
        return rollout.on(RolloutEvent.FAIL, self._clock.wall_ms(), why)

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
        return failed.on(RolloutEvent.FAIL, now_ms, f"{broker_id}: {why}")


# Carries a rollout out, as far as it is the cluster's: pause, drains, gates, give back.
#
# The restarts themselves are the driver's, which an operator runs. The state is in a node: another
# leader continues, and so does another driver.


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
        is_over = self._rollout is None or self._rollout.is_over
        is_idle = self._is_loaded and is_over and self._is_restored
        return math.inf if is_idle else self._due_s

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

    async def act(self, event: RolloutEvent, note: str, *, is_dry_run: bool = False) -> Rollout:
        """Pause, resume or abort the rollout.

        Raises:
            RolloutMissing: there is none.
            InvalidTransition: it does not fit the state.
            StoreError: it was not written.
        """
        async with self._turn:
            now_ms, known = self._clock.wall_ms(), await self._required()
            if event is RolloutEvent.RESUME and known.state is RolloutState.RUNNING:
                # Its driver is gone, and another one continues.
                return known
            changed = known.on(event, now_ms, note)
            if event is RolloutEvent.RESUME:
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
                changed = changed.on(RolloutEvent.FAIL, now_ms, f"{broker_id}: {detail}")
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
            self._evacuation.rollout = known
        if known is None:
            await self._end_orphans()
            return
        await self._restore(known)
        if known.is_over:
            return
        if known.state is RolloutState.SETTLING and await self._evacuation.give_back(rules):
            return
        async with self._turn:
            latest = await self._required()
            changed = await self._step(latest)
            if changed != latest:
                await self._write(changed)
        await self._restore(changed)

    async def _end_orphans(self) -> None:
        """Where somebody has deleted the node of a rollout, nothing else would end its pause."""
        if not self._is_restored and await self._nodes.is_missing():
            await self._directives.end()
        self._is_restored = True

    async def _restore(self, rollout: Rollout) -> None:
        """Do what the state asks for; one that is over is looked at until that has succeeded."""
        await self._directives.reconcile(rollout)
        self._is_restored = rollout.is_over

    async def _step(self, rollout: Rollout) -> Rollout:
        now_ms = self._clock.wall_ms()
        moved = self._evacuation.take_count()
        rollout = replace(rollout, moves=rollout.moves + moved)
        match rollout.state:
            case RolloutState.ABORTING:
                return rollout.on(RolloutEvent.RESTORED, now_ms, rollout.note)
            case RolloutState.SETTLING:
                return rollout.on(RolloutEvent.SETTLED, now_ms)
            case RolloutState.RUNNING | RolloutState.PAUSED:
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
