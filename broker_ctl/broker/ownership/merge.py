"""Merging two adjacent bundles into one, which stays on this broker (docs: bundle-merge).

The mirror image of `split.py`. Pulsar has no merge.
"""

from collections.abc import Sequence

from broker_ctl.broker.ownership.held_bundles import OwnedBundle, OwnedBundles
from broker_ctl.broker.ownership.ring_change import RingChange, RingChanger
from broker_ctl.coordination.locks.lock import Lock
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.store.interface import Operation

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
