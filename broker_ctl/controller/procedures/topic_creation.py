"""Creation of topics, and of more partitions for them (docs: kafka-procedures).

The assignment is written first, and the leaders are elected afterwards: if a controller dies in
between, the next one finds partitions without a state, and elects their leaders.
"""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from broker_ctl.controller.procedures.parents import make_parents
from broker_ctl.controller.procedures.procedure import ControllerContext
from broker_ctl.controller.store.topic_ids import new_topic_id
from broker_ctl.core.partitions.names import TopicPartition, validate_topic
from broker_ctl.core.partitions.replica_lists import fault_of, fault_of_min_isr
from broker_ctl.core.partitions.spreading import spread
from broker_ctl.core.partitions.values import Assignment, TopicAssignment, TopicRules
from broker_ctl.errors import (
    InvalidReplicas,
    MultiFailed,
    NodeExists,
    OrderConflict,
    TopicExists,
    TopicMissing,
)
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import Create, Operation, SetData
from broker_ctl.store.records.partitions import (
    decode_configuration,
    encode_topic,
    encode_topic_rules,
)

Replicas = Mapping[int, tuple[int, ...]]
# A server lists all topics in one reply, which jute.maxbuffer bounds at 1 MiB: no later controller
# could read a longer one (docs: kafka-procedures). Each name has its length before it.
_MOST_LISTED_BYTES: Final = 900 * 1024
_LENGTH_BYTES: Final = 4


class TopicCreation:
    """Creates topics and partitions in one term."""

    def __init__(self, controller: ControllerContext, rng: random.Random) -> None:
        self._store = controller.store
        self._context = controller.context
        self._state_changer = controller.state_changer
        self._rules = controller.rules
        self._rng = rng

    def spread(self, partitions: int, replication_factor: int) -> Replicas:
        """Replicas for the partitions of a new topic, evenly over the live brokers."""
        return dict(enumerate(self._spread(partitions, replication_factor, {})))

    # Topics.

    def check_new(self, topic: str, replicas: Replicas, rules: TopicRules) -> None:
        """Check a topic that is to be created.

        Raises:
            InvalidName, TopicExists, InvalidReplicas: as named.
            OrderConflict: there are more topics than can be listed.
        """
        validate_topic(topic)
        if topic in self._context.deleting:
            raise TopicExists(f"{topic} is being deleted; its name is free when that is done")
        if topic in self._context.topics:
            raise TopicExists(f"there is a topic {topic} already")
        if sorted(replicas) != list(range(len(replicas))) or not replicas:
            raise InvalidReplicas(f"{topic}: partitions are numbered from 0 on, without a gap")
        self._check_replicas(topic, replicas, self._rules().with_defaults(rules).min_isr)
        names = [topic, *self._context.topics]
        if sum(map(len, names)) + len(names) * _LENGTH_BYTES > _MOST_LISTED_BYTES:
            raise OrderConflict(
                f"{topic} would be topic {len(names)}, more names than ZooKeeper lists at once "
                f"({_MOST_LISTED_BYTES} bytes): delete topics, or use fewer with more partitions"
            )

    async def create(self, topic: str, replicas: Replicas, rules: TopicRules) -> None:
        """Create a topic and its configuration in one transaction, and elect its leaders.

        Raises:
            TopicExists: it exists, or is being deleted.
        """
        if await self._store.get(partition_paths.deletion(topic)) is not None:
            raise TopicExists(f"{topic} is being deleted; its name is free when that is done")
        path, configuration = (
            partition_paths.topic(topic),
            partition_paths.topic_configuration(topic),
        )
        for each in (path, configuration):
            await make_parents(self._store, self._state_changer, each)
        made = TopicAssignment(
            new_topic_id(self._rng),
            {number: Assignment(each) for number, each in replicas.items()},
            0,
        )
        operations = [
            Create(path, encode_topic(made)),
            await self._configured(configuration, rules),
        ]
        try:
            await self._state_changer.write(operations)
        except MultiFailed as error:
            if isinstance(error.cause, NodeExists) and error.index == 0:
                raise TopicExists(f"there is a topic {topic} already") from None
            raise
        self._context.put_topic(topic, made)
        self._context.put_rules(topic, self._rules().with_defaults(rules))
        await self._state_changer.initialise(self._context.partitions_of(topic), "topic created")

    async def _configured(self, path: str, rules: TopicRules) -> Operation:
        """The rules of the topic, merged with a configuration that may exist already."""
        node = await self._store.get(path)
        if node is None:
            return Create(path, encode_topic_rules(rules, {}))
        others = decode_configuration(node)
        return SetData(path, encode_topic_rules(rules, others), node.stat.version)

    # Partitions.

    def grown(self, topic: str, partitions: int, given: Replicas) -> Replicas:
        """The replicas of the partitions to add for ``partitions`` in all.

        Raises:
            TopicMissing, TopicExists (it is being deleted), InvalidReplicas: as named.
        """
        context = self._context
        if topic in context.deleting:
            raise TopicExists(f"{topic} is being deleted")
        known = context.topics.get(topic)
        if known is None:
            raise TopicMissing(f"there is no topic {topic}")
        new = [number for number in range(partitions) if number not in known.partitions]
        if not new:
            raise InvalidReplicas(f"{topic} has {len(known.partitions)} partitions already")
        strangers = sorted(given.keys() - set(new))
        if strangers:
            raise InvalidReplicas(
                f"{topic}: replicas are given for {strangers[:10]}, and the new partitions are"
                f" {new[0]} to {new[-1]}"
            )
        self._check_replicas(topic, given, context.rules_of(topic).min_isr)
        targets = {number: of.target for number, of in known.partitions.items()} | dict(given)
        left = [number for number in new if number not in given]
        factor = max(Counter(map(len, targets.values())).items(), key=lambda each: each[1])[0]
        spread_out = self._spread(len(left), factor, targets)
        return dict(sorted({**given, **dict(zip(left, spread_out, strict=True))}.items()))

    async def grow(self, topic: str, new: Replicas) -> None:
        """Write the new partitions, and elect their leaders.

        Raises:
            TopicMissing, InvalidReplicas: the topic has changed meanwhile.
        """

        def added(node: TopicAssignment) -> TopicAssignment | None:
            if node.partitions.keys() & new.keys():
                return None
            more = {number: Assignment(replicas) for number, replicas in new.items()}
            return replace(node, partitions={**node.partitions, **more})

        if await self._state_changer.change_topic(topic, added) is None:
            raise InvalidReplicas(f"{topic} has grown meanwhile: look again")
        partitions = [TopicPartition(topic, number) for number in new]
        await self._state_changer.initialise(partitions, "topic grown")

    # Both.

    def _check_replicas(self, topic: str, replicas: Replicas, min_isr: int) -> None:
        for number, brokers in replicas.items():
            fault = fault_of(brokers, self._context.brokers) or fault_of_min_isr(min_isr, brokers)
            if fault is not None:
                raise InvalidReplicas(f"{TopicPartition(topic, number)} {fault}")

    def _spread(
        self, count: int, replication_factor: int, beside: Replicas
    ) -> list[tuple[int, ...]]:
        context = self._context
        brokers = context.usable - context.leaving
        return spread(
            count,
            replication_factor,
            brokers,
            beside=beside.values(),
            all_replicas={broker: len(context.replicas_on(broker)) for broker in brokers},
            all_leaders=context.preferring,
            racks=context.racks.racks,
        )
