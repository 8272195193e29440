"""An election in the store: its ephemeral node, its payloads, and an epoch that grows."""

import contextlib
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from broker_ctl.clock import Clock
from broker_ctl.coordination.bulk_acquire import Deletions
from broker_ctl.errors import (
    BadVersion,
    CorruptRecord,
    MultiFailed,
    NodeExists,
    NoNode,
)
from broker_ctl.retry import is_undecided, retry
from broker_ctl.store.forwarding import set_watch
from broker_ctl.store.interface import (
    Create,
    CreateMode,
    MetadataStore,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.paths import ElectionPaths
from broker_ctl.store.records.broker_ctl import LeadEpoch
from broker_ctl.store.records.ownership import LeaderBroker
from broker_ctl.store.records.partitions import ControllerRecord

log = logging.getLogger(__name__)

# Payloads of election nodes: Pulsar's for the balancer, Kafka's for the controller.


class ElectionRecords(Protocol):
    """The payloads of one election, as one candidate writes them."""

    def holder(self, epoch: int) -> bytes:
        """Payload of the leader's node."""
        ...

    def epoch(self, epoch: int) -> bytes:
        """Payload of the node whose version is the epoch."""
        ...

    def decode(self, node: Versioned) -> LeaderBroker:
        """The leader that a node names.

        Raises:
            CorruptRecord: the payload does not decode.
        """
        ...


class LeaderRecords:
    """Pulsar's payloads, byte for byte, with broker-ctl's epoch node."""

    def __init__(self, own: LeaderBroker) -> None:
        self._own = own

    def holder(self, epoch: int) -> bytes:  # noqa: ARG002
        """See `ElectionRecords`."""
        return self._own.encode()

    def epoch(self, epoch: int) -> bytes:
        """See `ElectionRecords`."""
        return LeadEpoch(epoch, self._own.broker_id).encode()

    def decode(self, node: Versioned) -> LeaderBroker:
        """See `ElectionRecords`."""
        return LeaderBroker.decode(node.path, node.data)


class ControllerRecords:
    """The controller's payloads: its broker id, and the epoch in decimals (docs: kafka-paths).

    Args:
        broker_id: the ``brokerId`` setting.
    """

    def __init__(self, own: LeaderBroker, broker_id: int, clock: Clock) -> None:
        self._own = own
        self._broker_id = broker_id
        self._clock = clock

    def holder(self, epoch: int) -> bytes:
        """See `ElectionRecords`."""
        own = self._own
        record = ControllerRecord(self._broker_id, epoch, own.broker_id, own.service_url)
        return record.encode(self._clock.wall_ms())

    def epoch(self, epoch: int) -> bytes:
        """See `ElectionRecords`."""
        return str(epoch).encode()

    def decode(self, node: Versioned) -> LeaderBroker:
        """See `ElectionRecords`."""
        record = ControllerRecord.decode(node.path, node.data)
        return LeaderBroker(record.daemon, record.web_url)


# An election in the store: its ephemeral node, and an epoch that grows with each leader.
#
# The epoch is the data version of a persistent node that the transaction creating the leader's
# node also writes. The version of a persistent node never restarts, so `Check(epoch_path, epoch)`
# in a leader's transaction proves that no other leader was elected since (I3).


@dataclass(frozen=True, slots=True)
class Claimed:
    """A won election: its epoch, and the identity of the leader's node."""

    epoch: int
    czxid: int


class ElectionNode:
    """One broker's access to the nodes of one election; `Election` makes the decisions."""

    def __init__(
        self,
        store: MetadataStore,
        deletions: Deletions,
        election_name: ElectionPaths,
        records: ElectionRecords,
        *,
        rng: random.Random,
    ) -> None:
        self._store = store
        self._rng = rng
        self._deletions = deletions
        # The session whose node exists or may exist; 0 if this broker cannot have one.
        self._node_session_id = 0
        self._election_name = election_name
        self._records = records

    async def watch(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Call ``on_change`` when the node may have changed; returns what stops it."""
        path = self._election_name.node_path
        return await set_watch(self._store, path, lambda _: on_change(), rng=self._rng)

    async def read(self, *, is_synced: bool = False) -> Versioned | None:
        """Read the node; ``is_synced``: after a sync with the servers' leader."""
        if is_synced:
            await self._store.sync(self._election_name.node_path)
        return await self._store.get(self._election_name.node_path)

    def is_ours(self, node: Versioned) -> bool:
        """Whether the node is ours, which only its session proves (docs: curator-leader-latch)."""
        return node.stat.ephemeral_owner == self._store.session_id

    def leader_of(self, node: Versioned) -> LeaderBroker | None:
        """The leader that a node names; None if it does not decode (it blocks others)."""
        try:
            return self._records.decode(node)
        except CorruptRecord as error:
            log.warning("ignored the leader's node: %s", error)
            return None

    async def claim(self) -> Claimed | None:
        """Create the node under a new epoch; None if another broker was faster.

        A lost answer needs no marker node (I4): the session of the created node distinguishes it
        from all others, and an uncertain node is deleted and claimed again.
        """
        epoch = await self._store.get(self._election_name.epoch_path)
        try:
            if epoch is None:
                first = self._records.epoch(0)
                epoch = await self._store.create(
                    self._election_name.epoch_path, first, make_parents=True
                )
            version = epoch.stat.version
            self._node_session_id = self._store.session_id
            claim, holder = self._records.epoch(version + 1), self._records.holder(version + 1)
            written, created = await self._store.multi(
                [
                    SetData(self._election_name.epoch_path, claim, version),
                    Create(self._election_name.node_path, holder, CreateMode.EPHEMERAL),
                ],
            )
        except NodeExists:
            return None
        except MultiFailed as error:
            self._node_session_id = 0
            if isinstance(error.cause, NoNode):
                await self._make_parent()
            return None
        assert isinstance(written, Stat)
        assert isinstance(created, Versioned)
        return Claimed(written.version, created.stat.czxid)

    async def _make_parent(self) -> None:
        parent = self._election_name.node_path.rpartition("/")[0]
        if parent:
            with contextlib.suppress(NodeExists):
                await self._store.create(parent, make_parents=True)

    async def delete(self) -> None:
        """Delete our node, retrying until the store answers: it blocks every other candidate."""
        self._node_session_id = self._store.session_id
        await retry(
            self._read_and_delete,
            f"cannot delete the node of the election {self._election_name.name}",
            rng=self._rng,
            judge=is_undecided,
        )
        self._node_session_id = 0

    async def _read_and_delete(self) -> None:
        while (node := await self.read()) is not None and self.is_ours(node):
            # Read again: what changed or went meanwhile may be the node of another candidate.
            with contextlib.suppress(NoNode, BadVersion):
                await self._store.delete(node.path, node.stat.version)

    def queue_deletion(self) -> None:
        """Queue our node, if there is one, for deletion when the store is available again."""
        if self._node_session_id:
            self._deletions.add_own(self._election_name.node_path, self._node_session_id)
            self._node_session_id = 0

    async def wait_deleted_node(self) -> None:
        """Return once the queued deletion of our node is done."""
        await self._deletions.wait_gone(self._election_name.node_path)
