"""Boundaries at which a bundle would be split, from what its owner knows of its topics."""

from collections.abc import Callable

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import ring_hash
from broker_ctl.core.rules.rules import SplitRules
from broker_ctl.core.strategies.splitting.algorithms import (
    specified_positions_divide,
)
from broker_ctl.core.strategies.splitting.catalog import BY_TRAFFIC, SPLITTING
from broker_ctl.core.strategies.splitting.no_boundary import explain_no_boundary
from broker_ctl.core.strategies.splitting.request import SplitAlgorithm, SplitRequest, TopicRate
from broker_ctl.dataplane.bundles.interface import DataPlane


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
        """
        cut = SPLITTING.find(algorithm)
        if wanted and cut is not specified_positions_divide:
            return wanted, ""
        request = await self._request(bundle, cut, wanted)
        points = cut(request)
        return points, "" if points else explain_no_boundary(cut, request)

    async def _request(
        self, bundle: Bundle, cut: SplitAlgorithm, wanted: tuple[int, ...]
    ) -> SplitRequest:
        if cut not in BY_TRAFFIC:
            hashes = tuple(map(ring_hash, await self._dataplane.topics(bundle)))
            return SplitRequest(bundle.range, hashes, wanted)
        rates = tuple(
            TopicRate(ring_hash(name), stats.msg_rate, stats.throughput)
            for name, stats in (await self._dataplane.topic_statistics(bundle)).items()
        )
        hashes = tuple(topic.position for topic in rates)
        return SplitRequest(bundle.range, hashes, rates=rates, rules=self._rules())
