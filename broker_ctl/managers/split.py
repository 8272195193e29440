"""Splitting a bundle: its children take its place, and stay here (design: split)."""

from collections.abc import Callable, Sequence

from broker_ctl.coordination.lock import Lock
from broker_ctl.core.bundle import Bundle
from broker_ctl.core.hashing import ring_hash
from broker_ctl.core.ownership import BundleState
from broker_ctl.core.rules import SplitRules
from broker_ctl.core.splitting.catalog import BY_TRAFFIC, SPLITTING
from broker_ctl.core.splitting.request import SplitAlgorithm, SplitRequest, TopicRate
from broker_ctl.core.splitting.specified_positions_divide import specified_positions_divide
from broker_ctl.dataplane.interface import DataPlane
from broker_ctl.managers.holdings import Holdings, OwnedBundle
from broker_ctl.managers.ring_change import Change, RingChanger
from broker_ctl.store.interface import Operation


class Splitter:
    """Runs on the parent's owner."""

    def __init__(
        self,
        *,
        holdings: Holdings,
        dataplane: DataPlane,
        changer: RingChanger,
        rules: Callable[[], SplitRules],
    ) -> None:
        self._holdings = holdings
        self._dataplane = dataplane
        self._changer = changer
        self._rules = rules
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
        parent = held.bundle
        try:
            points = await self._points(parent, cut, boundaries)
            if not points:
                self._changer.serve_on(held, lock)
                return ()
            change = Change(
                ((held, lock),), parent.cut(points), lambda ring: ring.split(parent, points)
            )
            nodes = await self._changer.commit(change, guards)
        except BaseException:
            self._changer.serve_on(held, lock)
            raise
        made = self._changer.hold(change, nodes, BundleState.SPLITTING)
        self.splits += 1
        tokens = {child.bundle: child.token for child in made}
        await self._changer.serve(made, self._dataplane.split(parent, tokens))
        return tuple(child.bundle for child in made)

    async def _points(
        self, bundle: Bundle, cut: SplitAlgorithm, boundaries: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Where to cut: as the order says, or as the algorithm finds; no boundary: nowhere.

        Raises:
            DataPlaneError: what the algorithm must know is not to be had.
        """
        if boundaries and cut is not specified_positions_divide:
            return boundaries
        if cut in BY_TRAFFIC:
            return cut(await self._traffic(bundle))
        hashes = tuple(map(ring_hash, await self._dataplane.topics(bundle)))
        return cut(SplitRequest(bundle.range, hashes, boundaries))

    async def _traffic(self, bundle: Bundle) -> SplitRequest:
        rates = tuple(
            TopicRate(ring_hash(name), stats.msg_rate, stats.throughput)
            for name, stats in (await self._dataplane.topic_statistics(bundle)).items()
        )
        hashes = tuple(topic.position for topic in rates)
        return SplitRequest(bundle.range, hashes, rates=rates, rules=self._rules())
