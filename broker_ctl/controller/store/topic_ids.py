"""Ids for topics whose nodes have none: those of Kafka before 2.8, and nodes written by hand.

Like Kafka's controller (KIP-516), this one assigns an id when it first reads the topic, but only if
the topic's node has no children. Brokers hold the replicas of a topic that had leaders under its
former id; under another one they would take them for strays and delete them. An operator has to
restore that id in the node, or adopt the topic (`TopicAdoption`).
"""

import logging
import random
from base64 import urlsafe_b64encode
from typing import Final

from broker_ctl.controller.store.fenced_writer import FencedWrites
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.values import TopicAssignment
from broker_ctl.errors import Ambiguous, CorruptRecord, MultiFailed
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import Check, MetadataStore, Operation, SetData
from broker_ctl.store.records.partitions import decode_topic_in_any_form, encode_topic

log = logging.getLogger(__name__)

_BITS: Final = 128
# Attempts to read a node that changes meanwhile.
_TRIES: Final = 10


def new_topic_id(rng: random.Random) -> str:
    """Draw an id that no other topic has, in Kafka's form: base64, without its padding.

    As in Kafka, none begins with a dash, which a command would take for an option. Earlier releases
    wrote 32 hexadecimal digits, which are read as they are.
    """
    while True:
        drawn = rng.getrandbits(_BITS).to_bytes(_BITS // 8)
        text = urlsafe_b64encode(drawn).rstrip(b"=").decode("ascii")
        if not text.startswith("-"):
            return text


class TopicIds:
    """Assigns ids in one term."""

    def __init__(
        self, store: MetadataStore, context: Context, writes: FencedWrites, rng: random.Random
    ) -> None:
        self._store = store
        self._context = context
        self._writes = writes
        self._rng = rng

    async def assign(self, name: str, topic: TopicAssignment) -> TopicAssignment | None:
        """Write an id into a topic's node; returns the new node, None if it is gone.

        Raises:
            CorruptRecord: its earlier id is unknown, or the node was damaged meanwhile.
        """
        path = partition_paths.topic(name)
        for _ in range(_TRIES):
            if topic.topic_id:
                return topic
            with_id, check = await self._with_id(name, topic)
            try:
                await self._writes.write(
                    [SetData(path, encode_topic(with_id), topic.version), *check]
                )
            except (MultiFailed, Ambiguous) as error:
                log.info("cannot write an id for topic %s: %s; reading it again", name, error)
            else:
                log.warning("topic %s had no topic_id, and has %s now", name, with_id.topic_id)
                return with_id
            node = await self._store.get(path)
            if node is None:
                return None
            topic = decode_topic_in_any_form(node)
        raise CorruptRecord(f"{path}: no topic_id, and none can be written")

    async def _with_id(
        self, name: str, topic: TopicAssignment
    ) -> tuple[TopicAssignment, list[Operation]]:
        """Build the node to write, and the checks of the transaction."""
        path, version = partition_paths.topic(name), topic.version + 1
        below = await self._store.children(path)
        if not below:
            return TopicAssignment(new_topic_id(self._rng), topic.partitions, version), []
        known = self._context.topics.get(name)
        if known is None:
            raise CorruptRecord(
                f"{path}: no topic_id, though its partitions have been led: `broker-ctl partitions "
                f"adopt {name}` gives it one"
            )
        return (
            TopicAssignment(known.topic_id, topic.partitions, version),
            [Check(f"{path}/{below[0]}")],
        )
