"""Topics that are created, adopted, grow, change their configuration, or vanish."""

import logging
import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from broker_ctl.controller.procedures.broker_changes import BrokerChanges
from broker_ctl.controller.procedures.procedure import ControllerContext, check_topic, make_parents
from broker_ctl.controller.procedures.topic_deletion import TopicDeletions
from broker_ctl.controller.state.batch_writer import CHUNK
from broker_ctl.controller.state.state_changes import StateChanger
from broker_ctl.controller.store.kafka_states import (
    KAFKAS,
    Led,
    read_led,
    take_over_operations,
)
from broker_ctl.controller.store.loader import READS, Loader, Pauses, new_topic_id
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.model.counting import batched
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.instructions import ReplicaStop
from broker_ctl.core.partitions.placing import spread
from broker_ctl.core.partitions.reassigning import fault_of, fault_of_min_isr
from broker_ctl.core.partitions.values import (
    MIN_ISR,
    NO_LEADER,
    Assignment,
    RuleChanges,
    TopicAssignment,
    TopicPartition,
    TopicRules,
    validate_topic,
)
from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    CorruptRecord,
    InvalidReplicas,
    MultiFailed,
    NodeExists,
    NoNode,
    OrderConflict,
    TopicExists,
    TopicMissing,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import Check, Create, Operation, SetData, Versioned
from broker_ctl.store.records.partitions import (
    decode_configuration,
    decode_topic_in_any_form,
    encode_configuration,
    encode_topic,
    encode_topic_rules,
    rules_of_configuration,
)

log = logging.getLogger(__name__)

# Creation of topics, and of more partitions for them (docs: kafka-procedures).
#
# The assignment is written first, and the leaders are elected afterwards: if a controller dies in
# between, the next one finds partitions without a state, and elects their leaders.


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
        if await self._store.get(paths.deletion(topic)) is not None:
            raise TopicExists(f"{topic} is being deleted; its name is free when that is done")
        path, configuration = (
            paths.topic(topic),
            paths.topic_configuration(topic),
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


# Changes of a topic's configuration (Kafka: topic configs).
#
# Only the node is written. Its change comes back as a notification like any other, upon which
# leaders get an update, and elections that are allowed now are run.


class _Altered(NamedTuple):
    """Attributes: node: the current one, None if there is none. rules: with defaults filled in."""

    node: Versioned | None
    before: Mapping[str, str]
    after: Mapping[str, str]
    rules: TopicRules


class TopicConfiguration:
    """The configurations of topics in one term."""

    def __init__(self, controller: ControllerContext) -> None:
        self._store = controller.store
        self._context = controller.context
        self._state_changer = controller.state_changer
        self._rules = controller.rules

    async def judge(self, topic: str, changes: RuleChanges) -> Reply:
        """What `alter` would do, and answer."""
        return self._reply(topic, (await self._altered(topic, changes)).rules)

    async def alter(self, topic: str, changes: RuleChanges) -> Reply:
        """Write them: ``{topic, before, after, under_min_isr}``."""
        path = paths.topic_configuration(topic)
        while True:
            await make_parents(self._store, self._state_changer, path)
            node, before, after, rules = await self._altered(topic, changes)
            reply = self._reply(topic, rules)
            if before == after:
                return reply
            data = encode_configuration(after)
            write = Create(path, data) if node is None else SetData(path, data, node.stat.version)
            operations: list[Operation] = [Check(paths.topic(topic)), write]
            try:
                await self._state_changer.write(operations)
            except Ambiguous:
                continue  # the next read shows whether it was written
            except MultiFailed as error:
                if error.index == 0:
                    raise TopicMissing(f"there is no topic {topic} any more") from None
                if not isinstance(error.cause, BadVersion | NodeExists | NoNode):
                    raise
                continue  # another client has written it
            return reply

    async def _altered(self, topic: str, changes: RuleChanges) -> _Altered:
        """The configuration before and after the change.

        Raises:
            TopicMissing, InvalidReplicas: as named.
            OrderConflict: the existing configuration cannot be read.
        """
        check_topic(self._context, topic)
        path = paths.topic_configuration(topic)
        node = await self._store.get(path)
        try:
            before = {} if node is None else decode_configuration(node)
            kept = {key: text for key, text in before.items() if key not in changes}
            after = kept | {key: text for key, text in changes.items() if text is not None}
            rules = self._rules().with_defaults(rules_of_configuration(path, after))
        except CorruptRecord as error:
            raise OrderConflict(f"{error}: change that too, or reset it") from None
        if MIN_ISR in changes:
            self._check_min_isr(topic, rules.min_isr)
        return _Altered(node, before, after, rules)

    def _check_min_isr(self, topic: str, min_isr: int) -> None:
        for number, assignment in self._context.topics[topic].partitions.items():
            fault = fault_of_min_isr(min_isr, assignment.target)
            if fault is not None:
                raise InvalidReplicas(f"{TopicPartition(topic, number)} {fault}")

    def _reply(self, topic: str, rules: TopicRules) -> dict[str, Any]:
        context = self._context
        states = [context.states.get(each) for each in context.partitions_of(topic)]
        few = sum(1 for state in states if state is not None and len(state.isr) < rules.min_isr)
        before = _row(context.rules_of(topic))
        return {"topic": topic, "before": before, "after": _row(rules), "under_min_isr": few}


def _row(rules: TopicRules) -> dict[str, Any]:
    return {"min_isr": rules.min_isr, "unclean": bool(rules.is_unclean_allowed)}


# Adoption on request of an operator: topics whose nodes lack an id though they had leaders.
#
# `TopicIds` assigns no id to such a topic, because brokers may hold its replicas under an id. The
# operator knows that id, or decides that no broker has one. Kafka's own layout has the states of
# partitions at other paths: they are taken over first, so that no replica out of sync is elected
# and leader epochs continue. The id is written last: until then brokers get no update of the
# topic, and an interrupted adoption starts again.


# Attempts to read nodes that change meanwhile.
_TRIES: Final = 10


class _TopicWithoutId(NamedTuple):
    """The nodes of a topic without an id."""

    topic: TopicAssignment
    led: dict[TopicPartition, Led]


class TopicAdoption:
    """Assigns ids for operators in one term; the written node comes back as a change."""

    def __init__(
        self, controller: ControllerContext, deletions: TopicDeletions, rng: random.Random
    ) -> None:
        self._store = controller.store
        self._context = controller.context
        self._state_changer = controller.state_changer
        self._deletions = deletions
        self._rng = rng

    async def judge(self, name: str, topic_id: str | None) -> Reply:
        """What `adopt` would do, and answer."""
        given = topic_id or new_topic_id(self._rng)
        return self._reply(name, given, await self._adoptable(name, await self._read(name), given))

    async def adopt(self, name: str, topic_id: str | None) -> Reply:
        """Give a topic the id that its node lacks; ``None``: a new one.

        ``{topic, topic_id, brokers, dead, partitions: [{topic, partition, replicas, state, leader,
        isr, leader_epoch}]}``: how it was led by the states of kafka, broker-ctl, or none.
        """
        given = topic_id or new_topic_id(self._rng)
        reply: Reply | None = None
        for _ in range(_TRIES):
            topic = await self._read(name)
            if reply is not None and topic.topic_id == given:
                return reply  # the write succeeded, and its reply was lost
            topic_nodes = await self._adoptable(name, topic, given)
            reply = self._reply(name, given, topic_nodes)
            try:
                await self._write(name, given, topic_nodes)
            except Ambiguous as error:
                log.info("topic %s has its id or not: %s; reading it again", name, error)
            except MultiFailed as error:
                if not isinstance(error.cause, BadVersion | NodeExists | NoNode):
                    raise
                log.info("topic %s has changed meanwhile: %s; reading it again", name, error)
            else:
                log.warning("topic %s had no topic_id, and is adopted under %s", name, given)
                return reply
        raise OrderConflict(f"{name}: its nodes have changed each time they were read: try again")

    # Reads.

    async def _read(self, name: str) -> TopicAssignment:
        """Read the topic's node.

        Raises:
            TopicMissing: it does not exist, or is being deleted.
            OrderConflict: its node cannot be decoded.
        """
        node = await self._store.get(paths.topic(name))
        if node is None:
            raise TopicMissing(f"there is no topic {name}")
        request = paths.deletion(name)
        if await self._store.get(request) is not None:
            raise TopicMissing(f"{name} is being deleted; without {request} it can be adopted")
        try:
            return decode_topic_in_any_form(node)
        except CorruptRecord as error:
            raise OrderConflict(f"{error}: mend it first") from None

    async def _adoptable(self, name: str, topic: TopicAssignment, given: str) -> _TopicWithoutId:
        """Read the nodes of a topic that may be adopted.

        Raises:
            OrderConflict: it may not be adopted.
        """
        known = self._context.topics.get(name)
        its_own = topic.topic_id or (known and known.topic_id)
        if its_own:
            raise OrderConflict(f"{name} has the topic_id {its_own} already")
        ids = {of.topic_id: each for each, of in self._context.topics.items()}
        ids |= {str(row["topic_id"]): str(row["topic"]) for row in self._deletions.rows()}
        if given in ids:
            raise OrderConflict(f"{given} is the topic_id of {ids[given]}")
        assignments = {
            TopicPartition(name, number): topic.partitions[number]
            for number in sorted(topic.partitions)
        }
        led = await read_led(self._store, assignments)
        for each in led.values():
            if each.fault:
                raise OrderConflict(each.fault)
        return _TopicWithoutId(topic, led)

    def _reply(self, name: str, given: str, topic_nodes: _TopicWithoutId) -> Reply:
        rows: list[dict[str, Any]] = []
        for each, (whose, state, *_) in topic_nodes.led.items():
            replicas = list(topic_nodes.topic.partitions[each.partition].replicas)
            row = {"topic": name, "partition": each.partition, "replicas": replicas, "state": whose}
            led = {"leader": NO_LEADER, "isr": [], "leader_epoch": -1}
            if state is not None:
                led = {"leader": state.leader, "isr": state.isr, "leader_epoch": state.leader_epoch}
            rows.append({**row, **led})
        brokers = {broker for row in rows for broker in row["replicas"]}
        return {
            "topic": name,
            "topic_id": given,
            "brokers": sorted(brokers),
            "dead": sorted(brokers - self._context.brokers.keys()),
            "partitions": rows,
        }

    # Writes.

    async def _write(self, name: str, given: str, topic_nodes: _TopicWithoutId) -> None:
        path, topic = paths.topic(name), topic_nodes.topic
        taken = [each for each, led in topic_nodes.led.items() if led.whose == KAFKAS]
        for batch in batched(taken, READS):
            operations: list[Operation] = [Check(path, topic.version)]
            for each in batch:
                operations += take_over_operations(each, topic_nodes.led[each], self._context.epoch)
            await self._state_changer.write(operations)
        data = encode_topic(TopicAssignment(given, topic.partitions))
        await self._state_changer.write([SetData(path, data, topic.version)])


# Topics that are created, grow, change their configuration, or vanish.
#
# Docs: kafka-design-v3, kafka-procedures.


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
