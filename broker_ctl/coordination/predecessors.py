"""Nodes of another session where this broker wants to stand: outwaited, never taken away.

They may be those of an earlier session of this process, of an earlier run of this broker, or of a
twin that was given the same id by mistake (reference: metadata-store 3.8).
"""

import contextlib
import logging
from typing import Final

from broker_ctl.coordination.outwait import outwait, stale_limit_s
from broker_ctl.errors import BadVersion, CorruptRecord, NewerVersion, NoNode, StartError
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.ours import Registration

log = logging.getLogger(__name__)

# ZooKeeper's default upper bound on a session timeout, for nodes that do not say theirs.
_MAX_TIMEOUT_TICKS: Final = 20


class Predecessors:
    """Whoever is registered as ``broker_id`` in another session."""

    def __init__(
        self, store: MetadataStore, broker_id: str, registration_path: str, tick_s: float
    ) -> None:
        self._store = store
        self._broker_id = broker_id
        self._registration_path = registration_path
        self._tick_s = tick_s

    async def outlive(self, path: str) -> None:
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
        limit_s = await self._limit_s()
        log.info("%s stands from another session: waiting up to %.1f s", path, limit_s)
        if not await outwait(self._store, node, limit_s):
            raise StartError(
                f"broker id {self._broker_id} is in use: {path} outlived {limit_s:.0f} s"
                f"{await self._twin()}; "
                "give each broker its own advertisedAddress and webServicePort",
            )

    async def _limit_s(self) -> float:
        """How long a node of a dead session can stand."""
        timeout_s = max(self._store.session_timeout_s, _MAX_TIMEOUT_TICKS * self._tick_s)
        if (standing := await self._standing()) is not None:
            timeout_s = standing.session_timeout_ms / 1000
        return stale_limit_s(timeout_s, self._tick_s)

    async def _twin(self) -> str:
        standing = await self._standing()
        if standing is None:
            return ""
        return f", a process started at {standing.started_ms} ms holds it"

    async def _standing(self) -> Registration | None:
        node = await self._store.get(self._registration_path)
        try:
            return None if node is None else Registration.decode(node.path, node.data)
        except (CorruptRecord, NewerVersion) as error:
            log.warning("%s", error)
            return None
