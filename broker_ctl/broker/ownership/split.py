"""Splitting a bundle into children, which stay on this broker (docs: bundle-split)."""

from collections.abc import Callable, Sequence

from broker_ctl.broker.ownership.held_bundles import OwnedBundle, OwnedBundles
from broker_ctl.broker.ownership.ring_change import RingChange, RingChanger
from broker_ctl.broker.ownership.split_boundaries import Boundaries
from broker_ctl.coordination.locks.lock import Lock
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.rules import SplitRules
from broker_ctl.core.strategies.splitting.catalog import SPLITTING
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.store.interface import Operation


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
