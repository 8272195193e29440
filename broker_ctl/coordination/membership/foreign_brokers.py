"""Who is there, where others run the brokers: read from Pulsar's registry, never written.

A broker's node there is replaced with each of its load reports. What is kept of it changes with
its life only, so that listeners hear of brokers that come and go, and of nothing else.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from broker_ctl.coordination.replicated.tree_cache import TreeCache
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.strategies.load_managers import MODULAR, SIMPLE
from broker_ctl.errors import CorruptRecord
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.foreign_brokers import BrokerRecord
from broker_ctl.store.records.service_units import ServiceUnit

log = logging.getLogger(__name__)

_REPORTING = frozenset({MODULAR.class_name, SIMPLE.class_name})
# First numbers of releases without a destination of an unload.
_WITHOUT_DESTINATION = frozenset({"1", "2"})


@dataclass(frozen=True, slots=True)
class ForeignBroker:
    """A live broker of somebody else's; czxid and session are those of its node.

    Attributes:
        manager: class name of its load manager.
        version: of Pulsar; empty where it is not told.
    """

    urls: BrokerUrls
    manager: str
    version: str
    czxid: int
    session_id: int

    @property
    def is_draining(self) -> bool:
        """No: a broker that goes takes its node away first."""
        return False


def _decode(node: Versioned) -> ForeignBroker:
    record = BrokerRecord.decode(node.path, node.data)
    return ForeignBroker(
        record.urls, record.manager, record.version, node.stat.czxid, node.stat.ephemeral_owner
    )


class ForeignBrokers:
    """Who is there. Lives as long as the store."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._tree = TreeCache(store, paths.LOAD_REPORTS, _decode)

    async def start(self) -> None:
        """Begin to follow the registry."""
        await self._tree.start()

    async def close(self) -> None:
        """Stop following."""
        await self._tree.close()

    @property
    def corrupt(self) -> int:
        """Nodes that did not decode."""
        return self._tree.corrupt

    @property
    def peers(self) -> dict[str, ForeignBroker]:
        """All live brokers by id."""
        return dict(self._tree.values)

    def peer(self, broker_id: str) -> ForeignBroker | None:
        """A live broker, by the newest that was read."""
        return self._tree.values.get(broker_id)

    @property
    def urls(self) -> dict[str, BrokerUrls]:
        """Where each live broker is reached, by id."""
        return {broker_id: broker.urls for broker_id, broker in self._tree.values.items()}

    async def planning_obstacle(self) -> str | None:
        """Why no balance can be planned for these brokers; None: it can.

        Raises:
            StoreError: the store does not answer.
        """
        silent = {
            broker_id: broker.manager.rpartition(".")[2]
            for broker_id, broker in self._tree.values.items()
            if broker.manager not in _REPORTING
        }
        if not silent:
            return None
        owned = await count_bundles_by_owner(self._store)
        counts = ", ".join(f"{count} by {owner}" for owner, count in sorted(owned.items()))
        return (
            f"{', '.join(sorted(silent))}: {' and '.join(sorted(set(silent.values())))} tells its "
            "load in topics of pulsar/system and not in the metadata store, so nothing can be "
            f"planned (bundles owned: {counts or 'not told there either'}). "
            f"Set loadManagerClassName={MODULAR.class_name} in broker.conf and restart all "
            "brokers, or leave the balance to the cluster"
        )

    def destination_obstacle(self) -> str:
        """Why these brokers would not heed where a bundle is to go; empty: they would.

        An unload with a destination is known since 3.0; before, it went wherever it was looked up.
        """
        old = {
            f"{broker_id} ({broker.version})"
            for broker_id, broker in self._tree.values.items()
            if broker.version.partition(".")[0] in _WITHOUT_DESTINATION
        }
        if not old:
            return ""
        return (
            f"Pulsar before 3.0 heeds no destination, what is unloaded goes anywhere: "
            f"{', '.join(sorted(old))}; upgrade the brokers, or only look on (pulsarAct=false)"
        )

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Hear that the set has changed."""
        return self._tree.listen(listener)

    async def wait_synced(self) -> None:
        """Return once the registry has been read."""
        await self._tree.wait_synced()


async def count_bundles_by_owner(store: MetadataStore) -> Mapping[str, int]:
    """How many bundles each broker owns; empty where owners are kept in a topic.

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
        # Both nodes of a broker come in one transaction and go with one session, so they are
        # read together: one list after the other would accuse whoever comes or goes between.
        report, registration = await store.get_many(
            [paths.load_report(name), paths.registration(name)]
        )
        if report is not None and registration is None:
            foreign.append(name)
    return foreign
