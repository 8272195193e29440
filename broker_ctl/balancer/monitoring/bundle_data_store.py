"""Averages and quotas that one leader leaves to the next (docs: pulsar-load-data)."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.balancer.monitoring.load_monitor import LoadMonitor
from broker_ctl.coordination.election import Leadership
from broker_ctl.core.model.counting import batched
from broker_ctl.core.model.load import BundleLoad, ResourceQuota
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.errors import (
    CorruptRecord,
    Fenced,
    InvalidName,
    MultiFailed,
    NodeExists,
    NoNode,
    StoreError,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import (
    Create,
    Delete,
    MetadataStore,
    Operation,
    RequestClass,
    SetData,
    Versioned,
    requests_as,
)
from broker_ctl.store.path_rules import parent_of
from broker_ctl.store.records.load import BundleData, TimeAverageBrokerData
from broker_ctl.store.records.simple import decode_quota, encode_quota

log = logging.getLogger(__name__)

# Resource quotas of bundles, written by operators or by leaders with the Simple manager.
#
# Docs: pulsar-load-data. Only requested quotas are read, and only of namespaces that have any:
# most clusters have none, and a namespace may have thousands of bundles.


_RESOURCE_QUOTAS_BATCH: Final = 1000


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
    for start in range(0, len(asked), _RESOURCE_QUOTAS_BATCH):
        some = asked[start : start + _RESOURCE_QUOTAS_BATCH]
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


# Averages in the store, which one leader leaves to the next (docs: pulsar-load-data).
#
# Nodes and fields are Pulsar's. Only changes are written, in batches guarded by the leader's
# epoch. A new bundle is written in the next round, so that a new leader knows which bundles have
# traffic even if this term ends soon.
#
# Bundles without stored averages may have a resource quota, which is read here. Quotas are also
# written if the Simple manager's rules are in use.


_TURN_S: Final = 10.0
_BATCH: Final = 64
_AT_ONCE: Final = 1000
_NAMESPACES: Final = 4


async def read_bundle_data(store: MetadataStore) -> Mapping[Bundle, BundleLoad]:
    """Read the averages of an earlier leader; nodes that do not decode are skipped."""
    bundles: list[Bundle] = []
    for tenant in await store.children(paths.BUNDLE_DATA):
        for name in await store.children(f"{paths.BUNDLE_DATA}/{tenant}"):
            for part in await store.children(f"{paths.BUNDLE_DATA}/{tenant}/{name}"):
                try:
                    bundles.append(Bundle.parse(f"{tenant}/{name}/{part}"))
                except InvalidName as error:
                    log.warning("skipped averages: %s", error)
    nodes = await store.get_many([paths.bundle_data(bundle) for bundle in bundles])
    loads: dict[Bundle, BundleLoad] = {}
    for bundle, node in zip(bundles, nodes, strict=True):
        if node is None:
            continue
        try:
            loads[bundle] = BundleData.decode(node.path, node.data).load
        except CorruptRecord as error:
            log.warning("skipped averages: %s", error)
    return loads


@dataclass(frozen=True, slots=True)
class _Write:
    """A node to be written; without data it is to be deleted."""

    path: str
    data: bytes | None


class BundleDataStore:
    """Writes the averages of one term.

    Args:
        found: averages that are stored already.
    """

    def __init__(
        self,
        dependencies: BalancerDependencies,
        leadership: Leadership,
        load_monitor: LoadMonitor,
        found: Mapping[Bundle, BundleLoad],
    ) -> None:
        self._dependencies = dependencies
        self._leadership = leadership
        self._load_monitor = load_monitor
        self._written = dict(found)
        self._existing = {paths.bundle_data(bundle) for bundle in found}
        self._written_quotas: Mapping[str, bytes] = {}
        self._has_default = False
        self._full_s = dependencies.clock.now_s()

    async def run(self) -> None:
        """Write new bundles in each round, and all changes at the interval.

        Raises:
            Fenced: another leader was elected.
        """
        while True:
            await self.refresh_quotas()
            interval_s = self._dependencies.rules().quota_interval_s
            await asyncio.sleep(min(_TURN_S, interval_s))
            now_s = self._dependencies.clock.now_s()
            is_full = now_s - self._full_s >= interval_s
            try:
                with requests_as(RequestClass.BULK):
                    await self.write(is_full=is_full)
            except StoreError as error:
                # Successful writes are known; all others are repeated in the next round.
                log.info("cannot write averages: %s; retrying in the next round", error)
                continue
            if is_full:
                self._full_s = now_s

    async def refresh_quotas(self) -> None:
        """Read the quotas of bundles without averages."""
        guessed, store = tuple(self._load_monitor.guessed), self._dependencies.store
        quotas: dict[Bundle, ResourceQuota] = {}
        try:
            # A new leader reads those of all bundles of the cluster.
            for some in batched((await _by_namespace(guessed)).values(), _NAMESPACES):
                quotas |= await read_quotas(store, chain.from_iterable(some))
            if self._load_monitor.simple is not None and not self._has_default:
                self._load_monitor.simple.initial_load({}, await read_default_quota(store))
                self._has_default = True
        except StoreError as error:
            log.info("cannot read resource quotas: %s; retrying in the next round", error)
            return
        self._load_monitor.initial_load(guessed, quotas)

    async def write(self, *, is_full: bool) -> None:
        """Write new bundles and brokers, delete gone ones; if ``is_full``, write all changes."""
        loads = dict(self._load_monitor.loads)
        changed: dict[Bundle, BundleLoad] = {}
        for some in batched(loads.items(), _AT_ONCE):
            changed |= {
                bundle: load
                for bundle, load in some
                if load.short.samples
                and (bundle not in self._written or (is_full and self._written[bundle] != load))
            }
            await asyncio.sleep(0)
        for batch in _batches(list(changed)):
            await self._commit(
                [_Write(paths.bundle_data(b), BundleData(changed[b]).encode()) for b in batch]
            )
            self._written.update((bundle, changed[bundle]) for bundle in batch)
        gone: list[Bundle] = []
        for known in batched(list(self._written), _AT_ONCE):
            gone += [bundle for bundle in known if bundle not in loads]
            await asyncio.sleep(0)
        for batch in _batches(gone):
            await self._commit([_Write(paths.bundle_data(bundle), None) for bundle in batch])
            for bundle in batch:
                del self._written[bundle]
        await self._write_brokers(is_full=is_full)
        if is_full:
            await self._write_quotas()

    async def _write_brokers(self, *, is_full: bool) -> None:
        """Write one node per broker, or of those without one; nodes of brokers that left go.

        Pulsar's brokers make theirs when they start, and `pulsar-perf monitor-brokers` ends at a
        broker that has none.
        """
        known = set(await self._dependencies.store.children(paths.BROKER_TIME_AVERAGES))
        self._existing |= {paths.broker_time_average(name) for name in known}
        reports = dict(self._load_monitor.reports)
        writes: list[_Write] = []
        for broker_id, report in reports.items():
            if not is_full and broker_id in known:
                continue
            sums = TimeAverageBrokerData.of(map(self._load_monitor.load_of, report.lines))
            writes.append(_Write(paths.broker_time_average(broker_id), sums.encode()))
            await asyncio.sleep(0)
        gone = sorted(known - reports.keys()) if is_full else []
        writes += [_Write(paths.broker_time_average(name), None) for name in gone]
        for start in range(0, len(writes), _BATCH):
            await self._commit(writes[start : start + _BATCH])

    async def _write_quotas(self) -> None:
        """Write quotas as the Simple manager's leader does; they outlive their bundles."""
        if self._load_monitor.simple is None:
            return
        nodes = {
            paths.resource_quota(bundle): encode_quota(quota)
            for bundle, quota in self._load_monitor.simple.quotas.items()
        }
        nodes[paths.DEFAULT_RESOURCE_QUOTA] = encode_quota(self._load_monitor.simple.default)
        writes = [
            _Write(path, data)
            for path, data in nodes.items()
            if self._written_quotas.get(path) != data
        ]
        for start in range(0, len(writes), _BATCH):
            await self._commit(writes[start : start + _BATCH])
        self._written_quotas = nodes

    async def _commit(self, writes: list[_Write]) -> None:
        """Write all or none; conflicting nodes are found one by one."""
        for _ in range(2 * len(writes) + 1):
            operations = [operation for write in writes if (operation := self._operation(write))]
            await self._leadership.wait_deciding()
            try:
                await self._dependencies.store.multi([self._leadership.guard, *operations])
            except MultiFailed as error:
                if error.index == 0:
                    raise Fenced(f"another leader was elected: {error}") from error
                await self._learn(error)
                continue
            for write in writes:
                if write.data is None:
                    self._existing.discard(write.path)
                else:
                    self._existing.add(write.path)
            return
        raise StoreError(f"{len(writes)} averages change while they are written")

    def _operation(self, write: _Write) -> Operation | None:
        is_there = write.path in self._existing
        if write.data is None:
            return Delete(write.path) if is_there else None
        return SetData(write.path, write.data) if is_there else Create(write.path, write.data)

    async def _learn(self, error: MultiFailed) -> None:
        """Learn from a failed transaction: a node existed, or did not, or had no parent."""
        if isinstance(error.cause, NodeExists):
            self._existing.add(error.path)
        elif not isinstance(error.cause, NoNode):
            raise error
        elif error.path in self._existing:
            self._existing.discard(error.path)
        else:
            try:
                await self._dependencies.store.create(parent_of(error.path), make_parents=True)
            except NodeExists:
                log.debug("%s was created meanwhile", parent_of(error.path))


async def _by_namespace(bundles: Iterable[Bundle]) -> Mapping[Namespace, list[Bundle]]:
    found: dict[Namespace, list[Bundle]] = defaultdict(list)
    for some in batched(bundles, _AT_ONCE):
        for bundle in some:
            found[bundle.namespace].append(bundle)
        await asyncio.sleep(0)
    return found


def _batches(bundles: list[Bundle]) -> list[list[Bundle]]:
    return [bundles[start : start + _BATCH] for start in range(0, len(bundles), _BATCH)]
