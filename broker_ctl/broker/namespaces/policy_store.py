"""Nodes of the configuration store that operators change, and their read-only flag."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.errors import NoNode, PoliciesReadOnly
from broker_ctl.store import paths
from broker_ctl.store.cached_values import Updates, ValueCache
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.watched_cache import CacheRules, UpdateRules

T = TypeVar("T")

# Attempts to write a node that other processes write too.
UPDATE_RULES: Final = UpdateRules(stop_s=10.0)


class PolicyFlag:
    """Pulsar's read-only flag for policies: a node whose contents do not matter.

    Each write reads the flag from the store, so it takes effect at once.
    """

    def __init__(self, configuration_store: MetadataStore) -> None:
        self._store = configuration_store

    async def is_read_only(self) -> bool:
        """Whether the flag is set."""
        return await self._store.exists(paths.POLICIES_READ_ONLY) is not None

    async def require_writable(self) -> None:
        """Raise while the flag is set.

        Raises:
            PoliciesReadOnly: the flag is set.
        """
        if await self.is_read_only():
            raise PoliciesReadOnly(
                f"policies are read-only while {paths.POLICIES_READ_ONLY} exists in the "
                "configuration store; delete that node to change them again",
            )


@dataclass(frozen=True, slots=True)
class PolicyStore:
    """The store of the policies, and what writes to it need."""

    store: MetadataStore
    flag: PolicyFlag
    clock: Clock
    rng: random.Random

    @classmethod
    def of(cls, store: MetadataStore, clock: Clock, rng: random.Random) -> "PolicyStore":
        """Build it with the flag in the same store."""
        return cls(store, PolicyFlag(store), clock, rng)


class PolicyNodes(Generic[T]):
    """Nodes of one kind: read from the store each time, written by version.

    Operators read seldom, and expect to see their last write on every broker.
    """

    def __init__(
        self,
        policy_store: PolicyStore,
        root: str,
        decode: Callable[[Versioned], T],
        encode: Callable[[T], bytes],
    ) -> None:
        self._policy_store = policy_store
        # Never started: used without a watch, to read and to count nodes that do not decode.
        self._reader = ValueCache(
            policy_store.store,
            (root,),
            decode,
            policy_store.clock,
            CacheRules(),
            rng=policy_store.rng,
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
        """Read the value; None if the node does not exist.

        Raises:
            CorruptRecord: it does not decode.
        """
        return await self._reader.get(path)

    async def change(
        self, path: str, change: Callable[[T | None], T], *, is_dry_run: bool = False
    ) -> None:
        """Write the result of ``change`` for the newest value, or for None; its errors propagate.

        A dry run calls ``change``, and writes nothing.

        Raises:
            PoliciesReadOnly: policies are read-only.
            BadVersion: other processes wrote first in all attempts.
        """
        await self._policy_store.flag.require_writable()
        if is_dry_run:
            change(await self.get(path))
            return
        await self._updates.read_modify_update_or_create(path, change)

    async def delete(self, path: str, *, is_dry_run: bool = False) -> bool:
        """Delete a node; returns whether it existed. A dry run only checks.

        Raises:
            PoliciesReadOnly: policies are read-only.
        """
        await self._policy_store.flag.require_writable()
        if is_dry_run:
            return await self._policy_store.store.exists(path) is not None
        try:
            await self._policy_store.store.delete(path)
        except NoNode:
            return False
        return True
