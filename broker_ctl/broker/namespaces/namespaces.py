"""Namespaces and their rings, whose generations never restart (docs: pulsar-hash)."""

import contextlib
import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final

from broker_ctl.clock import Clock
from broker_ctl.core.model.field_kinds import REPLICATION_CLUSTERS
from broker_ctl.core.model.names import DOMAINS, Bundle, Namespace, Ring
from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    CorruptRecord,
    MultiFailed,
    NamespaceExists,
    NamespaceMissing,
    NodeExists,
    NoNode,
    NotEmpty,
    OwnershipError,
    PolicyConflict,
    TenantMissing,
)
from broker_ctl.store import paths
from broker_ctl.store.cached_values import ValueCache
from broker_ctl.store.interface import (
    Check,
    Create,
    CreateMode,
    Delete,
    MetadataStore,
    Operation,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.path_rules import parent_of
from broker_ctl.store.records.broker_ctl import RING_GENERATION
from broker_ctl.store.records.policies import LocalPolicies, PoliciesRecord
from broker_ctl.store.watched_cache import CacheRules

log = logging.getLogger(__name__)

# Generations of a namespace's ring: a number that never restarts.
#
# A local-policies node that is deleted and created again begins at version 0, as its predecessor
# did; its version alone does not distinguish acquisitions before and after that. So every
# transaction that creates or deletes local policies also writes a persistent node beside them,
# whose version counts all rings that the namespace ever had. A transaction that depends on a ring
# checks both versions.


@dataclass(frozen=True, slots=True)
class RingGeneration:
    """A generation as it was read.

    Attributes:
        version: version of its node; 0: no ring was created or deleted since the node was created.
        written_zxid: the last transaction that wrote the node.
    """

    path: str
    version: int
    written_zxid: int

    @property
    def check(self) -> Check:
        """A check that fails once a ring was created or deleted."""
        return Check(self.path, self.version)

    @property
    def bump(self) -> SetData:
        """The write for each transaction that creates or deletes a ring."""
        return SetData(self.path, RING_GENERATION, self.version)

    def has(self, ring: Stat) -> bool:
        """Return whether local policies belong to this generation, according to their stat.

        Those of an earlier generation were created before its node was last written. So were those
        of a namespace that is older than this mechanism; its generations are not counted yet.
        """
        return ring.czxid >= self.written_zxid or self.version == 0


def _decode(node: Versioned) -> RingGeneration:
    return RingGeneration(node.path, node.stat.version, node.stat.mzxid)


class RingGenerations:
    """The generations of all namespaces; creates missing nodes."""

    def __init__(
        self, store: MetadataStore, clock: Clock, cache_rules: CacheRules, *, rng: random.Random
    ) -> None:
        self._store = store
        self.cache = ValueCache(store, (paths.RINGS,), _decode, clock, cache_rules, rng=rng)

    async def of(self, namespace: Namespace) -> RingGeneration:
        """The generation, from the cache."""
        path = paths.ring_generation(namespace)
        while (found := await self.cache.get(path)) is None:
            with self.writing(namespace):
                try:
                    await self._store.create(path, RING_GENERATION, make_parents=True)
                except NodeExists:
                    log.debug("%s: another broker was quicker", path)
        return found

    async def read(self, namespaces: Iterable[Namespace]) -> Mapping[Namespace, RingGeneration]:
        """Read generations from the store in one request."""
        wanted = list(namespaces)
        nodes = await self._store.get_many([paths.ring_generation(name) for name in wanted])
        return {
            name: await self.of(name) if node is None else _decode(node)
            for name, node in zip(wanted, nodes, strict=True)
        }

    def writing(self, namespace: Namespace) -> AbstractContextManager[None]:
        """The scope of an own write: later reads bypass the cached value."""
        return self.cache.writing(paths.ring_generation(namespace))

    def forget(self, namespace: Namespace) -> None:
        """Evict a cached generation that turned out to be stale."""
        self.cache.forget(paths.ring_generation(namespace))


# Deletion of a namespace: all of it or nothing, and only while none of its bundles is owned.
#
# The ring and the parent of the owner nodes are deleted in one transaction. It fails while an
# owner node exists; a later acquisition finds no ring, or one of another generation. The policies
# are deleted in the same transaction. If they live in another store they are first marked as
# deleted, as Pulsar does, and from then on no broker creates the ring again.


_ATTEMPTS: Final = 7


class NamespaceDeletion:
    """One deletion; it can be repeated after a failure."""

    def __init__(
        self,
        store: MetadataStore,
        configuration_store: MetadataStore,
        generations: RingGenerations,
    ) -> None:
        self._store = store
        self._configuration_store = configuration_store
        self._generations = generations
        self._has_one_store = store is configuration_store

    async def run(self, namespace: Namespace) -> None:
        """Delete the namespace.

        Raises:
            NamespaceMissing: it does not exist.
            OwnershipError: a bundle is owned, or the namespace changes too often.
        """
        path = paths.policies(namespace)
        if self._has_one_store:
            await self._delete_ring(namespace, [Delete(path)])
            return
        await self._mark(namespace, is_deleted=True)
        try:
            await self._delete_ring(namespace, [])
        except OwnershipError:
            await self._mark(namespace, is_deleted=False)
            raise
        with contextlib.suppress(NoNode):
            await self._configuration_store.delete(path)

    async def check(self, namespace: Namespace) -> None:
        """Check that the namespace can be deleted now; writes nothing.

        Raises:
            NamespaceMissing: it does not exist.
            OwnershipError: a bundle is owned.
        """
        if await self._configuration_store.exists(paths.policies(namespace)) is None:
            raise NamespaceMissing(f"namespace {namespace} does not exist")
        await self._require_unowned(namespace)

    async def _require_unowned(self, namespace: Namespace) -> None:
        owned = await self._store.children(paths.ownership_of(namespace))
        if owned:
            raise OwnershipError(
                f"{namespace}: {len(owned)} bundles are owned; unload the namespace first",
            )

    async def _mark(self, namespace: Namespace, *, is_deleted: bool) -> None:
        path = paths.policies(namespace)
        while True:
            node = await self._configuration_store.get(path)
            if node is None:
                raise NamespaceMissing(f"namespace {namespace} does not exist")
            policies = PoliciesRecord.decode(path, node.data)
            if policies.is_deleted is is_deleted:
                return
            marked = policies.marked(is_deleted=is_deleted)
            with contextlib.suppress(BadVersion, NoNode):
                await self._configuration_store.set(path, marked.encode(), node.stat.version)

    async def _delete_ring(self, namespace: Namespace, along: list[Operation]) -> None:
        made_zxid, is_unsure = 0, False
        for _ in range(_ATTEMPTS):
            policies = await self._configuration_store.exists(paths.policies(namespace))
            made_zxid = made_zxid or (0 if policies is None else policies.czxid)
            if is_unsure and (policies is None or policies.czxid != made_zxid):
                return
            if policies is None:
                raise NamespaceMissing(f"namespace {namespace} does not exist")
            operations = [*await self._operations(namespace), *along]
            try:
                await self._store.multi(operations)
            except MultiFailed as error:
                if isinstance(error.cause, NotEmpty) and error.path == operations[0].path:
                    raise OwnershipError(
                        f"{namespace}: a bundle was acquired meanwhile; unload the namespace first"
                    ) from error
                if not isinstance(error.cause, NoNode | BadVersion):
                    raise error.cause from error
                log.info("cannot delete namespace %s: %s; reading it again", namespace, error)
            except Ambiguous as error:
                log.info("deleted namespace %s or not: %s; reading it again", namespace, error)
                is_unsure = True
            else:
                return
            finally:
                self._generations.forget(namespace)
        raise OwnershipError(f"{namespace} changes too often to be deleted; try again")

    async def _operations(self, namespace: Namespace) -> list[Operation]:
        """Build the operations, the parent's deletion first: it fails if a bundle is owned."""
        parent, local = paths.ownership_of(namespace), paths.local_policies(namespace)
        generation = await self._generations.of(namespace)
        # Without the parent, nothing would conflict with an owner node that is created meanwhile.
        with contextlib.suppress(NodeExists):
            await self._store.create(parent, mode=CreateMode.CONTAINER, make_parents=True)
        await self._require_unowned(namespace)
        operations: list[Operation] = [Delete(parent), generation.bump]
        # A missing ring cannot be created without writing the generation.
        if (ring := await self._store.exists(local)) is not None:
            operations.append(Delete(local, ring.version))
        return operations


# Namespaces and their rings (docs: pulsar-hash).
#
# Policies live in the configuration store; the authoritative ring lives in the local policies
# beside the brokers. If both have a ring, the local policies win.


@dataclass(frozen=True, slots=True)
class LocalPoliciesRecord:
    """The contents of a local-policies node; the ring is built once, not at each lookup."""

    policies: LocalPolicies
    ring: Ring
    stat: Stat

    @property
    def version(self) -> int:
        """The node's data version."""
        return self.ring.version

    def with_ring(self, ring: Ring) -> LocalPolicies:
        """The same policies with another ring; fields that broker-ctl does not know are kept."""
        return replace(self.policies, boundaries=ring.boundaries)


def _decode_of_namespaces(node: Versioned) -> LocalPoliciesRecord:
    namespace = paths.local_policies_namespace(node.path)
    assert namespace is not None
    policies = LocalPolicies.decode(node.path, node.data)
    return LocalPoliciesRecord(policies, policies.ring(namespace, node.stat.version), node.stat)


@dataclass(frozen=True, slots=True)
class RingSnapshot:
    """A ring, and the checks for a transaction that depends on it (I5)."""

    record: LocalPoliciesRecord
    generation: RingGeneration

    @property
    def ring(self) -> Ring:
        """The ring as it was read."""
        return self.record.ring

    @property
    def checks(self) -> tuple[Check, Check]:
        """Checks that fail once the ring was changed, deleted, or deleted and created again."""
        policies = paths.local_policies(self.ring.namespace)
        return self.generation.check, Check(policies, self.ring.version)


class Namespaces:
    """Rings by namespace; creates and deletes namespaces."""

    def __init__(
        self,
        store: MetadataStore,
        configuration_store: MetadataStore,
        *,
        cluster: str,
        default_bundles: Callable[[], int],
        clock: Clock,
        cache_rules: CacheRules,
        rng: random.Random,
    ) -> None:
        self._store = store
        self._configuration_store = configuration_store
        self._cluster = cluster
        self._default_bundles = default_bundles
        self.cache = ValueCache(
            store, (paths.LOCAL_POLICIES,), _decode_of_namespaces, clock, cache_rules, rng=rng
        )
        self.generations = RingGenerations(store, clock, cache_rules, rng=rng)

    async def start(self) -> None:
        """Start the caches and their watches."""
        await self.cache.start()
        await self.generations.cache.start()

    async def close(self) -> None:
        """Stop the caches and their watches."""
        await self.cache.close()
        await self.generations.cache.close()

    async def ring(self, namespace: Namespace) -> Ring:
        """The namespace's ring with the version that acquisitions check.

        Raises:
            NamespaceMissing: neither local policies nor policies exist.
        """
        return (await self.local_policies(namespace)).ring

    def recall_ring(self, namespace: Namespace) -> Ring | None:
        """The ring, if it is in memory; None: `ring` reads it, or says that there is none."""
        entry = self.cache.recall(paths.local_policies(namespace))
        return None if entry is None or entry.answer is None else entry.answer.ring

    async def ring_snapshot(self, namespace: Namespace) -> RingSnapshot:
        """The ring for a transaction that depends on it.

        Raises:
            NamespaceMissing: neither local policies nor policies exist.
        """
        record = await self.local_policies(namespace)
        generation = await self.generations.of(namespace)
        if not generation.has(record.stat):
            # Read after the generation, so the ring is at least as new.
            self.cache.forget(paths.local_policies(namespace))
            record = await self.local_policies(namespace)
        return RingSnapshot(record, generation)

    async def rings(self, namespaces: Iterable[Namespace]) -> Mapping[Namespace, RingSnapshot]:
        """Rings of the namespaces that have local policies, read from the store in one request."""
        wanted = sorted(set(namespaces))
        # The generations first, so that the rings are at least as new.
        generations = await self.generations.read(wanted)
        nodes = await self._store.get_many([paths.local_policies(name) for name in wanted])
        found: dict[Namespace, RingSnapshot] = {}
        for namespace, node in zip(wanted, nodes, strict=True):
            if node is None:
                continue
            try:
                found[namespace] = RingSnapshot(_decode_of_namespaces(node), generations[namespace])
            except CorruptRecord as error:
                log.warning("skipped the ring of %s: %s", namespace, error)
        return found

    async def local_policies(self, namespace: Namespace) -> LocalPoliciesRecord:
        """The local policies; created from the policies if they do not exist."""
        path = paths.local_policies(namespace)
        while True:
            record = await self.cache.get(path)
            if record is not None:
                return record
            node = await self._configuration_store.get(paths.policies(namespace))
            if node is None:
                raise NamespaceMissing(f"namespace {namespace} does not exist")
            policies = PoliciesRecord.decode(node.path, node.data)
            if policies.is_deleted:
                raise NamespaceMissing(f"namespace {namespace} is being deleted")
            local = (
                LocalPolicies()
                if policies.boundaries is None
                else LocalPolicies(policies.boundaries)
            )
            await self._create_local(namespace, local)

    def forget(self, namespace: Namespace) -> None:
        """Evict a cached ring that turned out to be stale."""
        self.cache.forget(paths.local_policies(namespace))
        self.generations.forget(namespace)

    async def create(
        self,
        namespace: Namespace,
        *,
        bundles: int | None = None,
        boundaries: Sequence[int] = (),
        policies: Mapping[str, Any] | None = None,
        is_dry_run: bool = False,
    ) -> Ring:
        """Create a namespace with evenly split hashes, or with these boundaries.

        It is served in this cluster, unless ``policies``, which are written unchanged, name others.
        The tenant may have been deleted since it was checked: then nothing is created. A dry run
        returns the ring that the namespace would have, and writes nothing.

        Raises:
            NamespaceExists: it exists already.
            TenantMissing: its tenant does not exist.
            InvalidName: the number of bundles or the boundaries do not make a ring.
        """
        if boundaries:
            ring = Ring(namespace, tuple(sorted(set(boundaries))), 0)
        else:
            ring = Ring.even(namespace, self._default_bundles() if bundles is None else bundles)
        if is_dry_run:
            if await self._configuration_store.exists(paths.policies(namespace)) is not None:
                raise NamespaceExists(f"namespace {namespace} exists already")
            return ring
        others = {REPLICATION_CLUSTERS: [self._cluster], **(policies or {})}
        payload = PoliciesRecord(ring.boundaries, others).encode()
        try:
            await self._configuration_store.create(paths.policies(namespace), payload)
        except NodeExists as error:
            raise NamespaceExists(f"namespace {namespace} exists already") from error
        except NoNode as error:
            raise TenantMissing(no_tenant(namespace.tenant)) from error
        await self._create_local(namespace, LocalPolicies(ring.boundaries))
        ring = await self.ring(namespace)
        log.info("created namespace %s with %d bundles", namespace, len(ring.bundles))
        return ring

    async def delete(self, namespace: Namespace, *, is_dry_run: bool = False) -> None:
        """Delete a namespace without owned bundles; a dry run only checks that this is possible.

        Raises:
            NamespaceMissing: it does not exist.
            OwnershipError: a bundle is owned; unload the namespace first.
            PolicyConflict: it has partitioned topics, which must be deleted first, as in Pulsar.
        """
        await self._require_no_partitioned_topics(namespace)
        deletion = NamespaceDeletion(self._store, self._configuration_store, self.generations)
        if is_dry_run:
            await deletion.check(namespace)
            return
        try:
            await deletion.run(namespace)
        finally:
            self.forget(namespace)
        log.info("deleted namespace %s", namespace)

    async def _require_no_partitioned_topics(self, namespace: Namespace) -> None:
        for domain in DOMAINS:
            root = paths.partitioned_topics(namespace, domain)
            topics = await self._configuration_store.children(root)
            if topics:
                raise PolicyConflict(
                    f"{namespace}: {len(topics)} partitioned {domain} topics are in it; "
                    "delete them first",
                )

    async def publish_ring(self, namespace: Namespace) -> None:
        """Copy the ring into the policies, where other tools look for it; best effort."""
        path = paths.policies(namespace)
        while (node := await self._configuration_store.get(path)) is not None:
            # Read after the policies: if a newer ring is written in between, this write fails.
            self.forget(namespace)
            ring = await self.ring(namespace)
            policies = replace(PoliciesRecord.decode(path, node.data), boundaries=ring.boundaries)
            try:
                await self._configuration_store.set(path, policies.encode(), node.stat.version)
            except BadVersion:
                # Another process wrote first; its other changes must not be overwritten.
                continue
            return

    async def tenants(self) -> list[str]:
        """Names of all tenants."""
        return await self._configuration_store.children(paths.POLICIES)

    async def of_tenant(self, tenant: str) -> list[Namespace]:
        """Namespaces of one tenant, without the cluster nodes of V1 names."""
        names = await self._configuration_store.children(paths.tenant(tenant))
        found = (paths.policies_namespace(f"{paths.tenant(tenant)}/{name}") for name in names)
        return [namespace for namespace in found if namespace is not None]

    async def all(self) -> list[Namespace]:
        """All namespaces."""
        return [ns for tenant in await self.tenants() for ns in await self.of_tenant(tenant)]

    async def _create_local(self, namespace: Namespace, local: LocalPolicies) -> None:
        """Try once to create the local policies; the caller reads the ring again in any case."""
        path = paths.local_policies(namespace)
        generation = await self.generations.of(namespace)
        if await self._store.exists(path) is not None:
            self.cache.forget(path)
            return
        # From here until the transaction there is no ring, or its generation is another one: no
        # bundle is acquired meanwhile. Those that are owned outlived a ring that was deleted.
        owned = await self._owned(namespace)
        if owned:
            ring = Ring(namespace, local.boundaries, 0).around(owned)
            local = replace(local, boundaries=ring.boundaries)
            log.warning("%s was deleted: made again around %d owned bundles", path, len(owned))
        with self.cache.writing(path), self.generations.writing(namespace):
            try:
                await self._store.multi([generation.bump, Create(path, local.encode())])
            except MultiFailed as error:
                if error.index == 1 and isinstance(error.cause, NoNode):
                    await self._create_parent(path)
                elif not isinstance(error.cause, NodeExists | NoNode | BadVersion):
                    raise error.cause from error
                log.debug("cannot create %s: %s; reading it again", path, error)
            except Ambiguous as error:
                log.info("created %s or not: %s; reading it again", path, error)

    async def _owned(self, namespace: Namespace) -> list[Bundle]:
        root = paths.ownership_of(namespace)
        names = await self._store.children(root)
        found = (paths.owned_bundle(f"{root}/{name}") for name in names)
        return [bundle for bundle in found if bundle is not None]

    async def _create_parent(self, path: str) -> None:
        try:
            await self._store.create(parent_of(path), make_parents=True)
        except NodeExists:
            return


def no_tenant(name: str) -> str:
    """The error text for a missing tenant; it begins with Pulsar's text."""
    return f"Tenant does not exist: {name}; broker-ctl tenants create {name} makes it"
