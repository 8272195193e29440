"""The transaction of split and merge: replaces some bundles of this owner by others.

Docs: split-and-merge. Ring, new owner nodes and old ones change at one zxid: a hash never has two
owner nodes, whichever broker dies in between (I5). Pulsar acquires the children of a split before
it commits the ring, so a lost race leaves owner nodes of ranges that do not exist.
"""

import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.ownership.held_bundles import OwnedBundle, OwnedBundles
from broker_ctl.broker.ownership.owner_cache import Owners
from broker_ctl.broker.ownership.release import Releaser
from broker_ctl.coordination.locks.lock import Lock
from broker_ctl.coordination.locks.locks import Locks
from broker_ctl.coordination.session.watcher import SessionWatcher
from broker_ctl.core.history.decisions import OwnershipCause
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.model.namespace import Ring
from broker_ctl.dataplane.bundles.interface import DataPlane
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
from broker_ctl.retry import retry
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


@dataclass(frozen=True, slots=True)
class RingChange:
    """A change of a ring.

    Attributes:
        old: held bundles with their locks.
        new: bundles that cover the same hashes.
        transform: derives the new ring from the current one; raises `BundleGone` if it cannot.
    """

    old: tuple[tuple[OwnedBundle, Lock], ...]
    new: tuple[Bundle, ...]
    transform: Callable[[Ring], Ring]

    @property
    def held(self) -> list[OwnedBundle]:
        """The bundles to be replaced."""
        return [held for held, _ in self.old]

    @property
    def namespace(self) -> Namespace:
        """The namespace of all of them."""
        return self.new[0].namespace

    def __str__(self) -> str:
        return f"{self.namespace}: {_ranges(held.bundle for held in self.held)}"


def _ranges(bundles: Iterable[Bundle]) -> str:
    return ", ".join(str(bundle.range) for bundle in bundles)


class RingChanger:
    """Runs on the owner of the replaced bundles; `split.py` and `merge.py` choose them."""

    def __init__(
        self,
        *,
        store: MetadataStore,
        owned_bundles: OwnedBundles,
        watcher: SessionWatcher,
        locks: Locks,
        namespaces: Namespaces,
        owners: Owners,
        dataplane: DataPlane,
        releaser: Releaser,
        record: NamespaceEphemeralData,
        on_lost: Callable[[Lock], None],
        rng: random.Random,
    ) -> None:
        self._rng = rng
        self._store = store
        self._owned_bundles = owned_bundles
        self._watcher = watcher
        self._locks = locks
        self._namespaces = namespaces
        self._owners = owners
        self._dataplane = dataplane
        self._releaser = releaser
        self._record = record.encode()
        self._on_lost = on_lost

    async def commit(
        self, change: RingChange, guards: Sequence[Operation]
    ) -> tuple[Versioned, ...]:
        """Commit the change to the store; returns the new owner nodes.

        Raises:
            Fenced: a guard failed. BundleMoving: an owner node or the ring changed.
            BundleGone: the ring does not have the bundles to be replaced.
            Ambiguous, SessionExpired, StoreError: the change is not known to be committed.
        """
        epoch = self._watcher.epoch
        for _ in range(_RETRIES):
            operations = [*guards, *await self._operations(change)]
            # The transaction checks whether the ring changed since; it does not check the lease.
            self._watcher.check_epoch(epoch)
            try:
                return await self._send(change, operations)
            except MultiFailed as error:
                if error.index < len(guards):
                    raise Fenced(f"{change}: {error}") from error
                # After the guards come the ring's generation and the ring.
                if error.index > len(guards) + 1:
                    raise BundleMoving(f"{change}: {error}") from error
            finally:
                self._namespaces.forget(change.namespace)
                for bundle in (*(held.bundle for held in change.held), *change.new):
                    self._owners.forget(bundle)
        raise BundleMoving(f"{change}: its ring changes too often")

    def adopt(
        self, change: RingChange, nodes: Sequence[Versioned], during: BundleState
    ) -> list[OwnedBundle]:
        """Hold the new bundles, which the store has, in the state ``during`` until they are served.

        If the session ends before that, they are reclaimed; the replaced bundles that the data
        plane still has end when the new ones are loaded.
        """
        made: list[OwnedBundle] = []
        for node in nodes:
            bundle = paths.owned_bundle(node.path)
            assert bundle is not None
            held = OwnedBundle(bundle, during)
            held.hold(self._locks.adopt(node.path, node, self._on_lost))
            made.append(held)
        self._owned_bundles.replace(change.held, made)
        log.info("%s became %s", change, _ranges(change.new))
        # The configuration store lags behind for a moment; the local policies are authoritative.
        namespace = change.namespace
        self._owned_bundles.start(self._publish(namespace), f"publish ring of {namespace}")
        return made

    def resume_serving(self, held: OwnedBundle, lock: Lock) -> None:
        """Serve on: the store was not changed; but the node may have been deleted meanwhile."""
        if held.lock is lock:
            held.advance(BundleState.OWNED)
        else:
            self._releaser.give_up(held, OwnershipCause.TAKEN_AWAY)

    async def _operations(self, change: RingChange) -> list[Operation]:
        """Build the operations, the ring first: if its version changed, all are built again."""
        snapshot = await self._namespaces.ring_snapshot(change.namespace)
        local = snapshot.record
        ring = change.transform(local.ring)
        path = paths.local_policies(change.namespace)
        return [
            snapshot.generation.check,
            SetData(path, local.with_ring(ring).encode(), local.version),
            *(
                Create(paths.ownership(bundle), self._record, CreateMode.EPHEMERAL)
                for bundle in change.new
            ),
            *await self._deletions(change),
        ]

    async def _deletions(self, change: RingChange) -> list[Operation]:
        """Delete the nodes of the owner's locks, which are read right before the transaction.

        A version alone does not distinguish them from nodes that another owner has created since.
        """
        nodes = [paths.ownership(held.bundle) for held in change.held]
        await self._store.sync(nodes[0])
        deletions: list[Operation] = []
        for (held, lock), node in zip(change.old, await self._store.get_many(nodes), strict=True):
            if node is None or not lock.is_held_by(node):
                raise BundleMoving(f"{held.bundle} was taken away")
            deletions.append(Delete(node.path, node.stat.version))
        return deletions

    async def _send(
        self, change: RingChange, operations: Sequence[Operation]
    ) -> tuple[Versioned, ...]:
        for held, lock in change.old:
            self._locks.begin_release(lock)
            # If the session ends before the answer comes, the next session looks for the new
            # bundles.
            held.replacements = change.new
        try:
            nodes = await self._outcome(change, operations)
        except BaseException as error:
            for held, lock in change.old:
                if isinstance(error, Ambiguous | MultiFailed):
                    held.replacements = ()
                self._locks.cancel_release(lock)
            raise
        for _, lock in change.old:
            self._locks.confirm_release(lock)
        return nodes

    async def _outcome(
        self, change: RingChange, operations: Sequence[Operation]
    ) -> tuple[Versioned, ...]:
        """Send the transaction; if its answer is lost, look whether the new nodes exist."""
        try:
            return _new_nodes(change, await self._store.multi(operations))
        except Ambiguous as lost:
            results = await self._read_again(change)
            session_id = change.old[0][1].identity.session_id
            if self._store.session_id != session_id:
                raise SessionExpired(f"{lost}; its session is gone") from lost
            if any(node is None or node.stat.ephemeral_owner != session_id for node in results):
                raise lost from None
            return _new_nodes(change, results)

    async def _read_again(self, change: RingChange) -> Sequence[Versioned | None]:
        """Read until it answers: a guess could close served bundles, or keep foreign ones."""
        nodes = [paths.ownership(bundle) for bundle in change.new]

        async def read() -> Sequence[Versioned | None]:
            await self._store.sync(nodes[0])
            return await self._store.get_many(nodes)

        return await retry(read, f"cannot read whether {change} was replaced", rng=self._rng)

    async def _publish(self, namespace: Namespace) -> None:
        """Copy the ring to the configuration store; the local policies are authoritative."""
        try:
            await self._namespaces.publish_ring(namespace)
        except (StoreError, NamespaceMissing) as error:
            log.warning("the policies of %s keep the old ring: %s", namespace, error)

    # The data plane.

    async def serve(self, made: Sequence[OwnedBundle], handing_over: Awaitable[None]) -> None:
        """Wait for the data plane's handover; if it fails, load the new bundles."""
        locks = {held.bundle: held.lock for held in made}
        tokens = {held.bundle: held.token for held in made}
        unserved: set[Bundle] = set()
        try:
            await handing_over
        except DataPlaneError as error:
            log.warning("no handover to %s: %s; loading the new bundles", made[0].bundle, error)
            unserved = await self._reload(tokens)
        for held in made:
            # The node may have been deleted while the data plane worked.
            if held.bundle in unserved or held.lock is not locks[held.bundle]:
                self._releaser.give_up(held, OwnershipCause.DATA_PLANE)
            else:
                held.advance(BundleState.OWNED)

    async def _reload(self, tokens: Mapping[Bundle, int]) -> set[Bundle]:
        """Load each bundle in place of those that overlap it; returns those that failed."""
        unserved: set[Bundle] = set()
        for bundle, token in tokens.items():
            try:
                await self._dataplane.load(bundle, token)
            except DataPlaneError as error:
                log.warning("cannot load %s: %s; releasing it", bundle, error)
                unserved.add(bundle)
        return unserved


def _new_nodes(change: RingChange, results: Sequence[Result]) -> tuple[Versioned, ...]:
    """The owner nodes of the new bundles, one for each.

    Raises:
        Ambiguous: they are those of others, so the answer was not to this transaction.
    """
    wanted = [paths.ownership(bundle) for bundle in change.new]
    found = {node.path: node for node in results if isinstance(node, Versioned)}
    if not found.keys() >= set(wanted):
        raise Ambiguous(f"{change}: the answer is about {', '.join(found) or 'no node'}")
    return tuple(found[path] for path in wanted)
