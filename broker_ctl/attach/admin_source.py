"""Whether what was read of a cluster by its admin API alone is fresh enough to act on it."""

import asyncio
import logging
import random
from typing import Any, Final

from broker_ctl.attach.metadata_source import Cause, Outdated, log_change
from broker_ctl.attach.projection.projection import ClusterProjection
from broker_ctl.clock import Clock
from broker_ctl.errors import PeerRefused, PeerUnreachable, StartError
from broker_ctl.retry import is_any, retry

_PERIOD_S: Final = 2.0


class AdminSource:
    """See `ClusterSource`: the brokers themselves answer, whichever store they use.

    Args:
        max_age_s: age of the newest look at the cluster after which nothing is decided by it.
    """

    def __init__(
        self, projection: ClusterProjection, clock: Clock, rng: random.Random, *, max_age_s: float
    ) -> None:
        self._projection = projection
        self._clock = clock
        self._rng = rng
        self._max_age_s = max_age_s
        self.outdated: Outdated | None = None

    async def start(self) -> None:
        """See `ClusterSource.start`."""
        try:
            await retry(
                self._projection.start,
                "cannot read the cluster",
                rng=self._rng,
                judge=is_any(PeerUnreachable),
                level=logging.WARNING,
            )
        except PeerRefused as error:
            raise StartError(f"the cluster cannot be read by its admin API: {error}") from error

    async def close(self) -> None:
        """See `ClusterSource.close`."""
        await self._projection.close()

    def stuck(self) -> list[dict[str, Any]]:
        """See `ClusterSource.stuck`."""
        return self._projection.stuck()

    async def check(self) -> Outdated | None:
        """See `ClusterSource.check`."""
        age_s, found = self._clock.now_s() - self._projection.read_s, None
        if age_s > self._max_age_s:
            why = self._projection.failure or "a look takes that long"
            found = Outdated(
                Cause.SILENCE,
                f"the cluster could not be read for more than {self._max_age_s:g} s, so bundles "
                f"may be elsewhere by now: {why}",
            )
        log_change(self.outdated, found)
        self.outdated = found
        return found

    async def watch(self) -> None:
        """See `ClusterSource.watch`."""
        while True:
            await self.check()
            await asyncio.sleep(_PERIOD_S)

    async def obstacle(self) -> str:
        """See `ClusterSource.obstacle`."""
        found = await self.check()
        return "" if found is None else found.why
