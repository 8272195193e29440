"""The rollout in the store; leaders are its only writers, under their epoch."""

import logging

from broker_ctl.coordination.election.leadership import Leadership
from broker_ctl.core.rollout.rollout import Rollout
from broker_ctl.errors import CorruptRecord, NewerVersion, OrderConflict
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, MetadataStore, SetData
from broker_ctl.store.records.rollout import MOST_ROLLOUT_BYTES, RolloutRecord

log = logging.getLogger(__name__)


class RolloutStore:
    """Reads and writes the node of the rollout."""

    def __init__(self, store: MetadataStore, leadership: Leadership) -> None:
        self._store = store
        self._leadership = leadership

    async def read(self) -> Rollout | None:
        """The rollout in progress or the last one; None: there was none.

        Raises:
            StoreError: the node could not be read.
        """
        # Sync first: an earlier leader may have written until just now.
        await self._store.sync(paths.ROLLOUT)
        node = await self._store.get(paths.ROLLOUT)
        if node is None:
            return None
        try:
            return RolloutRecord.decode(node.path, node.data).rollout
        except (CorruptRecord, NewerVersion) as error:
            log.warning("the rollout is ignored: %s", error)
            return None

    async def write(self, rollout: Rollout) -> None:
        """Store the rollout.

        Raises:
            OrderConflict: it is too large for a node.
            Fenced: another leader was elected.
            StoreError: it was not written.
        """
        data = RolloutRecord(rollout).encode()
        if len(data) > MOST_ROLLOUT_BYTES:
            raise OrderConflict(
                f"a rollout of {len(rollout.brokers)} brokers does not fit into a node; "
                "name some of them with --brokers"
            )
        is_new = await self._store.exists(paths.ROLLOUT) is None
        change = Create(paths.ROLLOUT, data) if is_new else SetData(paths.ROLLOUT, data)
        await self._leadership.write(self._store, change)
