"""Splitting a bundle: one transaction replaces the parent by its children (design: split).

Pulsar acquires the children before the ring is committed, so that a lost race leaves owner nodes
of ranges that do not exist. Here ring, children and parent change at one zxid: at no zxid has a
hash two owner nodes, whoever dies in between (I5).
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from broker_ctl.coordination.locks import Lock, Locks
from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.bundle import Bundle
from broker_ctl.core.names import Topic
from broker_ctl.core.namespace import Ring
from broker_ctl.core.ownership import BundleState
from broker_ctl.core.splitting.catalog import SPLITTING
from broker_ctl.core.splitting.request import SplitRequest
from broker_ctl.dataplane.interface import DataPlane
from broker_ctl.errors import BundleMoving, DataPlaneError, Fenced, MultiFailed, StoreError
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
    SetData,
    Versioned,
)
from broker_ctl.store.records.ownership import NamespaceEphemeralData

log = logging.getLogger(__name__)

_RETRIES: Final = 7


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
        held.advance(BundleState.SPLITTING)

        async def work() -> tuple[Bundle, ...]:
            try:
                topics = await self._dataplane.topics(bundle)
                hashes = tuple(Topic.parse(topic).ring_hash for topic in topics)
                points = boundaries or cut(SplitRequest(bundle.range, hashes))
                return await self._split(held, points, guards) if points else ()
            finally:
                # Nothing was changed, or the end of the session decides.
                if held.state is BundleState.SPLITTING and held.lock is not None:
                    held.advance(BundleState.OWNED)

        return await self._holdings.act(work(), f"split {bundle}")

    async def _split(
        self,
        held: OwnedBundle,
        points: tuple[int, ...],
        guards: Sequence[Operation],
    ) -> tuple[Bundle, ...]:
        parent = held.bundle
        children = parent.cut(points)
        for _ in range(_RETRIES):
            local = await self._namespaces.local_policies(parent.namespace)
            ring = local.policies.ring(parent.namespace, local.version).split(parent, points)
            assert held.lock is not None
            self._watcher.check()
            try:
                results = await self._store.multi(
                    [
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
                        Delete(paths.ownership(parent), held.lock.version),
                    ],
                )
            except MultiFailed as error:
                if error.index < len(guards):
                    raise Fenced(f"{parent}: {error}") from error
                if error.index > len(guards):
                    raise BundleMoving(f"{parent}: {error}") from error
                self._namespaces.forget(parent.namespace)
                continue
            finally:
                for bundle in (parent, *children):
                    self._owners.forget(bundle)
            nodes = results[len(guards) + 1 : len(guards) + 1 + len(children)]
            await self._replace(held, dict(zip(children, nodes, strict=True)))
            await self._publish(ring)
            return children
        raise BundleMoving(f"{parent}: its ring changes too often")

    async def _replace(self, held: OwnedBundle, nodes: dict[Bundle, object]) -> None:
        """The children stand in the store; hold them in the parent's place."""
        assert held.lock is not None
        self._locks.end(held.lock)
        self._namespaces.forget(held.bundle.namespace)
        held.advance(BundleState.DELETED)
        self._holdings.drop(held)
        born: dict[Bundle, OwnedBundle] = {}
        for child, node in nodes.items():
            assert isinstance(node, Versioned)
            born[child] = OwnedBundle(child, lock=self._locks.adopt(node, self._on_lost))
            self._holdings.held[child] = born[child]
        tokens = {child: one.token for child, one in born.items()}
        self.splits += 1
        log.info("split %s into %s", held.bundle, ", ".join(str(child.range) for child in born))
        try:
            await self._dataplane.split(held.bundle, tokens)
        except DataPlaneError as error:
            log.warning("%s: the data plane did not split: %s; loading anew", held.bundle, error)
            await self._load_anew(held.bundle, born)
        for one in born.values():
            # A child may have been lost, or given back, while the data plane worked.
            if self._holdings.held.get(one.bundle) is one:
                one.advance(BundleState.OWNED)

    async def _load_anew(self, parent: Bundle, born: dict[Bundle, OwnedBundle]) -> None:
        await self._releaser.fence(parent)
        for child, one in born.items():
            try:
                await self._dataplane.load(child, one.token)
            except DataPlaneError as error:
                log.warning("%s: %s; giving it up", child, error)
                self._holdings.drop(one)
                if one.lock is not None:
                    await self._releaser.give_back(one.lock)

    async def _publish(self, ring: Ring) -> None:
        """The policies of the configuration store follow; the local policies count."""
        try:
            await self._namespaces.update_policies(ring)
        except StoreError as error:
            log.warning("policies of %s keep the old ring: %s", ring.namespace, error)
