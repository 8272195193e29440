"""Watches whether the broker process is alive and has not restarted (I11).

A new instance has no bundles loaded, so bundles that are owned and not loaded are loaded again.
Each check does this, because an act on a bundle may have been under way during the check before. A
bundle that is loaded but not owned, or not under that token, is fenced once two consecutive checks
find it so. A silent process may still serve: this broker then answers no lookups, waits until the
granted authority has expired, and only then releases the bundles.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from broker_ctl.broker.ownership.ownership import Ownership
from broker_ctl.clock import Clock
from broker_ctl.coordination.locks import Lock
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.names import Bundle
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.errors import DataPlaneError, DataPlaneUnreachable
from broker_ctl.retry import Backoff, is_any, retry

log = logging.getLogger(__name__)

_ASKS: Final = 3


class DataPlaneWatch:
    """Polls the broker process several times within the failure timeout."""

    def __init__(
        self,
        dataplane: DataPlane,
        ownership: Ownership,
        clock: Clock,
        failure_timeout_s: float,
        *,
        rng: random.Random,
    ) -> None:
        self._rng = rng
        self._dataplane = dataplane
        self._ownership = ownership
        self._clock = clock
        self._timeout_s = failure_timeout_s
        self._unowned: frozenset[tuple[Bundle, int]] = frozenset()
        self.restarts = 0
        self.fenced = 0

    async def start(self) -> None:
        """Start the data plane; wait as long as it takes for the broker process to answer."""
        await self._until_answered(self._dataplane.start)

    async def wait_answering(self) -> None:
        """Return once the broker process answers."""
        await self._until_answered(self._dataplane.loaded)

    async def _until_answered(self, ask: Callable[[], Awaitable[object]]) -> None:
        period_s = self._timeout_s / _ASKS
        await retry(
            ask,
            "the data plane does not answer",
            rng=self._rng,
            judge=is_any(DataPlaneError),
            backoff=Backoff(first_s=period_s, factor=1.0, max_s=period_s),
            level=logging.WARNING,
        )

    async def run(self) -> None:
        """Watch until cancelled.

        Raises:
            DataPlaneUnreachable: the process was silent for the whole failure timeout.
        """
        instance_id = self._dataplane.instance_id
        heard_s = self._clock.now_s()
        self._unowned = frozenset()
        while True:
            await asyncio.sleep(self._timeout_s / _ASKS)
            owned = self._owned()
            try:
                loaded = await self._dataplane.loaded()
            except DataPlaneError as error:
                silent_s = self._clock.now_s() - heard_s
                if silent_s > self._timeout_s:
                    raise DataPlaneUnreachable(f"silent for {silent_s:.1f} s: {error}") from error
                continue
            heard_s = self._clock.now_s()
            if self._dataplane.instance_id != instance_id:
                self.restarts += 1
                log.warning("the data plane restarted: loading all owned bundles again")
                instance_id = self._dataplane.instance_id
            left = loaded.keys() - await self._fence_unowned(loaded)
            await self._load_again({b: lock for b, lock in owned.items() if b not in left})

    async def _fence_unowned(self, loaded: Mapping[Bundle, int]) -> set[Bundle]:
        """Fence what is loaded but not owned in two checks in a row: acts under way end in between.

        A request without an answer may be executed long after everything that compensated for it.
        """
        found = frozenset(one for one in loaded.items() if self._is_unowned(*one))
        again, self._unowned = found & self._unowned, found
        fenced: set[Bundle] = set()
        for bundle, token in sorted(again):
            # It may have been acquired while others were fenced.
            if not self._is_unowned(bundle, token):
                continue
            log.warning(
                "%s is loaded under token %d but not owned under it: fencing it", bundle, token
            )
            try:
                await self._dataplane.fence(bundle)
            except DataPlaneError as error:
                log.warning("cannot fence %s: %s; retrying at the next check", bundle, error)
            else:
                fenced.add(bundle)
        self.fenced += len(fenced)
        return fenced

    def _is_unowned(self, bundle: Bundle, token: int) -> bool:
        """Return whether it is not owned under that token, and no act on its hashes runs."""
        held = self._ownership.owned()
        if bundle in held:
            return held[bundle].state is BundleState.OWNED and held[bundle].token != token
        near = (one for one in held.values() if one.bundle.overlaps(bundle))
        return all(one.state is BundleState.OWNED for one in near)

    def _owned(self) -> dict[Bundle, Lock | None]:
        """Bundles that the data plane has confirmed, with their locks."""
        held = self._ownership.owned()
        return {b: one.lock for b, one in held.items() if one.state is BundleState.OWNED}

    async def _load_again(self, missing: Mapping[Bundle, Lock | None]) -> None:
        for bundle, lock in missing.items():
            held = self._ownership.owned().get(bundle)
            # It may have been released, split or acquired again since the listing, or while other
            # bundles were loaded.
            if held is None or held.state is not BundleState.OWNED or held.lock is not lock:
                continue
            try:
                await self._dataplane.load(bundle, held.token)
            except DataPlaneError as error:
                log.warning("cannot load %s again: %s; retrying at the next check", bundle, error)
