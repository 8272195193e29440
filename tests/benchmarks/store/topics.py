"""Topics in the metadata store, and what a broker reads and writes to load one.

Eight operations, one after the other, as a Pulsar broker makes them (docs: measured-metadata-store)
on the kinds of paths that it has (1.4): the policies and local policies of the namespace, the
number of partitions, the managed ledger, its cursors, the cursor of the subscription; then the
ledger gets a new segment, if nobody else has changed it since, and a cursor for deduplication.
"""

import random
from collections.abc import Iterator
from typing import Any, Final, Protocol

from broker_ctl.codec import decode_object, encode
from broker_ctl.store import paths
from broker_ctl.store.interface import ANY_VERSION, Stat, Versioned
from tests.benchmarks.store.waits import Waits

_TENANT: Final = "storm"
_TOPICS_PER_NAMESPACE: Final = 100
_MEDIAN_BYTES: Final = 2_000
# Of the logarithm: the mean is 3.3 kB, one in a thousand is cut to the cap.
_SPREAD: Final = 1.0
_CAP_BYTES: Final = 50_000
_MOST_BYTES: Final = 100_000_000
_SEGMENT: Final = {
    "ledgerId": 4_815_162_342,
    "entries": 50_000,
    "size": 67_108_864,
    "timestamp": 1_760_000_000_000,
}
_LEDGERS: Final = "/managed-ledgers"
_SUBSCRIPTION: Final = "subscription"
_POLICIES: Final = {
    "auth_policies": {"namespaceAuth": {"service": ["produce", "consume"]}},
    "replication_clusters": ["standalone"],
    "retention_policies": {"retentionTimeInMinutes": 4320, "retentionSizeInMB": 10240},
    "message_ttl_in_seconds": 86_400,
    "schema_compatibility_strategy": "FULL",
}
_LOCAL_POLICIES: Final = {
    "bundles": {"boundaries": [f"0x{edge:08x}" for edge in range(0, 1 << 32, 1 << 28)]}
}
_CURSOR: Final = {
    "cursorsLedgerId": -1,
    "markDeleteLedgerId": 4_815_162_342,
    "markDeleteEntryId": 1234,
    "individualDeletedMessages": [],
}


class Store(Protocol):
    """What loading a topic needs."""

    async def get(self, path: str) -> Versioned | None: ...

    async def children(self, path: str) -> list[str]: ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat: ...

    async def create(self, path: str, data: bytes = b"") -> Versioned: ...


def _namespace(topic: int) -> str:
    return f"{_TENANT}/ns-{topic // _TOPICS_PER_NAMESPACE:04d}"


def _partitions(topic: int) -> str:
    return f"{paths.PARTITIONED_TOPICS}/{_namespace(topic)}/persistent/topic-{topic:06d}"


def _ledger(topic: int) -> str:
    return f"{_LEDGERS}/{_namespace(topic)}/persistent/topic-{topic:06d}"


def _deduplication(topic: int) -> str:
    return f"{_ledger(topic)}/pulsar.dedup"


class Topics:
    """``count`` topics, the same whenever they are asked for."""

    def __init__(self, count: int) -> None:
        self.count = count

    @property
    def tops(self) -> list[str]:
        """Nodes that must exist before anything else: laid first, in this order."""
        roots = (paths.POLICIES, paths.LOCAL_POLICIES, paths.PARTITIONED_TOPICS, _LEDGERS)
        found = ["/admin", *roots, *(f"{root}/{_TENANT}" for root in roots)]
        for first in range(0, self.count, _TOPICS_PER_NAMESPACE):
            for root in (paths.PARTITIONED_TOPICS, _LEDGERS):
                found += [
                    f"{root}/{_namespace(first)}",
                    f"{root}/{_namespace(first)}/persistent",
                ]
        return found

    def nodes(self) -> Iterator[tuple[str, bytes]]:
        """All that belongs to namespaces and topics; parents first, by more than a batch.

        Raises:
            RuntimeError: the payloads come to more than they may.
        """
        policies, local_policies = encode(_POLICIES), encode(_LOCAL_POLICIES)
        for first in range(0, self.count, _TOPICS_PER_NAMESPACE):
            yield f"{paths.POLICIES}/{_namespace(first)}", policies
            yield f"{paths.LOCAL_POLICIES}/{_namespace(first)}", local_policies
        rng, size_bytes = random.Random(453), 0
        for topic in range(self.count):
            yield _partitions(topic), encode({"partitions": 4})
            data = encode(_managed_ledger(rng))
            size_bytes += len(data)
            yield _ledger(topic), data
        if size_bytes > _MOST_BYTES:
            raise RuntimeError(f"{size_bytes} bytes of payload")

    def cursors(self) -> Iterator[tuple[str, bytes]]:
        """The cursor of each topic's subscription."""
        data = encode(_CURSOR)
        for topic in range(self.count):
            yield f"{_ledger(topic)}/{_SUBSCRIPTION}", data

    def made_by_loading(self) -> Iterator[str]:
        """What a load leaves behind, to be removed before the next broker dies."""
        return (_deduplication(topic) for topic in range(self.count))

    def all_paths(self) -> list[str]:
        """All nodes but those of `tops`, children first."""
        cursors = [path for path, _ in self.cursors()]
        return cursors + [path for path, _ in self.nodes()]


def _managed_ledger(rng: random.Random) -> dict[str, Any]:
    size_bytes = min(rng.lognormvariate(0, _SPREAD) * _MEDIAN_BYTES, _CAP_BYTES)
    segments = max(1, round(size_bytes / (len(encode(_SEGMENT)) + 1)))
    return {"ledgers": [_SEGMENT] * segments}


class Loader:
    """A broker that loads topics. Each payload is decoded, and what came back is looked at."""

    def __init__(self, store: Store, waits: Waits) -> None:
        self._store = store
        self._waits = waits

    async def load(self, topic: int) -> None:
        """The operations of one topic, one after the other."""
        namespace, ledger = _namespace(topic), _ledger(topic)
        await self._object(f"{paths.POLICIES}/{namespace}")
        await self._object(f"{paths.LOCAL_POLICIES}/{namespace}")
        _, partitions = await self._object(_partitions(topic))
        version, segments = await self._object(ledger)
        self._waits.asked(ledger)
        cursors = await self._store.children(ledger)
        if partitions != {"partitions": 4} or cursors != [_SUBSCRIPTION]:
            raise RuntimeError(f"topic {topic}: {partitions}, {cursors}")
        _, cursor = await self._object(f"{ledger}/{_SUBSCRIPTION}")
        # The oldest segment goes for the new one, so that the sizes stay.
        segments["ledgers"] = [*segments["ledgers"][1:], _SEGMENT]
        self._waits.asked(ledger)
        stat = await self._store.set(ledger, encode(segments), version)
        self._waits.asked(_deduplication(topic))
        created = await self._store.create(_deduplication(topic), encode(cursor))
        if stat.version != version + 1 or created.path != _deduplication(topic):
            raise RuntimeError(f"topic {topic}: {stat}, {created}")

    async def _object(self, path: str) -> tuple[int, dict[str, Any]]:
        self._waits.asked(path)
        node = await self._store.get(path)
        if node is None:
            raise RuntimeError(f"{path} is gone")
        return node.stat.version, decode_object(node.data)
