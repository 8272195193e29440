"""Resource quotas of bundles, written by operators or by leaders with the Simple manager.

Docs: pulsar-load-data. Only requested quotas are read, and only of namespaces that have any: most
clusters have none, and a namespace may have thousands of bundles.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load import ResourceQuota
from broker_ctl.errors import CorruptRecord
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.path_rules import parent_of
from broker_ctl.store.records.simple import decode_quota

log = logging.getLogger(__name__)

_BATCH: Final = 1000


async def read_quotas(
    store: MetadataStore, bundles: Iterable[Bundle]
) -> Mapping[Bundle, ResourceQuota]:
    """Read the quotas of those bundles that have one; Pulsar 2.9 wrote them a level deeper.

    Raises:
        StoreError: they could not be read.
    """
    wanted = list(bundles)
    present = await _present(store, {parent for bundle in wanted for parent in _parents(bundle)})
    asked = [(b, path) for b in wanted if (path := _path_of(b, present)) is not None]
    quotas: dict[Bundle, ResourceQuota] = {}
    for start in range(0, len(asked), _BATCH):
        some = asked[start : start + _BATCH]
        nodes = await store.get_many([path for _, path in some])
        for (bundle, _), node in zip(some, nodes, strict=True):
            if (quota := _decoded(node)) is not None:
                quotas[bundle] = quota
    return quotas


async def read_default_quota(store: MetadataStore) -> ResourceQuota | None:
    """Read the default quota; None if it was not written.

    Raises:
        StoreError: it could not be read.
    """
    return _decoded(await store.get(paths.DEFAULT_RESOURCE_QUOTA))


def _parents(bundle: Bundle) -> tuple[str, str]:
    return parent_of(paths.resource_quota(bundle)), parent_of(paths.old_resource_quota(bundle))


def _path_of(bundle: Bundle, present: frozenset[str]) -> str | None:
    both = (paths.resource_quota(bundle), paths.old_resource_quota(bundle))
    return next((path for path in both if path in present), None)


async def _present(store: MetadataStore, parents: set[str]) -> frozenset[str]:
    """Find the quotas below these parents; tenants without quotas are not searched."""
    tenants = {
        f"{root}/{name}"
        for root in (paths.RESOURCE_QUOTAS, paths.OLD_RESOURCE_QUOTAS)
        for name in await store.children(root)
    }
    found: set[str] = set()
    for parent in sorted(parents):
        if parent_of(parent) in tenants:
            found.update(f"{parent}/{name}" for name in await store.children(parent))
    return frozenset(found)


def _decoded(node: Versioned | None) -> ResourceQuota | None:
    # Pulsar creates parents without data.
    if node is None or not node.data:
        return None
    try:
        return decode_quota(node.path, node.data)
    except CorruptRecord as error:
        log.warning("skipped a quota: %s", error)
        return None
