"""A view of a store that retries writes over a session expiry.

The session fails a write that waits when it expires, since most writes depend on ephemeral nodes of
that session. Writes of policies, namespaces, settings and operators' directives do not: this store
sends them again in the next session. It retries only a write that was certainly not applied (I4),
which `SessionExpired` says; a lost reply that reading cannot resolve stays `Ambiguous`.
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

# Each attempt has the deadline of an operation: the bound keeps a caller from waiting for ever
# while one session after the other expires.
_ATTEMPTS: Final = 3


class RetryingStore(ForwardingStore):
    """Retries writes after an expiry; refuses to create ephemeral nodes."""

    async def _write(self, what: str, write: Callable[[], Awaitable[T]]) -> T:
        for _ in range(_ATTEMPTS - 1):
            try:
                return await write()
            except SessionExpired as error:
                log.info("%s was not applied: %s; retrying in the next session", what, error)
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
