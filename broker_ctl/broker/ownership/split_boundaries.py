"""Boundaries at which a bundle would be split, from what its owner knows of its topics."""

from collections.abc import Callable

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import ring_hash
from broker_ctl.core.rules.rules import SplitRules
from broker_ctl.core.strategies.splitting.algorithms import (
    specified_positions_divide,
    traffic_equally_divide,
)
from broker_ctl.core.strategies.splitting.catalog import BY_TRAFFIC, SPLITTING
from broker_ctl.core.strategies.splitting.hot_topics import dominant_position
from broker_ctl.core.strategies.splitting.no_boundary import explain_no_boundary
from broker_ctl.core.strategies.splitting.request import SplitAlgorithm, SplitRequest, TopicRate
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.errors import HotTopic


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
