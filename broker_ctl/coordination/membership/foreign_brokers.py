"""Live brokers that are not broker-ctl processes: read from Pulsar's registry, never written.

Each load report replaces a broker's node there. Only the values that stay the same during a
broker's life are cached, so that listeners are notified of joins and departures only.
"""

import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from broker_ctl.coordination.children_cache import PathChildrenCache
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.errors import CorruptRecord
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.ownership import BrokerRecord, ServiceUnit

log = logging.getLogger(__name__)

# The first releases of Pulsar that honour the destination of an unload.
_WITHOUT_DESTINATION = frozenset({"1", "2"})


@dataclass(frozen=True, slots=True)
class ForeignBroker:
    """A live foreign broker; czxid and session are those of its node.

    Attributes:
        manager: class name of its load manager.
        version: of Pulsar; empty if the broker does not report it.
        has_load: whether its node is a load report.
    """

    urls: BrokerUrls
    manager: str
    version: str
    has_load: bool
    czxid: int
    session_id: int

    @property
    def run(self) -> str:
        """Identity of this run of the process, as far as its node shows it: its session."""
        return f"{self.session_id:#x}"

    @property
    def is_draining(self) -> bool:
        """False: a broker deletes its node before it shuts down."""
        return False


def _decode(node: Versioned) -> ForeignBroker:
    record = BrokerRecord.decode(node.path, node.data)
    return ForeignBroker(
        record.urls,
        record.manager,
        record.version,
        record.has_load,
        node.stat.czxid,
        node.stat.ephemeral_owner,
    )


class ForeignBrokers:
    """The live foreign brokers. Lives as long as the store."""

    def __init__(self, store: MetadataStore, *, rng: random.Random) -> None:
        self._store = store
        self._tree = PathChildrenCache(store, paths.LOAD_REPORTS, _decode, rng=rng)

    async def start(self) -> None:
        """Start the cache and its watch."""
        await self._tree.start()

    async def close(self) -> None:
        """Stop the cache and its watch."""
        await self._tree.close()

    @property
    def corrupt(self) -> int:
        """Number of nodes that did not decode."""
        return self._tree.corrupt

    @property
    def peers(self) -> dict[str, ForeignBroker]:
        """Live brokers by id."""
        return dict(self._tree.values)

    def peer(self, broker_id: str) -> ForeignBroker | None:
        """A live broker by the newest read; None if it is not alive."""
        return self._tree.values.get(broker_id)

    @property
    def urls(self) -> dict[str, BrokerUrls]:
        """Addresses of the live brokers, by id."""
        return {broker_id: broker.urls for broker_id, broker in self._tree.values.items()}

    async def planning_obstacle(self) -> str | None:
        """Why no plan is possible for these brokers; None if it is.

        Raises:
            StoreError: the store does not answer.
        """
        silent = {
            broker_id: broker.manager.rpartition(".")[2]
            for broker_id, broker in self._tree.values.items()
            if not broker.has_load
        }
        if not silent:
            return None
        owned = await count_bundles_by_owner(self._store)
        counts = ", ".join(f"{count} by {owner}" for owner, count in sorted(owned.items()))
        return (
            f"{', '.join(sorted(silent))}: {' and '.join(sorted(set(silent.values())))} reports "
            "load in topics of pulsar/system and not in the metadata store, so no plan is possible "
            f"(bundles owned: {counts or 'not in the metadata store either'}). "
            "Read the cluster by its admin API alone: --source admin, or pulsarStateUrl"
        )

    def destination_obstacle(self) -> str:
        """Why these brokers would ignore the destination of an unload; empty if they honour it.

        Pulsar honours destinations since 3.0; before, the next lookup placed the bundle.
        """
        old = {
            f"{broker_id} ({broker.version})"
            for broker_id, broker in self._tree.values.items()
            if broker.version.partition(".")[0] in _WITHOUT_DESTINATION
        }
        if not old:
            return ""
        return (
            f"Pulsar before 3.0 ignores the destination of an unload: "
            f"{', '.join(sorted(old))}; upgrade the brokers, or only observe (pulsarAct=false)"
        )

    @property
    def version(self) -> int:
        """Grows with each change of the set."""
        return self._tree.version

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` when the set has changed; returns a function that stops it."""
        return self._tree.listen(listener)

    async def wait_synced(self) -> None:
        """Return once the registry has been read."""
        await self._tree.wait_synced()


async def count_bundles_by_owner(store: MetadataStore) -> Mapping[str, int]:
    """Number of bundles of each owner; empty if owners are kept in a topic.

    Raises:
        StoreError: the store does not answer.
    """
    owned: Counter[str] = Counter()
    for tenant in await store.children(paths.SERVICE_UNITS):
        for name in await store.children(f"{paths.SERVICE_UNITS}/{tenant}"):
            namespace = f"{paths.SERVICE_UNITS}/{tenant}/{name}"
            ranges = await store.children(namespace)
            nodes = await store.get_many([f"{namespace}/{range_}" for range_ in ranges])
            owned.update(owner for node in nodes if node and (owner := _owner(node)))
    return owned


def _owner(node: Versioned) -> str | None:
    try:
        return ServiceUnit.decode(node.path, node.data).owner
    except CorruptRecord as error:
        log.warning("skipped %s", error)
        return None


async def find_foreign_brokers(store: MetadataStore) -> list[str]:
    """Brokers in Pulsar's registry that are not broker-ctl processes (docs: mixed-cluster)."""
    foreign = []
    for name in await store.children(paths.LOAD_REPORTS):
        # Both nodes of a broker are created in one transaction and deleted with one session, so
        # they are read together: two lists could mistake a joining or leaving broker for a foreign
        # one.
        report, registration = await store.get_many(
            [paths.load_report(name), paths.registration(name)]
        )
        if report is not None and registration is None:
            foreign.append(name)
    return foreign


async def confirm_foreign_brokers(store: MetadataStore) -> list[str]:
    """Foreign brokers that two looks have found.

    Reads of one batch are not a transaction: a broker whose session ends between them has a load
    report and no registration in the first look, and neither in the second.
    """
    first = await find_foreign_brokers(store)
    if not first:
        return []
    second = await find_foreign_brokers(store)
    return [name for name in first if name in second]
