"""Verifies preconditions and outcomes on a Pulsar cluster, with fresh reads each time.

The answer of an admin API says little: a request without one may have been carried out. Owner
nodes and rings are what the brokers themselves go by (docs: pulsar-admin-api).
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from broker_ctl.balancer.attached.cluster import decode_ring
from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.balancer.execution.transfer import CurrentOwner, read_owner
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.namespace import Ring
from broker_ctl.errors import BundleGone, NotOwner, OperationTimeout, StoreError
from broker_ctl.store import paths
from broker_ctl.store.watching import set_watch

# A notification may fall into a lost connection: look again now and then.
_LOOK_S: Final = 1.0
_RETRY_S: Final = 0.25


class OutcomeVerifier:
    """Reads owner nodes and rings behind all that was committed so far."""

    def __init__(self, dependencies: BalancerDependencies) -> None:
        self._dependencies = dependencies

    async def ring_with(self, bundle: Bundle) -> Ring:
        """The ring of its namespace.

        Raises:
            BundleGone: it has no such bundle any more.
            StoreError: it cannot be read.
        """
        ring = await self._newest_ring(bundle)
        if bundle not in ring:
            raise BundleGone(f"{bundle} is not a bundle of its namespace")
        return ring

    async def owned_by(self, bundle: Bundle, broker_id: str) -> CurrentOwner:
        """Its owner node.

        Raises:
            NotOwner: another broker owns it, or none.
            StoreError: it cannot be read.
        """
        owner = await read_owner(self._dependencies.store, bundle)
        if owner is None or owner.broker_id != broker_id:
            whose = "no broker" if owner is None else owner.broker_id
            raise NotOwner(f"{bundle} is owned by {whose}, not by {broker_id}")
        return owner

    async def next_owner(self, bundle: Bundle, token: int, limit_s: float) -> CurrentOwner | None:
        """The owner after the one with ``token``, or the current one at the limit.

        Raises:
            OperationTimeout, StoreError: the store did not answer to the end: who owns it is not
                known.
        """
        clock, owner, read_s = self._dependencies.clock, None, -math.inf
        try:
            async with asyncio.timeout(limit_s), self._changes_of(bundle) as changed:
                while True:
                    changed.clear()
                    try:
                        owner = await read_owner(self._dependencies.store, bundle)
                    except StoreError as error:
                        if not error.can_retry:
                            raise
                        await asyncio.sleep(_RETRY_S)
                        continue
                    read_s = clock.now_s()
                    if owner is not None and owner.token != token:
                        return owner
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_S):
                            await changed.wait()
        except TimeoutError:
            if clock.now_s() - read_s > 2 * _LOOK_S:
                raise OperationTimeout(
                    f"{bundle} was asked for, and who owns it now is not known: its owner node "
                    f"could not be read within {limit_s:g} s"
                ) from None
            return owner

    @asynccontextmanager
    async def _changes_of(self, bundle: Bundle) -> AsyncIterator[asyncio.Event]:
        """Set whenever the owner node of a bundle has changed."""
        changed = asyncio.Event()
        path = paths.ownership(bundle)
        stop_watching = await set_watch(self._dependencies.store, path, lambda _: changed.set())
        try:
            yield changed
        finally:
            stop_watching()

    async def children(self, parent: Bundle, limit_s: float) -> list[Bundle]:
        """The children of a bundle; empty if it still exists at the limit. Checks at least once.

        Raises:
            StoreError: the store did not answer to the end: what it is now is not known.
        """
        clock = self._dependencies.clock
        asked_s = clock.now_s()
        # A store that does not answer at once says nothing of the split.
        last_s = asked_s + max(limit_s, self._dependencies.rules().load_s)
        while True:
            try:
                ring = await self._newest_ring(parent)
            except StoreError as error:
                if not error.can_retry or clock.now_s() >= last_s:
                    raise
            else:
                if parent not in ring:
                    low, high = parent.range.low, parent.range.high
                    return [b for b in ring.bundles if low <= b.range.low and b.range.high <= high]
                if clock.now_s() >= asked_s + limit_s:
                    return []
            await asyncio.sleep(_RETRY_S)

    async def _newest_ring(self, bundle: Bundle) -> Ring:
        path = paths.local_policies(bundle.namespace)
        await self._dependencies.store.sync(path)
        node = await self._dependencies.store.get(path)
        return (
            await self._dependencies.ring_of(bundle.namespace)
            if node is None
            else decode_ring(node)
        )
