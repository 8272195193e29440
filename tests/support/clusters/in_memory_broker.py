"""A small broker over the memory store: it owns bundles by their owner nodes, and obeys commands.

Its transactions are a broker's (docs: acquire, bundle-release, bundle-split): acquire checks the
ring, release checks epoch and move, split replaces ring, children and parent at once. The checker
finds two brokers that serve one hash.
"""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from broker_ctl.coordination.bulk_acquire import Deletions
from broker_ctl.coordination.directives import Directives, MoveRecord, Moves
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.commands import (
    AcquireBundle,
    Command,
    MergeBundles,
    PrepareTransfer,
    ReceiveBundle,
    ReleaseBundle,
    SplitBundle,
)
from broker_ctl.core.model.load import BrokerLoad, BundleStats, ResourceUsage, SystemUsage
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.errors import (
    BundleBusy,
    BundleGone,
    Draining,
    Fenced,
    MultiFailed,
    NamespaceMissing,
    NodeExists,
    NotOwner,
)
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.store import paths
from broker_ctl.store.interface import (
    Check,
    Create,
    CreateMode,
    Delete,
    MetadataStore,
    Operation,
    SetData,
    Versioned,
)
from broker_ctl.store.records.broker_ctl import Registration
from broker_ctl.store.records.load import LocalBrokerData
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from broker_ctl.store.records.policies import LocalPolicies

TICK_S = 0.05
# Each start of a process has a nonce of its own.
_RUNS = itertools.count(1)
CAPACITY_BYTES_S = 1e9


async def read_ring(store: MetadataStore, namespace: Namespace) -> Ring:
    """The ring as it stands in the store."""
    node = await store.get(paths.local_policies(namespace))
    if node is None:
        raise NamespaceMissing(f"{namespace} does not exist")
    return LocalPolicies.decode(node.path, node.data).ring(namespace, node.stat.version)


class ServingChecker:
    """Sees who serves what, and does not forgive two at a time."""

    def __init__(self) -> None:
        self.serving: dict[str, dict[Bundle, int]] = {}
        self.faults: list[str] = []

    def begins(self, broker_id: str, bundle: Bundle, token: int) -> None:
        for other, served in self.serving.items():
            for theirs in served:
                if other != broker_id and theirs.overlaps(bundle):
                    self.faults.append(f"{broker_id} and {other} both serve {bundle}")
        self.serving.setdefault(broker_id, {})[bundle] = token

    def ends(self, broker_id: str, bundle: Bundle) -> None:
        self.serving.get(broker_id, {}).pop(bundle, None)

    def servers_of(self, bundle: Bundle) -> list[str]:
        return [broker_id for broker_id, served in self.serving.items() if bundle in served]


class InMemoryBroker:
    """One broker of a test's cluster.

    ``traffic`` gives the load of a bundle; usage is bytes a second over a capacity, on the link.
    """

    def __init__(
        self,
        ensemble: MemoryEnsemble,
        broker_id: str,
        serving_checker: ServingChecker,
        traffic: Callable[[Bundle], BundleStats],
    ) -> None:
        self.broker_id = broker_id
        self.ensemble = ensemble
        self.store = MemoryStore(ensemble, broker_id, session_timeout_s=0.5)
        self.urls = BrokerUrls(broker_id, web_url=f"http://{broker_id}")
        registration = Registration(f"run-{next(_RUNS)}", 0, 0, self.urls)
        self.registry = Registry(
            self.store,
            registration,
            Deletions(self.store, rng=random.Random(1)),
            TICK_S,
            rng=random.Random(1),
        )
        self.moves = Moves(self.store, rng=random.Random(1))
        self.directives = Directives(self.store, rng=random.Random(1))
        self._serving_checker = serving_checker
        self._traffic = traffic
        self._newest_epoch = 0
        self._reports = 0

    @property
    def serving(self) -> dict[Bundle, int]:
        return self._serving_checker.serving.get(self.broker_id, {})

    async def start(self) -> None:
        await self.store.start()
        await self.store.wait_connected()
        await self.registry.start()
        await self.moves.start()
        await self.directives.start()
        await self.registry.register(self.report().encode())

    async def close(self) -> None:
        await self.directives.close()
        await self.moves.close()
        await self.registry.close()
        await self.store.close()

    async def die(self) -> None:
        """The process is gone at once; its session ends as by its timeout."""
        self._serving_checker.serving.pop(self.broker_id, None)
        session_id = self.store.session_id
        await self.directives.close()
        await self.moves.close()
        await self.registry.close()
        await self.store.close(end_session=False)
        self.ensemble.expire(session_id)

    # Reports.

    def report(self) -> LocalBrokerData:
        self._reports += 1
        lines = {str(bundle): self._traffic(bundle) for bundle in sorted(self.serving)}
        total = sum(lines.values(), BundleStats())
        kbit_s = total.throughput * 8 / 1000
        usage = SystemUsage(bandwidth_in=ResourceUsage(kbit_s, CAPACITY_BYTES_S * 8 / 1000))
        load = BrokerLoad(self.broker_id, usage, lines, self._reports, 1, "0.1.0")
        return LocalBrokerData(self.urls, load)

    async def publish(self) -> None:
        await self.registry.publish(self.report().encode())

    # Owning.

    async def acquire(self, bundle: Bundle, guards: Sequence[Operation] = ()) -> int:
        ring = await read_ring(self.store, bundle.namespace)
        if bundle not in ring:
            raise BundleGone(f"{bundle} is not a bundle")
        path = paths.ownership(bundle)
        data = NamespaceEphemeralData(self.urls).encode()
        check = Check(paths.local_policies(bundle.namespace), ring.version)
        try:
            results = await self.store.multi(
                [check, *guards, Create(path, data, CreateMode.EPHEMERAL)]
            )
        except MultiFailed as error:
            if isinstance(error.cause, NodeExists):
                return await self._already(bundle)
            if error.index == len(guards) + 1:
                await self._make_parents(bundle)
                return await self.acquire(bundle, guards)
            raise Fenced(str(error)) from error
        node = results[-1]
        assert isinstance(node, Versioned)
        self._serving_checker.begins(self.broker_id, bundle, node.stat.czxid)
        await self.publish()
        return node.stat.czxid

    async def _already(self, bundle: Bundle) -> int:
        if bundle in self.serving:
            return self.serving[bundle]
        raise BundleBusy(str(bundle), "another broker")

    async def _make_parents(self, bundle: Bundle) -> None:
        try:
            await self.store.create(paths.ownership_of(bundle.namespace), make_parents=True)
        except NodeExists:
            return

    # Orders.

    async def handle(self, order: Command) -> Mapping[str, Any]:
        if order.epoch < self._newest_epoch:
            raise Fenced(f"epoch {order.epoch} is old")
        self._newest_epoch = order.epoch
        match order:
            case PrepareTransfer():
                return self._prepare()
            case ReleaseBundle():
                return await self._release(order)
            case ReceiveBundle():
                return await self._receive(order)
            case AcquireBundle():
                return {"token": await self.acquire(order.bundle, [self._epoch(order.epoch)])}
            case SplitBundle():
                children = await self.split(order.bundle, order.boundaries, order.epoch)
                return {"children": [str(child) for child in children]}
            case MergeBundles():
                whole = await self.merge(order.left, order.right, order.epoch)
                return {"bundle": str(whole), "token": self.serving[whole]}

    def _epoch(self, epoch: int) -> Operation:
        return Check(paths.LOADBALANCE_ELECTION.epoch_path, epoch)

    async def _record(self, move_id: str, epoch: int) -> MoveRecord:
        record = await self.moves.read(move_id)
        if record is None or record.move.epoch != epoch:
            raise Fenced(f"move {move_id} is not of epoch {epoch}")
        return record

    def _prepare(self) -> Mapping[str, Any]:
        peer = self.registry.peer(self.broker_id)
        if peer is not None and peer.registration.is_draining:
            raise Draining(f"{self.broker_id} is draining")
        return {}

    async def _release(self, order: ReleaseBundle) -> Mapping[str, Any]:
        record = await self._record(order.move_id, order.epoch)
        token = self.serving.get(order.bundle)
        path = paths.ownership(order.bundle)
        if token != order.token:
            node = await self.store.get(path)
            if node is not None and node.stat.czxid == order.token:
                raise NotOwner(f"{order.bundle}: token {token}, not {order.token}")
            return {}
        self._serving_checker.ends(self.broker_id, order.bundle)
        try:
            await self.store.multi([self._epoch(order.epoch), record.guard, Delete(path)])
        except MultiFailed as error:
            self._serving_checker.begins(self.broker_id, order.bundle, token)
            raise Fenced(str(error)) from error
        await self.publish()
        return {}

    async def _receive(self, order: ReceiveBundle) -> Mapping[str, Any]:
        record = await self.moves.read(order.move_id)
        if record is None:
            if order.bundle not in self.serving:
                raise Fenced(f"move {order.move_id} has ended")
            return {"token": self.serving[order.bundle]}
        token = await self.acquire(order.bundle, [record.guard])
        await self.moves.end(record)
        return {"token": token}

    async def split(
        self, parent: Bundle, boundaries: tuple[int, ...] = (), epoch: int | None = None
    ) -> tuple[Bundle, ...]:
        if parent not in self.serving:
            raise NotOwner(f"{parent} is not owned here")
        children = parent.cut(boundaries or parent.range.middle)
        ring = await read_ring(self.store, parent.namespace)
        points = tuple(child.range.low for child in children[1:])
        data = NamespaceEphemeralData(self.urls).encode()
        results = await self.store.multi(
            [
                *(() if epoch is None else (self._epoch(epoch),)),
                SetData(
                    paths.local_policies(parent.namespace),
                    LocalPolicies(ring.split(parent, points).boundaries).encode(),
                    ring.version,
                ),
                *(Create(paths.ownership(c), data, CreateMode.EPHEMERAL) for c in children),
                Delete(paths.ownership(parent)),
            ]
        )
        nodes = [node for node in results if isinstance(node, Versioned)]
        self._serving_checker.ends(self.broker_id, parent)
        for child, node in zip(children, nodes, strict=True):
            self._serving_checker.begins(self.broker_id, child, node.stat.czxid)
        await self.publish()
        return children

    async def merge(self, left: Bundle, right: Bundle, epoch: int) -> Bundle:
        whole = left.joined(right)
        for bundle in (left, right):
            if bundle not in self.serving:
                raise NotOwner(f"{bundle} is not served here")
        ring = await read_ring(self.store, whole.namespace)
        results = await self.store.multi(
            [
                self._epoch(epoch),
                SetData(
                    paths.local_policies(whole.namespace),
                    LocalPolicies(ring.merge(left, right).boundaries).encode(),
                    ring.version,
                ),
                Create(
                    paths.ownership(whole),
                    NamespaceEphemeralData(self.urls).encode(),
                    CreateMode.EPHEMERAL,
                ),
                *(Delete(paths.ownership(bundle)) for bundle in (left, right)),
            ]
        )
        node = results[2]
        assert isinstance(node, Versioned)
        for bundle in (left, right):
            self._serving_checker.ends(self.broker_id, bundle)
        self._serving_checker.begins(self.broker_id, whole, node.stat.czxid)
        await self.publish()
        return whole


def even_traffic(bytes_s: float, topics: int = 20) -> BundleStats:
    """Half of it in; 100 messages to the MB."""
    rate = bytes_s / 1e4
    return BundleStats(rate / 2, rate / 2, bytes_s / 2, bytes_s / 2, topics, topics, topics)


def traffic_by_range(hot: Mapping[Bundle, float], cold: float) -> Callable[[Bundle], BundleStats]:
    """Bytes/s that lie evenly in each bundle of ``hot``, and so in its children; else ``cold``."""

    def of(bundle: Bundle) -> BundleStats:
        for whole, bytes_s in hot.items():
            if bundle.namespace == whole.namespace and bundle.range.overlaps(whole.range):
                ratio = (bundle.range.high - bundle.range.low) / (
                    whole.range.high - whole.range.low
                )
                return even_traffic(bytes_s * min(1.0, ratio), max(1, round(20 * ratio)))
        return replace(even_traffic(cold), topics=4)

    return of
