"""Splitting a bundle: one transaction replaces the parent by its children (design: split).

Pulsar acquires the children before the ring is committed, so that a lost race leaves owner nodes
of ranges that do not exist. Here ring, children and parent change at one zxid: at no zxid has a
hash two owner nodes, whoever dies in between (I5).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from broker_ctl.coordination.lock import Lock
from broker_ctl.coordination.locks import Locks
from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.bundle import Bundle
from broker_ctl.core.hashing import ring_hash
from broker_ctl.core.names import Namespace
from broker_ctl.core.ownership import BundleState
from broker_ctl.core.splitting.catalog import SPLITTING
from broker_ctl.core.splitting.request import SplitAlgorithm, SplitRequest
from broker_ctl.dataplane.interface import DataPlane
from broker_ctl.errors import (
    Ambiguous,
    BundleMoving,
    DataPlaneError,
    Fenced,
    MultiFailed,
    NamespaceMissing,
    SessionExpired,
    StoreError,
)
from broker_ctl.managers.holdings import Holdings, OwnedBundle
from broker_ctl.managers.namespaces import Namespaces
from broker_ctl.managers.owners import Owners
from broker_ctl.managers.release import Releaser
from broker_ctl.store import paths
from broker_ctl.store.interface import (
    Create,
    CreateMode,
    Delete,
    MetadataStore,
    Operation,
    Result,
    SetData,
    Versioned,
)
from broker_ctl.store.records.ownership import NamespaceEphemeralData

log = logging.getLogger(__name__)

_RETRIES: Final = 7
_RETRY_S: Final = 0.25


class Splitter:
    """Runs on the parent's owner."""

    def __init__(
        self,
        *,
        store: MetadataStore,
        holdings: Holdings,
        watcher: SessionWatcher,
        locks: Locks,
        namespaces: Namespaces,
        owners: Owners,
        dataplane: DataPlane,
        releaser: Releaser,
        record: NamespaceEphemeralData,
        on_lost: Callable[[Lock], None],
    ) -> None:
        self._store = store
        self._holdings = holdings
        self._watcher = watcher
        self._locks = locks
        self._namespaces = namespaces
        self._owners = owners
        self._dataplane = dataplane
        self._releaser = releaser
        self._record = record.encode()
        self._on_lost = on_lost
        self.splits = 0

    async def split(
        self,
        bundle: Bundle,
        algorithm: str,
        boundaries: tuple[int, ...],
        guards: Sequence[Operation],
    ) -> tuple[Bundle, ...]:
        """See `Ownership.split`."""
        cut = SPLITTING.find(algorithm)
        held = self._holdings.own(bundle)
        assert held.lock is not None
        work = self._work(held, held.lock, cut, boundaries, guards)
        task = self._holdings.start(work, f"split {bundle}")
        held.advance(BundleState.SPLITTING)
        return await self._holdings.join(task)

    async def _work(
        self,
        held: OwnedBundle,
        lock: Lock,
        cut: SplitAlgorithm,
        boundaries: tuple[int, ...],
        guards: Sequence[Operation],
    ) -> tuple[Bundle, ...]:
        try:
            topics = await self._dataplane.topics(held.bundle)
            hashes = tuple(map(ring_hash, topics))
            points = boundaries or cut(SplitRequest(held.bundle.range, hashes))
            nodes = await self._replace_nodes(held, lock, points, guards) if points else ()
        except BaseException:
            self._serve_on(held, lock)
            raise
        if not nodes:
            self._serve_on(held, lock)
            return ()
        children = self._hold(held, nodes)
        # What the configuration store has is behind for a moment; the local policies count.
        namespace = held.bundle.namespace
        self._holdings.start(self._publish(namespace), f"publish ring of {namespace}")
        await self._serve(held.bundle, children)
        return tuple(child.bundle for child in children)

    def _serve_on(self, held: OwnedBundle, lock: Lock) -> None:
        """Nothing was changed here; but meanwhile the node may have been taken away."""
        if held.lock is lock:
            held.advance(BundleState.OWNED)
        else:
            self._releaser.give_up(held)

    # The store.

    async def _replace_nodes(
        self,
        held: OwnedBundle,
        lock: Lock,
        points: tuple[int, ...],
        guards: Sequence[Operation],
    ) -> tuple[Versioned, ...]:
        """Ring, children and parent in one transaction; answers with the children's nodes."""
        parent = held.bundle
        children = parent.cut(points)
        epoch = self._watcher.epoch
        for _ in range(_RETRIES):
            local = await self._namespaces.local_policies(parent.namespace)
            ring = local.policies.ring(parent.namespace, local.version).split(parent, points)
            operations = [
                *guards,
                SetData(
                    paths.local_policies(parent.namespace),
                    local.with_ring(ring).encode(),
                    local.version,
                ),
                *(
                    Create(paths.ownership(child), self._record, CreateMode.EPHEMERAL)
                    for child in children
                ),
                Delete(paths.ownership(parent), lock.version),
            ]
            # The ring may have changed since, which the transaction finds; the lease it does not.
            self._watcher.check_epoch(epoch)
            try:
                return await self._commit(held, lock, operations, children)
            except MultiFailed as error:
                if error.index < len(guards):
                    raise Fenced(f"{parent}: {error}") from error
                if error.index > len(guards):
                    raise BundleMoving(f"{parent}: {error}") from error
            finally:
                self._namespaces.forget(parent.namespace)
                for bundle in (parent, *children):
                    self._owners.forget(bundle)
        raise BundleMoving(f"{parent}: its ring changes too often")

    async def _commit(
        self,
        held: OwnedBundle,
        lock: Lock,
        operations: Sequence[Operation],
        children: tuple[Bundle, ...],
    ) -> tuple[Versioned, ...]:
        self._locks.about_to_end(lock)
        # If the session ends before the answer comes, the next one looks for the children.
        held.becoming = children
        try:
            nodes = await self._outcome(lock, operations, children)
        except (Ambiguous, MultiFailed):
            held.becoming = ()
            self._locks.keep(lock)
            raise
        except BaseException:
            self._locks.keep(lock)
            raise
        self._locks.end(lock)
        return nodes

    async def _outcome(
        self,
        lock: Lock,
        operations: Sequence[Operation],
        children: tuple[Bundle, ...],
    ) -> tuple[Versioned, ...]:
        """Carry it out, and find out where the answer does not say: the children tell."""
        try:
            results: Sequence[Result] = await self._store.multi(operations)
        except Ambiguous as lost:
            results = await self._read_again(children)
            session_id = lock.identity.session_id
            if self._store.session_id != session_id:
                raise SessionExpired(f"{lost}; its session is gone") from lost
            if any(node is None or node.stat.ephemeral_owner != session_id for node in results):
                raise lost from None
        return tuple(result for result in results if isinstance(result, Versioned))

    async def _read_again(self, children: tuple[Bundle, ...]) -> Sequence[Versioned | None]:
        """Until the store answers: a guess would close what is served, or keep what is not ours."""
        nodes = [paths.ownership(child) for child in children]
        while True:
            try:
                await self._store.sync(nodes[0])
                return await self._store.get_many(nodes)
            except StoreError as error:
                if not error.can_retry:
                    raise
                log.info("was %s split? %s; asking again", nodes[0], error)
                await asyncio.sleep(_RETRY_S)

    async def _publish(self, namespace: Namespace) -> None:
        """The policies of the configuration store follow; the local policies count."""
        try:
            await self._namespaces.publish_ring(namespace)
        except (StoreError, NamespaceMissing) as error:
            log.warning("policies of %s keep the old ring: %s", namespace, error)

    # The data plane.

    def _hold(self, parent: OwnedBundle, nodes: Sequence[Versioned]) -> list[OwnedBundle]:
        """The children stand in the store; hold them in the parent's place.

        They are SPLITTING until they are served. If the session ends before that they are
        reclaimed, and the parent that the data plane still has is fenced.
        """
        children: list[OwnedBundle] = []
        for node in nodes:
            bundle = paths.owned_bundle(node.path)
            assert bundle is not None
            lock = self._locks.adopt(node, self._on_lost)
            children.append(OwnedBundle(bundle, BundleState.SPLITTING, lock))
        self._holdings.replace(parent, children)
        self.splits += 1
        ranges = ", ".join(str(child.bundle.range) for child in children)
        log.info("split %s into %s", parent.bundle, ranges)
        return children

    async def _serve(self, parent: Bundle, children: Sequence[OwnedBundle]) -> None:
        locks = {child.bundle: child.lock for child in children}
        tokens = {child.bundle: child.token for child in children}
        unserved: set[Bundle] = set()
        try:
            await self._dataplane.split(parent, tokens)
        except DataPlaneError as error:
            log.warning("%s: the data plane did not split: %s; loading anew", parent, error)
            unserved = await self._load_anew(tokens)
        for child in children:
            # A child may have been taken away while the data plane worked.
            if child.bundle in unserved or child.lock is not locks[child.bundle]:
                self._releaser.give_up(child)
            else:
                child.advance(BundleState.OWNED)

    async def _load_anew(self, tokens: Mapping[Bundle, int]) -> set[Bundle]:
        """Each child takes the place of what overlaps it; answers with those that failed."""
        unserved: set[Bundle] = set()
        for child, token in tokens.items():
            try:
                await self._dataplane.load(child, token)
            except DataPlaneError as error:
                log.warning("%s: %s; giving it up", child, error)
                unserved.add(child)
        return unserved
