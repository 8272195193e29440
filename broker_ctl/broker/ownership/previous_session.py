"""Bundles that an earlier session of this broker still has: re-acquired once it has ended.

They were closed, since all others would have waited for them (`reacquire.py`). No other broker can
acquire them meanwhile: their nodes stand, and after that the grace is for this broker (I7).
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
    """One act of the session; it ends when each is here again, or another broker's."""

    def __init__(
        self, owned_bundles: OwnedBundles, acquire: Callable[[Bundle], Coroutine[Any, Any, int]]
    ) -> None:
        self._owned_bundles = owned_bundles
        self._acquire = acquire

    def begin(self, bundles: Sequence[Bundle]) -> None:
        """Take them again, each when its node has gone."""
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
                log.info("%s cannot be re-acquired yet: %s; retrying", bundle, error)
            else:
                return
            await asyncio.sleep(_RETRY_S)
