"""Partitioned topics: the number of partitions of each (docs: pulsar-binary-lookup).

A partition is a topic of its own, ``NAME-partition-0`` and so on, with its own bundle and owner.
For the partitioned topic only the number of partitions is stored. It is in the configuration store
beside the policies, where Pulsar reads it; one number holds for all clusters of an instance.

This module neither creates the topics of the partitions nor opens or closes them: the broker
process does both.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.namespaces.policy_store import UPDATE_RULES, PolicyStore
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.errors import (
    InvalidName,
    InvalidPolicy,
    NodeExists,
    NoNode,
    PolicyConflict,
    TopicMissing,
)
from broker_ctl.store import paths
from broker_ctl.store.cached_values import LastRead, Updates, ValueCache
from broker_ctl.store.interface import Versioned
from broker_ctl.store.records.policies import PartitionedTopic
from broker_ctl.store.watched_cache import CacheRules

log = logging.getLogger(__name__)

# Pulsar has no limit; but each client opens and looks up every partition.
MAX_PARTITIONS: Final = 65_536
# Reserved for names of partitions (Pulsar refuses it too).
_PARTITION_MARK: Final = "-partition-"
# Other fields of the record that clients know.
_CLIENT_FIELDS: Final = ("deleted", "properties")
_NOT_PARTITIONED: Final = PartitionedTopic(0)


def _decode(node: Versioned) -> PartitionedTopic:
    return PartitionedTopic.decode(node.path, node.data)


class PartitionedTopics:
    """Partitioned topics of all namespaces.

    Args:
        policy_store: the configuration store with its read-only flag.
        namespaces: the existing namespaces.
        cache_rules: for the cache of records that clients ask for.
        most_partitions: returns ``maxNumPartitionsPerPartitionedTopic``; 0: `MAX_PARTITIONS`.
    """

    def __init__(
        self,
        policy_store: PolicyStore,
        namespaces: Namespaces,
        cache_rules: CacheRules,
        most_partitions: Callable[[], int] = lambda: 0,
    ) -> None:
        self._store = policy_store.store
        self._flag = policy_store.flag
        self._namespaces = namespaces
        self._most_partitions = most_partitions
        self.cache = ValueCache(
            policy_store.store,
            (paths.PARTITIONED_TOPICS,),
            _decode,
            policy_store.clock,
            cache_rules,
            rng=policy_store.rng,
        )
        self._last_read = LastRead(self.cache, policy_store.store, cache_rules.most_entries)
        self._updates = Updates(
            policy_store.store,
            self.cache,
            PartitionedTopic.encode,
            clock=policy_store.clock,
            rng=policy_store.rng,
            rules=UPDATE_RULES,
        )

    async def start(self) -> None:
        """Start the cache and its watch."""
        await self._last_read.start()

    async def close(self) -> None:
        """Stop the cache and its watch."""
        await self._last_read.close()

    async def partitions_of(self, topic: Topic) -> int:
        """Number of partitions of a topic; 0 if it is not partitioned, or does not exist.

        Raises:
            InvalidName: it cannot be the name of a partitioned topic.
            NamespaceMissing: there is no such namespace.
            CorruptRecord: the record does not decode.
        """
        return (await self._find(topic)).partitions

    async def metadata(self, topic: Topic) -> Mapping[str, Any]:
        """The fields of the topic's metadata, by Pulsar's names; raises as `partitions_of`."""
        found = await self._find(topic)
        more = {name: found.others[name] for name in _CLIENT_FIELDS if name in found.others}
        return {"partitions": found.partitions, "deleted": False, **more}

    async def _find(self, topic: Topic) -> PartitionedTopic:
        found = await self._last_read.get(paths.partitioned_topic(topic))
        if found is None:
            # Whether its namespace is still there cannot be asked while the store is away.
            if not self._last_read.is_away:
                await self._require_namespace(topic.namespace)
            return _NOT_PARTITIONED
        return found

    async def of_namespace(self, namespace: Namespace, domain: str) -> list[Topic]:
        """A namespace's partitioned topics of one domain, by name.

        Raises:
            NamespaceMissing: there is no such namespace.
        """
        await self._require_namespace(namespace)
        root = paths.partitioned_topics(namespace, domain)
        names = await self._store.children(root)
        found = (paths.partitioned_topic_of(f"{root}/{name}") for name in names)
        return sorted(topic for topic in found if topic is not None)

    async def create(
        self,
        topic: Topic,
        partitions: int,
        properties: Mapping[str, str] | None = None,
        *,
        is_dry_run: bool = False,
    ) -> None:
        """Create a partitioned topic; a dry run only checks that this is possible.

        ``properties`` are stored for the client, unchanged.

        Raises:
            InvalidName: it is the name of a partition, or cannot be stored.
            InvalidPolicy: too few or too many partitions.
            NamespaceMissing: there is no such namespace.
            PolicyConflict: the topic is partitioned already.
            PoliciesReadOnly: policies are read-only.
        """
        _require_whole(topic)
        path = paths.partitioned_topic(topic)
        self._require_number(partitions)
        await self._flag.require_writable()
        await self._require_namespace(topic.namespace)
        if is_dry_run:
            if await self._store.exists(path) is not None:
                raise PolicyConflict(f"partitioned topic {topic} exists already")
            return
        others = {"properties": dict(properties)} if properties else {}
        with self.cache.writing(path):
            try:
                data = PartitionedTopic(partitions, others).encode()
                await self._store.create(path, data, make_parents=True)
            except NodeExists as error:
                raise PolicyConflict(f"partitioned topic {topic} exists already") from error
        log.info("%s was created with %d partitions", topic, partitions)

    async def update(self, topic: Topic, partitions: int, *, is_dry_run: bool = False) -> None:
        """Increase the number of partitions; the same number changes nothing.

        A dry run only checks that this is possible.

        Raises:
            InvalidName: it cannot be the name of a partitioned topic.
            InvalidPolicy: fewer than it has, or too many.
            NamespaceMissing, TopicMissing: there is no such namespace, or partitioned topic.
            PoliciesReadOnly: policies are read-only.
        """
        path = paths.partitioned_topic(topic)
        self._require_number(partitions)
        await self._flag.require_writable()

        def change(found: PartitionedTopic) -> PartitionedTopic:
            if partitions < found.partitions:
                raise InvalidPolicy(
                    f"{topic} has {found.partitions} partitions; their number can only grow, "
                    f"not shrink to {partitions}",
                )
            return replace(found, partitions=partitions)

        if is_dry_run:
            if (found := await self.cache.get(path)) is None:
                raise await self._missing(topic)
            change(found)
            return
        try:
            await self._updates.read_modify_update(path, change)
        except NoNode as error:
            raise await self._missing(topic) from error
        log.info("%s has %d partitions now", topic, partitions)

    async def delete(self, topic: Topic, *, is_dry_run: bool = False) -> None:
        """Delete the number of partitions; loaded partitions stay loaded. A dry run only checks.

        Raises:
            InvalidName: it cannot be the name of a partitioned topic.
            NamespaceMissing, TopicMissing: there is no such namespace, or partitioned topic.
            PoliciesReadOnly: policies are read-only.
        """
        path = paths.partitioned_topic(topic)
        await self._flag.require_writable()
        if is_dry_run:
            if await self._store.exists(path) is None:
                raise await self._missing(topic)
            return
        with self.cache.writing(path):
            try:
                await self._store.delete(path)
            except NoNode as error:
                raise await self._missing(topic) from error
        log.info("partitioned topic %s was deleted", topic)

    def _require_number(self, partitions: int) -> None:
        most = min(self._most_partitions() or MAX_PARTITIONS, MAX_PARTITIONS)
        if not 1 <= partitions <= most:
            raise InvalidPolicy(
                f"{partitions} partitions: a topic has 1 to {most} of them",
            )

    async def _require_namespace(self, namespace: Namespace) -> None:
        await self._namespaces.ring(namespace)

    async def _missing(self, topic: Topic) -> TopicMissing:
        await self._require_namespace(topic.namespace)
        return TopicMissing(f"there is no partitioned topic {topic}")


def _require_whole(topic: Topic) -> None:
    if _PARTITION_MARK in topic.local:
        raise InvalidName(
            f"{topic}: {_PARTITION_MARK} in a name is kept for the partitions of a topic",
        )
