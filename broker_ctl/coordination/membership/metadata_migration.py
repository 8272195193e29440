"""Part of this daemon in a migration of the metadata by Pulsar brokers beside it.

Docs: pulsar-metadata-migration. The brokers move to a store that this daemon cannot use. So from
the first phase on it owns nothing and writes nothing. The coordinator copies nothing before the
owners of all participants' nodes have deleted them, or their sessions have ended. This daemon
deletes its own once nobody acts on its authority any more and all of its writes are answered; that
holds also for a daemon that is cut off, whose node outlives its lease.
"""

import asyncio
import logging
import math
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.machines.session import SessionAction
from broker_ctl.errors import CorruptRecord, NoNode, StoreError
from broker_ctl.retry import is_any, retry
from broker_ctl.store import paths
from broker_ctl.store.forwarding import set_watch
from broker_ctl.store.instrumented import WriteGate
from broker_ctl.store.interface import CreateMode, MetadataStore, SessionEvent
from broker_ctl.store.records.broker_ctl import MigrationRecord
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# Between two looks; the watch notifies sooner.
_PERIOD_S: Final = 10.0
_NOT_JOINED: Final = (
    "in this session the daemon is not yet among those whom a migration of the metadata waits for "
    f"(below {paths.MIGRATION_PARTICIPANTS}): it owns and writes nothing until it is"
)


class MetadataMigration:
    """Withholds authority and writes, unless no migration is under way. Lives as long as the store.

    Args:
        store: below the gate.
        gate: what all others write through.
    """

    def __init__(
        self, store: MetadataStore, gate: WriteGate, watcher: SessionWatcher, *, rng: random.Random
    ) -> None:
        self._store = store
        self._gate = gate
        self._watcher = watcher
        self._rng = rng
        self._granted_until_s = 0.0
        self._wake = asyncio.Event()
        self._at_rest = asyncio.Event()
        self._stops: list[Callable[[], None]] = []
        self._tasks = TaskScope("metadata migration")
        self._withhold(_NOT_JOINED)
        watcher.listen(self._on_session_action)

    async def start(self) -> None:
        """Watch, then read, so that no change in between is missed."""
        self._stops = [
            self._store.listen(self._on_session_event),
            await set_watch(
                self._store,
                paths.METADATA_MIGRATION,
                lambda _: self._wake.set(),
                rng=self._rng,
            ),
        ]
        self._tasks.keep(self._run(), "keep up")

    async def close(self) -> None:
        """Stop; what is withheld stays so."""
        for stop in self._stops:
            stop()
        self._stops = []
        await self._tasks.close()

    async def wait_at_rest(self) -> None:
        """Return once no migration is under way, and this daemon takes part in the next one."""
        await self._at_rest.wait()

    def _on_session_action(self, action: SessionAction) -> None:
        if action is SessionAction.END:
            self._withhold(_NOT_JOINED)

    def _on_session_event(self, event: SessionEvent) -> None:
        if event in {SessionEvent.RECONNECTED, SessionEvent.CONNECTED}:
            self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            await retry(
                self._look,
                "cannot read whether the cluster migrates its metadata",
                rng=self._rng,
                judge=is_any(StoreError),
            )
            try:
                async with asyncio.timeout(_PERIOD_S):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _look(self) -> None:
        session_id = self._store.session_id
        why = await self._read()
        # Of this session, also those whose creation was not answered.
        nodes = await self._store.ephemerals(paths.MIGRATION_PARTICIPANTS)
        if not (why or nodes):
            name = f"{paths.MIGRATION_PARTICIPANTS}/id-"
            mode = CreateMode.EPHEMERAL_SEQUENTIAL
            nodes = [(await self._store.create(name, b"", mode, make_parents=True)).path]
            # The coordinator lists the nodes after it has written the phase: where it has not seen
            # this one, the phase is older, and read now.
            why = await self._read()
        if why:
            await self._stand_back(why, nodes)
        elif self._store.session_id == session_id != 0:
            self._claim()

    async def _read(self) -> str:
        """Why this daemon has to stand back; empty if it has not to."""
        # A server that lags behind may not have the node yet.
        await self._store.sync(paths.METADATA_MIGRATION)
        return await describe_for_daemon(self._store)

    async def _stand_back(self, why: str, nodes: Sequence[str]) -> None:
        """Own and write nothing; then let the coordinator go on."""
        self._withhold(why)
        if not nodes:
            return
        # Until then a broker process may act on what it was granted before.
        if self._granted_until_s < math.inf:
            await self._watcher.wait_past(self._granted_until_s)
        await self._gate.wait_drained()
        for node in nodes:
            with suppress(NoNode):
                await self._store.delete(node)

    def _withhold(self, why: str) -> None:
        if why not in {_NOT_JOINED, self._watcher.withheld}:
            log.error("%s", why)
        self._gate.why_closed = why
        self._at_rest.clear()
        self._granted_until_s = max(self._granted_until_s, self._watcher.withhold(why))

    def _claim(self) -> None:
        if self._watcher.withheld not in {"", _NOT_JOINED}:
            log.warning("no migration of the metadata is under way any more: this daemon acts")
        self._granted_until_s = 0.0
        self._gate.why_closed = ""
        self._at_rest.set()
        if self._watcher.withheld:
            self._watcher.claim()


async def describe_for_daemon(store: MetadataStore) -> str:
    """How a migration forbids a daemon beside the brokers to act; empty if none does.

    Raises:
        StoreError: the store does not answer.
    """
    node = await store.get(paths.METADATA_MIGRATION)
    if node is None:
        return ""
    try:
        record = MigrationRecord.decode(node.path, node.data)
    except CorruptRecord as error:
        return (
            f"the brokers may be migrating their metadata: {error}; this daemon owns and writes "
            "nothing until the phase there is NOT_STARTED or FAILED, or the node is deleted"
        )
    if not record.outdates_store:
        return ""
    where, phase = record.target_url or "another store", f"phase {record.phase} in {node.path}"
    if record.is_completed:
        return (
            f"the brokers have migrated their metadata to {where} ({phase}), which this daemon "
            "cannot use: it owns and writes nothing. Stop it; only if the brokers come back to "
            "this store, delete the node"
        )
    return (
        f"the brokers migrate their metadata to {where} ({phase}): this daemon owns and writes "
        "nothing until the phase is FAILED. Once it is COMPLETED, stop this daemon"
    )
