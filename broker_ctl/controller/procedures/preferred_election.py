"""Preferred and unclean leader elections (docs: kafka-preferred).

The controller gives leadership back by itself once a broker has lost too much of it, or on request
of an operator; on request it also elects replicas out of sync if no replica in sync is live
(KIP-460).
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from broker_ctl.controller.procedures.procedure import Alarm, ControllerContext, check_partition
from broker_ctl.controller.state.state_changes import Decide
from broker_ctl.controller.transport.messages import StopResponse
from broker_ctl.core.partitions import elections
from broker_ctl.core.partitions.elections import (
    BATCH,
    Election,
    ElectionRefusal,
    RefusedElection,
    imbalanced,
    is_warm,
)
from broker_ctl.core.partitions.values import (
    Assignment,
    BrokersChanged,
    LeaderAndIsr,
    TopicPartition,
    TopicRules,
)
from broker_ctl.errors import InvalidReplicas, StoreError

log = logging.getLogger(__name__)

# Delay at the start of a term: brokers that just lost leaderships may be about to return.
FIRST_CHECK_S: Final = 5.0
PREFERRED: Final = "preferred"
UNCLEAN: Final = "unclean"
KINDS: Final = (PREFERRED, UNCLEAN)
_UNCLEAN: Final = TopicRules(is_unclean_allowed=True)


class PreferredLeaderElection:
    """`Procedure`: elections that do not follow from a change of the cluster."""

    def __init__(self, controller: ControllerContext) -> None:
        self._context = controller.context
        self._state_changer = controller.state_changer
        self._events = controller.events
        self._clock = controller.clock
        self._rules = controller.rules
        self._alarm = Alarm(controller, "preferred leaders", self._check)
        # When brokers that registered during this term were first seen.
        self._since_s: dict[int, float] = {}

    async def resume(self) -> None:
        """See `Procedure`."""
        self._alarm.set(FIRST_CHECK_S)

    async def on_requests_changed(self) -> None:
        """See `Procedure`: does nothing."""

    async def on_brokers_changed(self, changed: BrokersChanged) -> None:
        """See `Procedure`."""
        for broker_id in changed.new | changed.bounced:
            self._since_s[broker_id] = self._clock.now_s()

    async def on_topics_changed(self, topics: Collection[str]) -> None:
        """See `Procedure`: does nothing."""

    async def on_states_changed(self, partitions: Collection[TopicPartition]) -> None:
        """See `Procedure`: the next check finds replicas that are in sync again."""

    async def on_stop_responses(self, answers: Sequence[StopResponse]) -> None:
        """See `Procedure`: does nothing."""

    # Automatic elections.

    async def _check(self) -> None:
        """Give leadership back to preferred replicas, a batch at a time."""
        rules, context = self._rules(), self._context
        self._alarm.set(rules.imbalance_check_s)
        if not rules.is_rebalancing:
            return
        brokers = imbalanced(context.preferring, context.led_elsewhere, rules.imbalance_percent)
        due = [
            partition
            for broker_id in brokers
            if self._may_receive(broker_id)
            for partition in sorted(context.led_elsewhere[broker_id])
            if isinstance(self.judge(PREFERRED, partition), LeaderAndIsr)
        ]
        if not due:
            return
        changes = await self._state_changer.change(
            due[:BATCH], self._decide(PREFERRED), "preferred"
        )
        log.info("%d partitions are led by their preferred replica again", len(changes.changed))
        if len(due) > BATCH and changes.changed:
            self._events.enqueue_once("preferred leaders", self._check)

    def _may_receive(self, broker_id: int) -> bool:
        context = self._context
        since_s = self._since_s.get(broker_id)
        age_s = None if since_s is None else self._clock.now_s() - since_s
        lagging = context.under_replicated.intersection(context.replicas_on(broker_id))
        behind = sum(1 for each in lagging if not self._is_in_sync(broker_id, each))
        return is_warm(age_s, behind)

    def _is_in_sync(self, broker_id: int, partition: TopicPartition) -> bool:
        state = self._context.states.get(partition)
        return state is not None and broker_id in state.isr

    # Requested elections.

    def check(self, kind: str, partitions: Sequence[TopicPartition]) -> None:
        """Judge what an operator asks for.

        Raises:
            TopicMissing, InvalidReplicas: as `ControllerOperations.elect`.
        """
        if kind not in KINDS:
            raise InvalidReplicas(f"{kind!r} is not an election: there are {', '.join(KINDS)}")
        if kind == UNCLEAN and not partitions:
            raise InvalidReplicas("an unclean election loses records: name its partitions")
        for partition in partitions:
            check_partition(self._context, partition)

    def candidates(self) -> list[TopicPartition]:
        """All partitions that a preferred election would change."""
        elsewhere = {each for of_one in self._context.led_elsewhere.values() for each in of_one}
        return sorted(
            each for each in elsewhere if isinstance(self.judge(PREFERRED, each), LeaderAndIsr)
        )

    def judge(self, kind: str, partition: TopicPartition) -> Election:
        """The expected result of an election, by the known state."""
        context = self._context
        state = context.states.get(partition)
        if state is None:
            return RefusedElection(ElectionRefusal.NONE_LIVES)
        return self._decide(kind)(partition, context.assignments[partition], state)

    async def elect(
        self, kind: str, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, Election | StoreError]:
        """Elect now, by order of an operator; a broker that is not warm yet may be given it."""
        reason = f"{kind} election"
        changes = await self._state_changer.change(partitions, self._decide(kind), reason)
        return {**changes.failed, **changes.refused, **changes.changed}

    def _decide(self, kind: str) -> Decide:
        return self._preferred if kind == PREFERRED else self._unclean

    def _preferred(
        self, partition: TopicPartition, assignment: Assignment, state: LeaderAndIsr
    ) -> Election:
        context = self._context
        live = context.live_for(partition) - context.leaving
        return elections.preferred(assignment, state, live, context.epoch)

    def _unclean(
        self, partition: TopicPartition, assignment: Assignment, state: LeaderAndIsr
    ) -> Election:
        """Elect out of sync only if no broker leads or may still lead: that loses records."""
        context = self._context
        if state.leader in context.registered_for(partition):
            return RefusedElection(ElectionRefusal.NOTHING_CHANGES)
        live = context.live_for(partition)
        return elections.offline(assignment, state, live, context.epoch, _UNCLEAN)
