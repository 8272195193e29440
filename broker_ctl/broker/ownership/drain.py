"""Drain: the release of all bundles within a deadline."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from broker_ctl.broker.ownership.held_bundles import OwnedBundles
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.errors import BrokerCtlError

log = logging.getLogger(__name__)

_IN_FLIGHT: Final = 8
_PAUSE_S: Final = 0.1

# Releases an owned bundle with this token within a number of seconds.
Release = Callable[[Bundle, int, float], Awaitable[object]]


async def drain(owned_bundles: OwnedBundles, release: Release, deadline_s: float) -> int:
    """Release in rounds; returns the number of bundles that were not released in time.

    Bundles that are being acquired, split or released in one round are released in a later one.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + deadline_s
    try:
        async with asyncio.timeout_at(end_s):
            while owned_bundles.held:
                await _release_all(owned_bundles, release, lambda: end_s - loop.time())
                await asyncio.sleep(_PAUSE_S if owned_bundles.held else 0)
    except TimeoutError:
        log.warning("drain: not every bundle was released within %.0f s", deadline_s)
    return len(owned_bundles.held)


async def _release_all(
    owned_bundles: OwnedBundles, release: Release, left_s: Callable[[], float]
) -> None:
    waiting = iter(owned_bundles.in_state(BundleState.OWNED))

    async def work() -> None:
        for held in waiting:
            try:
                await release(held.bundle, held.token, left_s())
            except BrokerCtlError as error:
                log.warning("drain: %s is not released: %s; retrying", held.bundle, error)

    async with asyncio.TaskGroup() as group:
        for number in range(_IN_FLIGHT):
            group.create_task(work(), name=f"drain {number}")
