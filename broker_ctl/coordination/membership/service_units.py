"""Who owns what under the extensible manager, where it keeps that in the metadata store."""

import logging
from collections import Counter
from collections.abc import Mapping

from broker_ctl.errors import CorruptRecord
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.service_units import ServiceUnit

log = logging.getLogger(__name__)


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
