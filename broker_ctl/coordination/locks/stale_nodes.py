"""Nodes of another session where this broker wants to stand: outwaited, never taken away.

They may be those of an earlier session of this process, of an earlier run of this broker, or of a
twin that was given the same id by mistake (docs: pulsar-resource-lock).
"""

import contextlib
import logging
from collections.abc import Callable
from typing import Final

from broker_ctl.coordination.locks.outwait import stale_limit_s, wait_for_deletion
from broker_ctl.errors import BadVersion, CorruptRecord, NewerVersion, NoNode, StartError
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.broker_ctl import Registration

log = logging.getLogger(__name__)

# ZooKeeper's default upper bound on a session timeout, for nodes that do not say theirs.
_MAX_TIMEOUT_TICKS: Final = 20


class PreviousSessionNodes:
    """Whoever has taken a name of this broker's in another session.

    Args:
        name: what was taken, in words.
        advice: what to do where two brokers have it.
        registration_of: path of the registration of the daemon that a node belongs to, which says
            how long its session may last; None where it cannot be told.
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
        """Wait until a node of another session is gone; take one of this session away.

        Raises:
            StartError: it stands longer than a dead session's could: a twin is alive.
        """
        node = await self._store.get(path)
        if node is None:
            return
        if node.stat.ephemeral_owner == self._store.session_id:
            # Ours, from a call whose answer was lost, or of a session that was taken up again:
            # it comes again together with all that belongs to it.
            with contextlib.suppress(NoNode, BadVersion):
                await self._store.delete(path, node.stat.version)
            return
        limit_s = await self._limit_s(node)
        log.info("%s stands from another session: waiting up to %.1f s", path, limit_s)
        if not await wait_for_deletion(self._store, node, limit_s):
            raise StartError(
                f"{self._name} is in use: {path} outlived {limit_s:.0f} s"
                f"{await self._describe_holder(node)}; {self._advice}",
            )

    async def _limit_s(self, node: Versioned) -> float:
        """How long a node of a dead session can stand."""
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
            log.warning("%s", error)
            return None
