"""Read, change, write back; retry where another writer was quicker (docs: pulsar-caches)."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.errors import BadVersion, NodeExists, NoNode, StoreError
from broker_ctl.retry import Backoff
from broker_ctl.store.caches.rules import UpdateRules
from broker_ctl.store.caches.values import Found, ValueCache
from broker_ctl.store.interface import MetadataStore, Stat

T = TypeVar("T")


class Updates(Generic[T]):
    """Changes to values of one kind, each based on the newest version.

    A change is called once for each attempt: it is pure, quick and cannot await. What it raises
    ends the call. A write whose outcome is unknown (`Ambiguous`) is not made again.
    """

    def __init__(
        self,
        store: MetadataStore,
        cache: ValueCache[T],
        encode: Callable[[T], bytes],
        *,
        clock: Clock,
        rng: random.Random,
        rules: UpdateRules,
    ) -> None:
        self._store = store
        self._cache = cache
        self._encode = encode
        self._clock = clock
        self._rng = rng
        self._rules = rules

    async def read_modify_update(self, path: str, change: Callable[[T], T]) -> Stat:
        """Replace a value by the result of ``change``.

        Raises:
            NoNode: the node does not exist.
            BadVersion: other writers were quicker until the time was over; nothing was written.
            CorruptRecord: the payload does not decode.
        """

        async def attempt(found: Found[T] | None) -> Stat:
            if found is None:
                raise NoNode(path)
            data = self._encode(change(found.value))
            return await self._store.set(path, data, found.version)

        return await self._until_first(path, attempt, (BadVersion,))

    async def read_modify_update_or_create(
        self, path: str, change: Callable[[T | None], T]
    ) -> Stat:
        """As `read_modify_update`; an absent node is made of what ``change`` makes of None."""

        async def attempt(found: Found[T] | None) -> Stat:
            data = self._encode(change(None if found is None else found.value))
            if found is None:
                return (await self._store.create(path, data, make_parents=True)).stat
            return await self._store.set(path, data, found.version)

        # A deletion that was quicker is a lost race, too.
        return await self._until_first(path, attempt, (BadVersion, NodeExists, NoNode))

    async def _until_first(
        self,
        path: str,
        attempt: Callable[[Found[T] | None], Awaitable[Stat]],
        lost: tuple[type[StoreError], ...],
    ) -> Stat:
        """Attempt until no other was quicker, or the time is over."""
        began_s, attempts = self._clock.now_s(), 1
        backoff = Backoff(self._rules.first_s, 2.0, self._rules.most_s)
        found = await self._cache.find(path)
        while True:
            try:
                with self._cache.writing(path):
                    return await attempt(found)
            except lost as error:
                took_s = self._clock.now_s() - began_s
                left_s = self._rules.stop_s - took_s
                if left_s <= 0:
                    raise BadVersion(
                        f"{path}: others were quicker {attempts} times in {took_s:.1f} s"
                    ) from error
            # Full jitter: writers that collided once do not collide again at the same moment.
            await asyncio.sleep(min(backoff.delay_s(attempts, self._rng), left_s))
            attempts += 1
            # Read past the cache: the event of the quicker write may still be on its way.
            found = await self._cache.find_in_store(path)
