"""Failover and start-up: brokers that come, go, restart, fall silent, or lose a disk.

Docs: kafka-design-v3, kafka-procedures, kafka-failure-kinds.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from broker_ctl.controller.state.batch_writer import Changes
from broker_ctl.controller.state.state_changes import StateChanger
from broker_ctl.controller.store.loader import Loader
from broker_ctl.controller.transport.messages import Transport
from broker_ctl.core.model.counting import batched
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.elections import Election, after_broker_change
from broker_ctl.core.partitions.values import (
    NO_LEADER,
    Assignment,
    BrokersChanged,
    LeaderAndIsr,
    LiveBroker,
    TopicPartition,
)

log = logging.getLogger(__name__)

# Partitions handled between two yields to the event loop.
_PARTITIONS_PER_TURN: Final = 5000


class BrokerChanges:
    """Handles broker changes in one term."""

    def __init__(
        self, context: Context, loader: Loader, state_changer: StateChanger, transport: Transport
    ) -> None:
        self._context = context
        self._loader = loader
        self._state_changer = state_changer
        self._transport = transport
        # The last event failed: the next one checks all partitions against all brokers.
        self.is_behind = False
        # Brokers as of the last event that was handled without an error.
        self._last_handled: Mapping[int, LiveBroker] = {}

    async def load(self) -> None:
        """Load the live brokers at the start of a term."""
        brokers = await self._loader.brokers()
        changed = BrokersChanged.between({}, brokers)
        self._context.put_brokers(brokers)
        await self._read_failures(brokers)
        await self._transport.on_brokers_changed(changed)
        self._last_handled = brokers

    async def _read_failures(self, brokers: Collection[int]) -> None:
        for broker_id, failed in (await self._loader.failures(brokers)).items():
            self._context.failures.put(broker_id, failed)

    async def on_brokers_changed(self) -> BrokersChanged | None:
        """Read the live brokers and handle changes; None if nothing changed since a success.

        Dead and restarted brokers are failed over first; then new and restarted ones get a full
        instruction, and elections for offline partitions are retried (KAFKA-1120, 7235).
        """
        brokers = await self._loader.brokers()
        changed = BrokersChanged.between(self._context.brokers, brokers)
        if changed.dead or changed.bounced or changed.new:
            await self._change(changed)
        if self.is_behind:
            await self.catch_up()
        last_handled, self._last_handled = self._last_handled, brokers
        since = BrokersChanged.between(last_handled, brokers)
        return since if since.dead or since.bounced or since.new else None

    async def _change(self, changed: BrokersChanged) -> None:
        context, brokers = self._context, changed.live
        gone, started = changed.dead | changed.bounced, changed.new | changed.bounced
        log.info(
            "brokers: %s new, %s dead, %s bounced",
            *map(sorted, (changed.new, changed.dead, changed.bounced)),
        )
        await self._transport.on_brokers_changed(changed)
        stopped = context.leaving & gone
        context.put_brokers({each: brokers[each] for each in brokers if each not in gone})
        # They may have published failures before they were known to be live.
        await self._read_failures(started)
        if gone:
            await self._fail_over(gone, "broker died")
        for broker_id in stopped:
            # Once they register again, leaders may admit them to ISRs.
            await self._state_changer.send_updates(list(context.replicas_on(broker_id)))
        context.put_brokers(brokers)
        if started:
            await self._start_up(started)
        # Also without a new leader: the endpoint to fetch from has changed (KAFKA-13225).
        await self._state_changer.send_live_brokers()

    async def _fail_over(self, gone: Collection[int], reason: str) -> None:
        """Elect new leaders, then remove dead followers from the ISRs: they would delay commits."""
        context = self._context
        led = [each for broker_id in gone for each in context.led_by(broker_id)]
        await self._state_changer.change(led, self._elect, reason)
        followed: dict[TopicPartition, None] = {}
        for broker_id in gone:
            for chunk in batched(list(context.replicas_on(broker_id)), _PARTITIONS_PER_TURN):
                followed.update(
                    dict.fromkeys(each for each in chunk if self._is_in_sync(each, broker_id))
                )
                await asyncio.sleep(0)
        await self._state_changer.change(followed, self._elect, reason)

    def _is_in_sync(self, partition: TopicPartition, broker_id: int) -> bool:
        state = self._context.states.get(partition)
        return state is not None and state.leader != NO_LEADER and broker_id in state.isr

    async def _start_up(self, started: Iterable[int]) -> None:
        """Elect for partitions that wait for these brokers, and send each its full instruction."""
        await self.retry_offline(started, "broker started")
        await self._state_changer.send_full(started)

    async def retry_offline(self, brokers: Iterable[int], reason: str) -> Changes:
        """Elect for partitions without a leader that have a replica on one of these brokers.

        Docs: kafka-elections.
        """
        context = self._context
        offline = dict.fromkeys(
            partition
            for broker_id in brokers
            for partition in context.replicas_on(broker_id)
            if partition in context.offline
        )
        return await self.elect(offline, reason)

    async def catch_up(self) -> None:
        """Check every partition against the live brokers, and send full instructions."""
        context = self._context
        await self.elect(self._leaderless(), "takeover")
        dead_in_sync: list[TopicPartition] = []
        states = context.states
        for chunk in batched(list(states), _PARTITIONS_PER_TURN):
            live = context.usable
            dead_in_sync += [each for each in chunk if not live.issuperset(states[each].isr)]
            await asyncio.sleep(0)
        await self._state_changer.change(dead_in_sync, self._elect, "takeover")
        await self._state_changer.send_full(list(context.brokers))
        self.is_behind = False

    def _leaderless(self) -> list[TopicPartition]:
        """Partitions without a leader, except new ones of topics being deleted."""
        context = self._context
        return [
            partition
            for partition in context.offline
            if partition in context.states or partition.topic not in context.deleting
        ]

    async def elect(self, offline: Iterable[TopicPartition], reason: str) -> Changes:
        """Elect leaders for these partitions; those without a state get their first one."""
        states = self._context.states
        led_once: list[TopicPartition] = []
        new: list[TopicPartition] = []
        for partition in offline:
            (led_once if partition in states else new).append(partition)
        changes = await self._state_changer.change(led_once, self._elect, reason)
        first = await self._state_changer.initialise(new, reason)
        changes.update(first)
        # The states of partitions that Kafka led are known now, and some may lack a leader.
        taken_over = [each for each in new if each in states and each in self._context.offline]
        if taken_over:
            changes.update(await self._state_changer.change(taken_over, self._elect, reason))
        return changes

    async def on_failures_changed(self) -> None:
        """Move leaderships off failed replicas; repaired ones may lead again."""
        context = self._context
        failed_now: set[TopicPartition] = set()
        healed: set[TopicPartition] = set()
        for broker_id, failed in (await self._loader.failures(list(context.brokers))).items():
            before = context.failures.on(broker_id)
            context.failures.put(broker_id, failed)
            failed_now |= failed - before
            healed |= before - failed
        known = context.states.keys()
        if failed_now:
            await self._state_changer.change(failed_now & known, self._elect, "replica failed")
        await self._state_changer.change(
            healed & context.offline.keys() & known, self._elect, "replica healed"
        )

    async def on_silence_changed(self, silent: Collection[int]) -> None:
        """Treat brokers that do not acknowledge as dead, if another replica can lead."""
        context = self._context
        before = context.silent
        context.put_silent(context.brokers.keys() & set(silent))
        unresponsive = context.silent - before
        if unresponsive:
            log.warning(
                "brokers %s do not acknowledge instructions: failing over", sorted(unresponsive)
            )
            await self._fail_over(unresponsive, "broker silent")
        await self.retry_offline(before - context.silent, "broker acknowledges again")

    def _elect(
        self, partition: TopicPartition, assignment: Assignment, state: LeaderAndIsr
    ) -> Election:
        """Elect among live brokers; a stopping or silent broker leads only if no other can.

        Either is better than no leader, since it may still serve. A registered broker may also
        still commit alone, so no replica out of sync may replace it.
        """
        context = self._context
        epoch, rules = context.epoch, context.rules_of(partition[0])
        live = context.live_for(partition)
        if context.leaving or context.silent:
            for choice in (live - context.leaving, live):
                elected = after_broker_change(assignment, state, choice, epoch)
                if isinstance(elected, LeaderAndIsr) and elected.leader != NO_LEADER:
                    return elected
            live = context.registered_for(partition)
        return after_broker_change(assignment, state, live, epoch, rules)
