"""Topics that are created, grow, change their configuration, or vanish.

Docs: kafka-design-v3, kafka-procedures.
"""

import logging
from collections.abc import Collection, Iterable

from broker_ctl.controller.procedures.broker_changes import BrokerChanges
from broker_ctl.controller.state.batch_writer import CHUNK
from broker_ctl.controller.state.state_changes import StateChanger
from broker_ctl.controller.store.loader import Loader
from broker_ctl.controller.store.pipelining import Pauses
from broker_ctl.core.model.batches import batched
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.instructions import ReplicaStop
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import TopicAssignment

log = logging.getLogger(__name__)


class TopicChanges:
    """Handles topic changes in one term."""

    def __init__(
        self,
        context: Context,
        loader: Loader,
        state_changer: StateChanger,
        broker_changes: BrokerChanges,
    ) -> None:
        self._context = context
        self._loader = loader
        self._state_changer = state_changer
        self._broker_changes = broker_changes

    async def load(self) -> None:
        """Load all topics with their configurations and states, and the requested deletions."""
        context, pauses = self._context, Pauses()
        context.deleting = set(await self._loader.deletions())
        names = await self._loader.topic_names()
        for chunk in batched(names, CHUNK):
            for name, topic in (await self._loader.topics(chunk)).items():
                # Topics being deleted are not sent any more (KAFKA-13342).
                if topic is not None and name not in context.deleting:
                    context.put_topic(name, topic)
                    await pauses.after(len(topic.partitions))
        configured = await self._loader.configured_topics()
        for name, rules in (await self._loader.topic_rules(configured)).items():
            context.put_rules(name, rules)
            await pauses.after(len(context.partitions_of(name)))
        await self._state_changer.refresh(list(context.assignments))

    async def on_topics_changed(self, names: Collection[str] | None) -> set[str]:
        """Read these topics, or all, and handle changes; returns those that came, grew or went.

        A topic with another id than before is another topic: the earlier one is gone.
        """
        context = self._context
        if names is None:
            names = {*await self._loader.topic_names(), *context.topics}
        news: set[str] = set()
        new_partitions: list[TopicPartition] = []
        unknown: list[str] = []
        context.deleting = set(await self._loader.deletions())
        for name, topic in (await self._loader.topics(sorted(names))).items():
            before = context.topics.get(name)
            if topic == before and not self._has_new(name):
                continue
            news.add(name)
            if name in context.deleting:
                continue  # handled by `TopicDeletions`
            if before is not None and (topic is None or topic.topic_id != before.topic_id):
                await self._vanished(name, before)
            if topic is not None:
                if name not in context.topics:
                    unknown.append(name)
                context.put_topic(name, topic)
                new_partitions += [
                    partition
                    for partition in context.partitions_of(name)
                    if partition not in context.states
                ]
        # Their configurations may be older than the topics, with no later notification.
        for name, rules in (await self._loader.topic_rules(unknown)).items():
            context.put_rules(name, rules)
        # A previous controller may have initialised some of them.
        await self._state_changer.refresh(new_partitions)
        await self._state_changer.send_updates(new_partitions)
        await self._broker_changes.elect(
            [each for each in new_partitions if self._is_to_be_led(each)], "topic created"
        )
        return news

    def _has_new(self, name: str) -> bool:
        """Return whether it has known partitions without a leader, such as those just added."""
        states = self._context.states
        return any(partition not in states for partition in self._context.partitions_of(name))

    def _is_to_be_led(self, partition: TopicPartition) -> bool:
        context = self._context
        return partition in context.offline and partition.topic not in context.deleting

    async def _vanished(self, name: str, topic: TopicAssignment) -> None:
        """Stop the replicas of a topic whose node is gone; dead brokers remove theirs as strays."""
        context = self._context
        log.warning("topic %s (%s) is gone: stopping its replicas", name, topic.topic_id)
        stops: dict[int, list[ReplicaStop]] = {}
        for number, assignment in topic.partitions.items():
            partition = TopicPartition(name, number)
            state = context.states.get(partition)
            leader_epoch = 0 if state is None else state.leader_epoch
            stop = ReplicaStop(partition, topic.topic_id, leader_epoch, is_deleted=True)
            for replica in assignment.replicas:
                stops.setdefault(replica, []).append(stop)
        context.forget_topic(name)
        await self._state_changer.stop_replicas(stops)

    async def on_rules_changed(self, names: Collection[str] | None) -> None:
        """Read these topics' configurations, or all; elect if unclean elections are allowed now."""
        context = self._context
        if names is None:
            names = {*await self._loader.configured_topics(), *context.rules}
        found = await self._loader.topic_rules(name for name in names if name in context.topics)
        for name in names:
            before = context.rules_of(name)
            context.put_rules(name, found.get(name))
            if context.rules_of(name) != before:
                await self._apply_rules(name)

    async def _apply_rules(self, name: str) -> None:
        partitions: Iterable[TopicPartition] = self._context.partitions_of(name)
        await self._state_changer.send_updates(partitions)
        offline = [each for each in partitions if each in self._context.offline]
        await self._broker_changes.elect(offline, "topic rules changed")
