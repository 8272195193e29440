"""Ephemeral nodes of another session under an id of this broker: waited for, never deleted.

They belong to an earlier session of this process, to an earlier run of this broker, or to another
process that was given the same id by mistake (docs: pulsar-resource-lock).

The leader of the ZooKeeper servers ends a dead session within its timeout plus a tick; a new leader
grants each session a full timeout again. So the limit restarts when the servers elect a leader,
which the upper half of a zxid shows, at most `_MAX_RESTARTS` times.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from broker_ctl.errors import BadVersion, CorruptRecord, NewerVersion, NoNode, StartError
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.broker_ctl import Registration

log = logging.getLogger(__name__)

# ZooKeeper's default upper bound on a session timeout, for nodes that do not state theirs.
_MAX_TIMEOUT_TICKS: Final = 20
_POLL_S: Final = 0.25
_MARGIN_S: Final = 2.0
_MAX_RESTARTS: Final = 3


class PreviousSessionNodes:
    """Waits for nodes of other sessions under an id of this broker.

    Args:
        name: the id that the node reserves, for messages.
        advice: what the operator must do if two brokers have it.
        registration_of: path of the registration of a node's daemon, which states its session
            timeout; None if unknown.
    """

    def __init__(
        self,
        store: MetadataStore,
        tick_s: float,
        *,
        name: str,
        advice: str,
        registration_of: Callable[[Versioned], str | None],
    ) -> None:
        self._store = store
        self._tick_s = tick_s
        self._name = name
        self._advice = advice
        self._registration_of = registration_of

    async def wait_gone(self, path: str) -> None:
        """Wait until a node of another session is gone; delete one of this session.

        Raises:
            StartError: it outlives the longest possible dead session, so its process is alive.
        """
        node = await self._store.get(path)
        if node is None:
            return
        if node.stat.ephemeral_owner == self._store.session_id:
            # A node of this session, from a call whose answer was lost or from before the session
            # was resumed: it is created again together with the other nodes.
            with contextlib.suppress(NoNode, BadVersion):
                await self._store.delete(path, node.stat.version)
            return
        limit_s = await self._limit_s(node)
        log.info("%s is of another session: waiting up to %.1f s for its deletion", path, limit_s)
        if not await wait_for_deletion(self._store, node, limit_s):
            raise StartError(
                f"{self._name} is in use: {path} outlived {limit_s:.0f} s"
                f"{await self._describe_holder(node)}; {self._advice}",
            )

    async def _limit_s(self, node: Versioned) -> float:
        """Seconds that a node of a dead session can survive."""
        timeout_s = max(self._store.session_timeout_s, _MAX_TIMEOUT_TICKS * self._tick_s)
        if (registration := await self._holder_registration(node)) is not None:
            timeout_s = registration.session_timeout_ms / 1000
        return stale_limit_s(timeout_s, self._tick_s)

    async def _describe_holder(self, node: Versioned) -> str:
        registration = await self._holder_registration(node)
        if registration is None:
            return ""
        daemon, started_ms = registration.urls.broker_id, registration.started_ms
        return f", a process started at {started_ms} ms as {daemon} holds it"

    async def _holder_registration(self, node: Versioned) -> Registration | None:
        path = self._registration_of(node)
        found = None if path is None else await self._store.get(path)
        try:
            return None if found is None else Registration.decode(found.path, found.data)
        except (CorruptRecord, NewerVersion) as error:
            log.warning("cannot read the registration of a node's daemon: %s", error)
            return None


def stale_limit_s(timeout_s: float, tick_s: float) -> float:
    """Seconds that a node of a dead session can survive while the servers have a leader."""
    return timeout_s + 2 * tick_s + _MARGIN_S


async def wait_for_deletion(
    store: MetadataStore, node: Versioned, limit_s: float, hint: asyncio.Event | None = None
) -> bool:
    """Return True once ``node`` is gone or replaced, False if it outlives the limit.

    It may take longer than the limit by the time for which the servers do not answer.

    ``hint`` is set when the deletion is notified. A notification may be lost with the connection,
    so the node is polled too.
    """
    hint = hint or asyncio.Event()
    loop = asyncio.get_running_loop()
    term, restarts = store.last_zxid >> 32, 0
    end_s = loop.time() + limit_s
    while True:
        hint.clear()
        # Only a read sent after the limit proves that the node outlives it: an earlier one may be
        # answered after a long outage, or by a lagging server.
        is_last = loop.time() >= end_s
        if is_last:
            await store.sync(node.path)
        stat = await store.exists(node.path)
        if stat is None or stat.czxid != node.stat.czxid:
            return True
        if store.last_zxid >> 32 != term and restarts < _MAX_RESTARTS:
            term, restarts = store.last_zxid >> 32, restarts + 1
            end_s = loop.time() + limit_s
        elif is_last:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(_POLL_S, max(0.0, end_s - loop.time()))):
                await hint.wait()
