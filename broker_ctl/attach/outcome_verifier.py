"""Verifies preconditions and outcomes on a Pulsar cluster, with fresh reads each time.

The answer of an admin API is not enough: a request without an answer may have been executed. The
brokers themselves go by owner nodes and rings (docs: pulsar-admin-api).
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

from broker_ctl.attach.cluster import decode_ring
from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.balancer.execution.transfer import CurrentOwner, read_owner
from broker_ctl.core.model.names import Bundle, Ring
from broker_ctl.errors import BundleGone, NotOwner, OperationTimeout
from broker_ctl.retry import retry
from broker_ctl.store import paths
from broker_ctl.store.forwarding import set_watch

# A notification may be lost with the connection, so the node is also read at this interval.
_LOOK_S: Final = 1.0
# A split shows in the ring only: between two reads of it.
_POLL_S: Final = 0.25


class OutcomeVerifier:
    """Reads owner nodes and rings, each after a sync."""

    def __init__(self, dependencies: BalancerDependencies) -> None:
        self._dependencies = dependencies

    async def ring_with(self, bundle: Bundle) -> Ring:
        """Read the ring of the bundle's namespace.

        Raises:
            BundleGone: the ring does not have the bundle.
            StoreError: the ring cannot be read.
        """
        ring = await self._newest_ring(bundle)
        if bundle not in ring:
            raise BundleGone(f"{bundle} is not a bundle of its namespace")
        return ring

    async def owned_by(self, bundle: Bundle, broker_id: str) -> CurrentOwner:
        """Read the owner node, which must name this broker.

        Raises:
            NotOwner: another broker owns the bundle, or none.
            StoreError: the node cannot be read.
        """
        owner = await read_owner(self._dependencies.store, bundle)
        if owner is None or owner.broker_id != broker_id:
            whose = "no broker" if owner is None else owner.broker_id
            raise NotOwner(f"{bundle} is owned by {whose}, not by {broker_id}")
        return owner

    async def next_owner(self, bundle: Bundle, token: int, limit_s: float) -> CurrentOwner | None:
        """The owner after the one with ``token``, or the current one at the limit.

        Raises:
            OperationTimeout, StoreError: the store did not answer in time: the owner is unknown.
        """
        clock, owner, read_s = self._dependencies.clock, None, -math.inf
        try:
            async with asyncio.timeout(limit_s), self._changes_of(bundle) as changed:
                while True:
                    changed.clear()
                    owner = await retry(
                        partial(read_owner, self._dependencies.store, bundle),
                        f"cannot read the owner of {bundle}",
                        rng=self._dependencies.rng,
                    )
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
        """An event that is set whenever the owner node of the bundle has changed."""
        changed = asyncio.Event()
        path = paths.ownership(bundle)
        stop_watching = await set_watch(
            self._dependencies.store, path, lambda _: changed.set(), rng=self._dependencies.rng
        )
        try:
            yield changed
        finally:
            stop_watching()

    async def children(self, parent: Bundle, limit_s: float) -> list[Bundle]:
        """The children of a bundle; empty if it still exists at the limit. Checks at least once.

        Raises:
            StoreError: the store did not answer in time: the result of the split is unknown.
        """
        clock = self._dependencies.clock
        asked_s = clock.now_s()
        # An unanswered read does not show whether the bundle was split.
        last_s = asked_s + max(limit_s, self._dependencies.rules().load_s)
        while True:
            ring = await retry(
                partial(self._newest_ring, parent),
                f"cannot read the ring of {parent.namespace}",
                rng=self._dependencies.rng,
                limit_s=last_s - clock.now_s(),
            )
            if parent not in ring:
                low, high = parent.range.low, parent.range.high
                return [b for b in ring.bundles if low <= b.range.low and b.range.high <= high]
            if clock.now_s() >= asked_s + limit_s:
                return []
            await asyncio.sleep(_POLL_S)

    async def _newest_ring(self, bundle: Bundle) -> Ring:
        path = paths.local_policies(bundle.namespace)
        await self._dependencies.store.sync(path)
        node = await self._dependencies.store.get(path)
        return (
            await self._dependencies.ring_of(bundle.namespace)
            if node is None
            else decode_ring(node)
        )
