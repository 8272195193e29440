"""Split and merge, in one transaction each (docs: bundle-split, bundle-merge)."""

import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.ownership.held_bundles import OwnedBundle, OwnedBundles
from broker_ctl.broker.ownership.owner_cache import Owners
from broker_ctl.broker.ownership.release import Releaser
from broker_ctl.coordination.locks import Lock, Locks
from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.history.rows import OwnershipCause
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.names import Bundle, Namespace, Ring, ring_hash
from broker_ctl.core.rules.leader_rules import SplitRules
from broker_ctl.core.strategies.splitting.algorithms import (
    BY_TRAFFIC,
    SPLITTING,
    SplitAlgorithm,
    SplitRequest,
    TopicRate,
    explain_no_boundary,
    specified_positions_divide,
    traffic_equally_divide,
)
from broker_ctl.core.strategies.splitting.candidates import dominant_position
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.errors import (
    Ambiguous,
    BundleMoving,
    DataPlaneError,
    Fenced,
    HotTopic,
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

# Boundaries at which a bundle would be split, from what its owner knows of its topics.


class Boundaries:
    """Boundaries for bundles that this broker serves.

    Args:
        rules: called at each use, because the rules may change at run time.
    """

    def __init__(self, dataplane: DataPlane, rules: Callable[[], SplitRules]) -> None:
        self._dataplane = dataplane
        self._rules = rules

    async def find(
        self, bundle: Bundle, algorithm: str, wanted: tuple[int, ...]
    ) -> tuple[tuple[int, ...], str]:
        """The caller's boundaries, or those of the algorithm; if there are none, also the reason.

        Raises:
            SettingsError: there is no such algorithm. InvalidName: the algorithm needs positions
                and got none.
            DataPlaneError: the data plane does not report what the algorithm needs.
            HotTopic: one topic has nearly all traffic, and the algorithm is to divide it.
        """
        cut = SPLITTING.find(algorithm)
        if wanted and cut is not specified_positions_divide:
            return wanted, ""
        if cut not in BY_TRAFFIC:
            hashes = tuple(map(ring_hash, await self._dataplane.topics(bundle)))
            request = SplitRequest(bundle.range, hashes, wanted)
        else:
            request = await self._traffic(bundle, cut)
        points = cut(request)
        return points, "" if points else explain_no_boundary(cut, request)

    async def _traffic(self, bundle: Bundle, cut: SplitAlgorithm) -> SplitRequest:
        statistics = await self._dataplane.topic_statistics(bundle)
        rates = tuple(
            TopicRate(ring_hash(name), stats.msg_rate, stats.throughput)
            for name, stats in statistics.items()
        )
        hot = dominant_position(rates) if cut is traffic_equally_divide else None
        if hot is not None:
            position, share = hot
            names = sorted(name for name in statistics if ring_hash(name) == position)
            raise HotTopic(f"{share:.0%} of its traffic is that of {', '.join(names[:3])}")
        hashes = tuple(topic.position for topic in rates)
        return SplitRequest(bundle.range, hashes, rates=rates, rules=self._rules())


# The transaction of split and merge: replaces some bundles of this owner by others.
#
# Docs: split-and-merge. Ring, new owner nodes and old ones change at one zxid: a hash never has
# two owner nodes, whichever broker dies in between (I5). Pulsar acquires the children of a split
# before it commits the ring, so a lost race leaves owner nodes of ranges that do not exist.


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


# Splitting a bundle into children, which stay on this broker (docs: bundle-split).


class Splitter:
    """Runs on the broker that owns the parent."""

    def __init__(
        self,
        *,
        owned_bundles: OwnedBundles,
        dataplane: DataPlane,
        changer: RingChanger,
        rules: Callable[[], SplitRules],
    ) -> None:
        self._owned_bundles = owned_bundles
        self._dataplane = dataplane
        self._changer = changer
        self._boundaries = Boundaries(dataplane, rules)
        self.splits = 0

    async def split(
        self,
        bundle: Bundle,
        algorithm: str,
        boundaries: tuple[int, ...],
        guards: Sequence[Operation],
    ) -> tuple[Bundle, ...]:
        """See `Ownership.split`."""
        SPLITTING.find(algorithm)
        held = self._owned_bundles.require_owned(bundle)
        assert held.lock is not None
        work = self._run(held, held.lock, algorithm, boundaries, guards)
        task = self._owned_bundles.start(work, f"split {bundle}")
        held.advance(BundleState.SPLITTING)
        return await self._owned_bundles.join(task)

    async def _run(
        self,
        held: OwnedBundle,
        lock: Lock,
        algorithm: str,
        boundaries: tuple[int, ...],
        guards: Sequence[Operation],
    ) -> tuple[Bundle, ...]:
        parent = held.bundle
        try:
            points, _ = await self._boundaries.find(parent, algorithm, boundaries)
            if not points:
                self._changer.resume_serving(held, lock)
                return ()
            change = RingChange(
                ((held, lock),), parent.cut(points), lambda ring: ring.split(parent, points)
            )
            nodes = await self._changer.commit(change, guards)
        except BaseException:
            self._changer.resume_serving(held, lock)
            raise
        made = self._changer.adopt(change, nodes, BundleState.SPLITTING)
        self.splits += 1
        tokens = {child.bundle: child.token for child in made}
        await self._changer.serve(made, self._dataplane.split(parent, tokens))
        return tuple(child.bundle for child in made)


# Merging two adjacent bundles into one, which stays on this broker (docs: bundle-merge).
#
# The mirror image of `split.py`. Pulsar has no merge.


_Locked = tuple[tuple[OwnedBundle, Lock], tuple[OwnedBundle, Lock]]


class Merger:
    """Runs on the broker that owns both bundles."""

    def __init__(
        self, *, owned_bundles: OwnedBundles, dataplane: DataPlane, changer: RingChanger
    ) -> None:
        self._owned_bundles = owned_bundles
        self._dataplane = dataplane
        self._changer = changer
        self.merges = 0

    async def merge(
        self, left: Bundle, right: Bundle, guards: Sequence[Operation]
    ) -> tuple[Bundle, int]:
        """See `Ownership.merge`."""
        whole = left.joined(right)
        done = self._owned_bundles.held.get(whole)
        if done is not None and done.state is BundleState.OWNED:
            # The command is a repetition whose first answer was lost.
            return whole, done.token
        both = self._own(left), self._own(right)
        task = self._owned_bundles.start(self._run(both, whole, guards), f"merge {whole}")
        for held, _ in both:
            held.advance(BundleState.MERGING)
        return await self._owned_bundles.join(task)

    def _own(self, bundle: Bundle) -> tuple[OwnedBundle, Lock]:
        held = self._owned_bundles.require_owned(bundle)
        assert held.lock is not None
        return held, held.lock

    async def _run(
        self, both: _Locked, whole: Bundle, guards: Sequence[Operation]
    ) -> tuple[Bundle, int]:
        left, right = (held.bundle for held, _ in both)
        change = RingChange(both, (whole,), lambda ring: ring.merge(left, right))
        try:
            nodes = await self._changer.commit(change, guards)
        except BaseException:
            for held, lock in both:
                self._changer.resume_serving(held, lock)
            raise
        made = self._changer.adopt(change, nodes, BundleState.MERGING)
        self.merges += 1
        token = made[0].token
        handing_over = self._dataplane.merge((left, right), whole, token)
        await self._changer.serve(made, handing_over)
        return whole, token


# Splits and merges that were committed as the session ended, before the data plane knew of them.
#
# The store has the new bundles, but the old ones are still loaded. Renewing would fail for the
# new bundles, and their clients would have to reconnect. So the data plane splits or merges
# first, under the tokens that it has: this grants no authority, and open topics stay open.


async def finish_ring_changes(
    dataplane: DataPlane, owned_bundles: OwnedBundles, loaded: Mapping[Bundle, int]
) -> None:
    """Split or merge the ``loaded`` bundles into those that are to be re-acquired."""
    merged: dict[Bundle, list[Bundle]] = {}
    for bundle, token in loaded.items():
        if bundle in owned_bundles.held:
            continue
        near = list(owned_bundles.overlapping(bundle))
        if any(held.state is not BundleState.RECLAIMING for held in near):
            continue
        pieces = sorted(held.bundle for held in near)
        if len(pieces) == 1:
            merged.setdefault(pieces[0], []).append(bundle)
        elif _is_cut_into(bundle, pieces):
            await _split(dataplane, bundle, dict.fromkeys(pieces, token))
    for parent, children in merged.items():
        children.sort()
        if len(children) == 2 and _is_cut_into(parent, children):
            await _merge(dataplane, (children[0], children[1]), parent, loaded)


def _is_cut_into(whole: Bundle, pieces: list[Bundle]) -> bool:
    """Return whether the pieces, sorted and without overlap, fill the whole exactly."""
    inside = tuple(piece.range.low for piece in pieces[1:])
    is_inside = all(whole.range.low < low < whole.range.high for low in inside)
    return is_inside and whole.cut(inside) == tuple(pieces)


async def _split(dataplane: DataPlane, parent: Bundle, children: Mapping[Bundle, int]) -> None:
    log.info("%s is still loaded although its split was committed: splitting it", parent)
    try:
        await dataplane.split(parent, children)
    except DataPlaneError as error:
        # Each child is then renewed, loaded, or given up.
        log.warning("cannot split %s: %s; its children are loaded one by one", parent, error)


async def _merge(
    dataplane: DataPlane,
    children: tuple[Bundle, Bundle],
    parent: Bundle,
    loaded: Mapping[Bundle, int],
) -> None:
    log.info("the parts of %s are still loaded although their merge was committed: merging", parent)
    try:
        await dataplane.merge(children, parent, max(loaded[child] for child in children))
    except DataPlaneError as error:
        log.warning("cannot merge into %s: %s; loading it instead", parent, error)
