"""The partitioned topics of the cluster, as its leader reads them (docs: pulsar-binary-lookup).

The nodes say how many partitions each topic has, and names say in which bundle each partition is:
no report of a broker is needed. Until the nodes have been read for the first time the partitions of
topics do not count in placement: to serve a bundle is worth more.
"""

import random
from collections.abc import Callable
from dataclasses import replace

from broker_ctl.coordination.replicated.node_cache import NodeCache
from broker_ctl.coordination.worker_thread import WorkerThread
from broker_ctl.core.model.constraints import NO_CONSTRAINTS, Constraints
from broker_ctl.core.model.names import Topic
from broker_ctl.core.model.topic_partitions import NO_TOPIC_PARTITIONS, TopicPartitions
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.partitioned_topics import PartitionedTopic

# Levels below the root: tenant, namespace, domain, topic.
_DEPTH = 4
# None: a node of a V1 name, which is not a topic.
_Row = tuple[Topic, int] | None


def _decode(node: Versioned) -> _Row:
    topic = paths.partitioned_topic_of(node.path)
    if topic is None:
        return None
    return topic, PartitionedTopic.decode(node.path, node.data).partitions


class TopicPartitionsCache:
    """Completes the constraints on placement during one term.

    Attributes:
        is_changed: whether something was read since the last refresh.

    Args:
        constraints: those without topics; a new object after each change.
    """

    def __init__(
        self,
        store: MetadataStore,
        constraints: Callable[[], Constraints],
        planner: WorkerThread,
        *,
        rng: random.Random,
    ) -> None:
        self._tree: NodeCache[_Row] = NodeCache(
            store, paths.PARTITIONED_TOPICS, _decode, _DEPTH, rng=rng
        )
        self._constraints = constraints
        self._planner = planner
        self._stop_listening: Callable[[], None] | None = None
        self.is_changed = False
        self._topics: TopicPartitions = NO_TOPIC_PARTITIONS
        self._seen = self._completed = NO_CONSTRAINTS

    async def start(self) -> None:
        """Start reading; does not wait for the result."""
        self._stop_listening = self._tree.listen(self._changed)
        await self._tree.start()

    async def close(self) -> None:
        """Stop the watch."""
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        await self._tree.close()

    def _changed(self) -> None:
        self.is_changed = True

    def constraints(self) -> Constraints:
        """The constraints with the topics of the last refresh; a new object after each change."""
        found = self._constraints()
        if found is not self._seen or self._completed.topics is not self._topics:
            self._seen = found
            self._completed = replace(found, topics=self._topics) if self._topics else found
        return self._completed

    async def refresh(self) -> None:
        """Take in what has been read since; in a thread, since there may be many topics."""
        if self.is_changed:
            self.is_changed = False
            rows = [row for row in self._tree.values.values() if row is not None]
            self._topics = await self._planner.run(self._topics.replaced, rows)
