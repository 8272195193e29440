"""Deletion of a namespace: all of it or nothing, and only while none of its bundles is owned.

The ring and the parent of the owner nodes are deleted in one transaction. It fails while an owner
node exists; a later acquisition finds no ring, or one of another generation. The policies are
deleted in the same transaction. If they live in another store they are first marked as deleted, as
Pulsar does, and from then on no broker creates the ring again.
"""

import contextlib
import logging
from typing import Final

from broker_ctl.broker.namespaces.ring_generations import RingGenerations
from broker_ctl.core.model.names import Namespace
from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    MultiFailed,
    NamespaceMissing,
    NodeExists,
    NoNode,
    NotEmpty,
    OwnershipError,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode, Delete, MetadataStore, Operation
from broker_ctl.store.records.policies import PoliciesRecord

log = logging.getLogger(__name__)

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
