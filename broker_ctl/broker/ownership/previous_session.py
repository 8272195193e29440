"""Bundles still owned by an earlier session of this broker: re-acquired once it has ended.

They were closed, because authority for all other bundles would have waited for them
(`reacquire.py`). No other broker can acquire them meanwhile: their nodes exist, and afterwards the
grace period reserves them for this broker (I7).
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, Final

from broker_ctl.broker.ownership.held_bundles import OwnedBundles
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.errors import BrokerCtlError, Draining, SessionError
from broker_ctl.retry import retry

log = logging.getLogger(__name__)

_IN_FLIGHT: Final = 32


class PreviousSession:
    """An act that ends once each bundle is owned here again, or by another broker."""

    def __init__(
        self,
        owned_bundles: OwnedBundles,
        acquire: Callable[[Bundle], Coroutine[Any, Any, int]],
        *,
        rng: random.Random,
    ) -> None:
        self._rng = rng
        self._owned_bundles = owned_bundles
        self._acquire = acquire

    def begin(self, bundles: Sequence[Bundle]) -> None:
        """Re-acquire each bundle once its node is gone."""
        if bundles:
            self._owned_bundles.start(self._reacquire(bundles), f"{len(bundles)} bundles return")

    async def _reacquire(self, bundles: Sequence[Bundle]) -> None:
        waiting = iter(bundles)
        async with asyncio.TaskGroup() as group:
            for number in range(min(_IN_FLIGHT, len(bundles))):
                group.create_task(self._reacquire_each(waiting), name=f"return {number}")

    async def _reacquire_each(self, waiting: Iterator[Bundle]) -> None:
        for bundle in waiting:
            await self._reacquire_until_done(bundle)

    async def _reacquire_until_done(self, bundle: Bundle) -> None:
        try:
            await retry(
                partial(self._acquire, bundle),
                f"cannot re-acquire {bundle} yet",
                rng=self._rng,
                judge=lambda error: error.can_retry and not isinstance(error, Draining),
            )
        except SessionError:
            raise
        except BrokerCtlError as error:
            log.warning("%s is not re-acquired: %s", bundle, error)
