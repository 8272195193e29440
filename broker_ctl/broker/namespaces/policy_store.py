"""Nodes of the configuration store that operators change, and the flag that freezes them."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.errors import NoNode, PoliciesReadOnly
from broker_ctl.store import paths
from broker_ctl.store.caches.rules import CacheRules, UpdateRules
from broker_ctl.store.caches.updates import Updates
from broker_ctl.store.caches.values import ValueCache
from broker_ctl.store.interface import MetadataStore, Versioned

T = TypeVar("T")

# Nobody waits longer for one who changes the same node.
UPDATE_RULES: Final = UpdateRules(stop_s=10.0)


class PolicyFlag:
    """Pulsar's flag that makes policies read-only: a node, whatever it holds.

    It is read anew at each write: whoever sets it may count on it from then on.
    """

    def __init__(self, configuration_store: MetadataStore) -> None:
        self._store = configuration_store

    async def is_read_only(self) -> bool:
        """Whether it stands."""
        return await self._store.exists(paths.POLICIES_READ_ONLY) is not None

    async def require_writable(self) -> None:
        """Refuse a change of policies while it stands.

        Raises:
            PoliciesReadOnly: it does.
        """
        if await self.is_read_only():
            raise PoliciesReadOnly(
                f"policies are read-only while {paths.POLICIES_READ_ONLY} exists in the "
                "configuration store; delete that node to change them again",
            )


@dataclass(frozen=True, slots=True)
class PolicyStore:
    """Where policies lie, and what writing them takes."""

    store: MetadataStore
    flag: PolicyFlag
    clock: Clock
    rng: random.Random

    @classmethod
    def of(cls, store: MetadataStore, clock: Clock, rng: random.Random) -> "PolicyStore":
        """With the flag of the same store."""
        return cls(store, PolicyFlag(store), clock, rng)


class PolicyNodes(Generic[T]):
    """Nodes of one kind: read from the store each time, written by version.

    Operators ask seldom, and want to see what they have just written, on whichever broker.
    """

    def __init__(
        self,
        policy_store: PolicyStore,
        root: str,
        decode: Callable[[Versioned], T],
        encode: Callable[[T], bytes],
    ) -> None:
        self._policy_store = policy_store
        # Never started: it reads, and counts what does not decode.
        self._reader = ValueCache(
            policy_store.store, (root,), decode, policy_store.clock, CacheRules()
        )
        self._updates = Updates(
            policy_store.store,
            self._reader,
            encode,
            clock=policy_store.clock,
            rng=policy_store.rng,
            rules=UPDATE_RULES,
        )

    async def get(self, path: str) -> T | None:
        """The value, None where there is none.

        Raises:
            CorruptRecord: it does not decode.
        """
        return await self._reader.get(path)

    async def change(
        self, path: str, change: Callable[[T | None], T], *, is_dry_run: bool = False
    ) -> None:
        """Write what ``change`` makes of the newest value, or of None; what it raises ends it.

        A dry run makes it, and writes nothing.

        Raises:
            PoliciesReadOnly: the flag stands.
            BadVersion: others were quicker, again and again.
        """
        await self._policy_store.flag.require_writable()
        if is_dry_run:
            change(await self.get(path))
            return
        await self._updates.read_modify_update_or_create(path, change)

    async def delete(self, path: str, *, is_dry_run: bool = False) -> bool:
        """Delete a node; whether it was there. A dry run only looks.

        Raises:
            PoliciesReadOnly: the flag stands.
        """
        await self._policy_store.flag.require_writable()
        if is_dry_run:
            return await self._policy_store.store.exists(path) is not None
        try:
            await self._policy_store.store.delete(path)
        except NoNode:
            return False
        return True
