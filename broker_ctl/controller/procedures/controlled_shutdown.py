"""Controlled shutdown: stopping brokers hand over their leaderships and leave the ISRs.

Docs: kafka-procedures. From then on no leader admits them to an ISR (KIP-841; see
`state_batch.announced_replicas`). The handover happens while they still serve, so that no client
waits for a session to expire. A broker repeats the request until it leads nothing; a new controller
gets the same request.
"""

import logging
from collections.abc import Iterable
from typing import Any, Final

from broker_ctl.controller.procedures.procedure import ControllerContext
from broker_ctl.controller.store.loader import Pauses
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.partitions import elections
from broker_ctl.core.partitions.elections import (
    Election,
    ElectionRefusal,
    RefusedElection,
    next_state,
    shortfall,
)
from broker_ctl.core.partitions.instructions import ReplicaStop
from broker_ctl.core.partitions.values import NO_LEADER, Assignment, LeaderAndIsr, TopicPartition

log = logging.getLogger(__name__)

# A refusal names this number of partitions, and the count of all.
_NAMED: Final = 5
_UNCHANGED: Final = RefusedElection(ElectionRefusal.NOTHING_CHANGES)


class ControlledShutdowns:
    """The controlled shutdowns of one term."""

    def __init__(self, controller: ControllerContext) -> None:
        self._context = controller.context
        self._state_changer = controller.state_changer

    def fault_of(self, broker_id: int, broker_epoch: int) -> str | None:
        """Why the request is not valid: the broker is gone, or has registered again."""
        broker = self._context.brokers.get(broker_id)
        if broker is not None and broker.epoch == broker_epoch:
            return None
        known = "is not registered" if broker is None else f"has epoch {broker.epoch}"
        return f"broker {broker_id} {known}, and asks with epoch {broker_epoch}"

    async def shut_down(self, broker_id: int, *, is_forced: bool) -> Reply:
        """Take everything away from it that others can take over, or nothing.

        ``{broker, is_done, led: [[TOPIC, PARTITION]], reason}``: what it still leads.
        """
        context = self._context
        replicas = list(context.replicas_on(broker_id))
        is_new = broker_id not in context.leaving
        context.leaving.add(broker_id)
        reason = "" if is_forced else await self._refusal(broker_id, replicas)
        is_announced = not reason
        if not reason:
            await self._take_away(replicas, is_forced=is_forced, is_new=is_new)
            # The ISRs may be smaller than the context has them: read them again.
            reason = "" if is_forced else await self._refusal(broker_id, replicas)
        if reason:
            if is_new:
                context.leaving.discard(broker_id)
            if is_new and is_announced:
                # Leaders must learn that the broker may not be admitted again.
                await self._state_changer.send_updates(replicas)
            log.warning("broker %d may not stop: %s", broker_id, reason)
            return self._reply(broker_id, is_done=False, reason=reason)
        await self._stop(broker_id, replicas)
        reply = self._reply(broker_id, is_done=True, reason="")
        log.info(
            "broker %d is about to stop: of %d replicas it still leads %d",
            broker_id,
            len(replicas),
            len(reply["led"]),
        )
        return reply

    async def _refusal(self, broker_id: int, replicas: Iterable[TopicPartition]) -> str:
        """Why the broker may not stop, naming the first partitions; empty if it may."""
        short: list[str] = []
        count, pauses = 0, Pauses()
        for partition in replicas:
            await pauses.after(1)
            remaining = self._shortfall(partition)
            if remaining is None:
                continue
            count += 1
            if len(short) < _NAMED:
                left = ", ".join(map(str, remaining)) or "no replica"
                short.append(f"{partition} would have {left} in sync")
        if not count:
            return ""
        named = "; ".join(short)
        return (
            f"{count} partitions need broker {broker_id}, as fewer than they ask for would be left"
            f" in sync: {named}{'; ...' if count > len(short) else ''}"
        )

    def _shortfall(self, partition: TopicPartition) -> tuple[int, ...] | None:
        context = self._context
        state = context.states.get(partition)
        return None if state is None else self._judge(partition, state)

    def _judge(self, partition: TopicPartition, state: LeaderAndIsr) -> tuple[int, ...] | None:
        context = self._context
        return shortfall(
            context.assignments[partition],
            state,
            context.live_for(partition),
            context.leaving,
            context.rules_of(partition.topic).min_isr,
        )

    async def _take_away(
        self, replicas: list[TopicPartition], *, is_forced: bool, is_new: bool
    ) -> None:
        """Write new states; with the next leader epoch each leader learns whom it may admit."""
        context = self._context

        def leave(
            partition: TopicPartition, assignment: Assignment, state: LeaderAndIsr
        ) -> Election:
            live = context.live_for(partition)
            if not is_forced and self._judge(partition, state) is not None:
                return RefusedElection(ElectionRefusal.TOO_FEW_REMAIN)
            left = next_state(assignment, state, live, context.leaving, context.epoch)
            if is_new and left == _UNCHANGED and state.leader != NO_LEADER:
                # It is not in sync, but its leader may be about to admit it.
                return elections.bump_epoch(state, context.epoch)
            return left

        await self._state_changer.change(replicas, leave, "controlled shutdown")

    async def _stop(self, broker_id: int, replicas: list[TopicPartition]) -> None:
        """Stop its replicas: leaders then neither wait for them nor admit them."""
        context, pauses = self._context, Pauses()
        stops: list[ReplicaStop] = []
        for partition in replicas:
            await pauses.after(1)
            state = context.states.get(partition)
            if state is not None and broker_id not in state.isr:
                topic_id = context.topics[partition.topic].topic_id
                stops.append(ReplicaStop(partition, topic_id, state.leader_epoch, is_deleted=False))
        await self._state_changer.stop_replicas({broker_id: stops})

    def _reply(self, broker_id: int, *, is_done: bool, reason: str) -> dict[str, Any]:
        led = sorted(self._context.led_by(broker_id))
        return {
            "broker": broker_id,
            "is_done": is_done,
            "led": [list(partition) for partition in led],
            "reason": reason,
        }
