"""Bundles still owned by an earlier session of this broker: re-acquired once it has ended.

They were closed, because authority for all other bundles would have waited for them
(`reacquire.py`). No other broker can acquire them meanwhile: their nodes exist, and afterwards the
grace period reserves them for this broker (I7).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final

from broker_ctl.broker.ownership.held_bundles import OwnedBundles
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.errors import BrokerCtlError, Draining, SessionError

log = logging.getLogger(__name__)

_RETRY_S: Final = 0.5
_IN_FLIGHT: Final = 32


class PreviousSession:
    """An act that ends once each bundle is owned here again, or by another broker."""

    def __init__(
        self, owned_bundles: OwnedBundles, acquire: Callable[[Bundle], Coroutine[Any, Any, int]]
    ) -> None:
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
        while True:
            try:
                await self._acquire(bundle)
            except SessionError:
                raise
            except BrokerCtlError as error:
                if not error.can_retry or isinstance(error, Draining):
                    log.warning("%s is not re-acquired: %s", bundle, error)
                    return
                log.info("cannot re-acquire %s yet: %s; retrying", bundle, error)
            else:
                return
            await asyncio.sleep(_RETRY_S)
