"""Adoption on request of an operator: topics whose nodes lack an id though they had leaders.

`TopicIds` assigns no id to such a topic, because brokers may hold its replicas under an id. The
operator knows that id, or decides that no broker has one. Kafka's own layout has the states of
partitions at other paths: they are taken over first, so that no replica out of sync is elected and
leader epochs continue. The id is written last: until then brokers get no update of the topic, and
an interrupted adoption starts again.
"""

import logging
import random
from typing import Any, Final, NamedTuple

from broker_ctl.controller.procedures.procedure import ControllerContext
from broker_ctl.controller.procedures.topic_deletion import TopicDeletions
from broker_ctl.controller.store.kafka_states import (
    KAFKAS,
    Led,
    read_led,
    take_over_operations,
)
from broker_ctl.controller.store.pipelining import READS
from broker_ctl.controller.store.topic_ids import new_topic_id
from broker_ctl.core.model.batches import batched
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import (
    NO_LEADER,
    TopicAssignment,
)
from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    CorruptRecord,
    MultiFailed,
    NodeExists,
    NoNode,
    OrderConflict,
    TopicMissing,
)
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import Check, Operation, SetData
from broker_ctl.store.records.partitions import (
    decode_topic_in_any_form,
    encode_topic,
)

log = logging.getLogger(__name__)

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
        node = await self._store.get(partition_paths.topic(name))
        if node is None:
            raise TopicMissing(f"there is no topic {name}")
        request = partition_paths.deletion(name)
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
        path, topic = partition_paths.topic(name), topic_nodes.topic
        taken = [each for each, led in topic_nodes.led.items() if led.whose == KAFKAS]
        for batch in batched(taken, READS):
            operations: list[Operation] = [Check(path, topic.version)]
            for each in batch:
                operations += take_over_operations(each, topic_nodes.led[each], self._context.epoch)
            await self._state_changer.write(operations)
        data = encode_topic(TopicAssignment(given, topic.partitions))
        await self._state_changer.write([SetData(path, data, topic.version)])
