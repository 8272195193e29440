"""A view of a store for writes that own nothing: they outlast the session they were asked for in.

A write that waits while its session ends is failed, since most of them act in the name of what the
session owned. Policies, namespaces, settings and orders of operators do not: they are asked for
again in the next session. Only what is certainly not done is repeated (I4): `SessionExpired` says
so, a lost reply that reading does not settle stays `Ambiguous`.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from broker_ctl.errors import SessionExpired
from broker_ctl.store.forwarding import ForwardingStore
from broker_ctl.store.interface import (
    ANY_VERSION,
    Create,
    CreateMode,
    Operation,
    Result,
    Stat,
    Versioned,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

# Each has the deadline of an operation; sessions that end one after the other are no reason to
# make a caller wait for ever.
_ATTEMPTS: Final = 3


class RetryingStore(ForwardingStore):
    """Repeats writes over an expiry; an ephemeral node is refused."""

    async def _write(self, what: str, write: Callable[[], Awaitable[T]]) -> T:
        for _ in range(_ATTEMPTS - 1):
            try:
                return await write()
            except SessionExpired as error:
                log.info("%s: %s; once more in the next session", what, error)
        return await write()

    async def create(
        self,
        path: str,
        data: bytes = b"",
        mode: CreateMode = CreateMode.PERSISTENT,
        *,
        ttl_ms: int = 0,
        make_parents: bool = False,
    ) -> Versioned:
        """See `MetadataStore`.

        Raises:
            ValueError: an ephemeral node, which is its session's.
        """
        _require_unowned(path, mode)
        return await self._write(
            f"create {path}",
            lambda: self._inner.create(path, data, mode, ttl_ms=ttl_ms, make_parents=make_parents),
        )

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See `MetadataStore`."""
        return await self._write(f"set {path}", lambda: self._inner.set(path, data, version))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See `MetadataStore`."""
        await self._write(f"delete {path}", lambda: self._inner.delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """See `MetadataStore`.

        Raises:
            ValueError: an ephemeral node, which is its session's.
        """
        for operation in operations:
            if isinstance(operation, Create):
                _require_unowned(operation.path, operation.mode)
        what = f"transaction of {len(operations)}"
        return await self._write(what, lambda: self._inner.multi(operations))


def _require_unowned(path: str, mode: CreateMode) -> None:
    if mode.is_ephemeral:
        raise ValueError(f"{path}: an ephemeral node does not outlast its session")
