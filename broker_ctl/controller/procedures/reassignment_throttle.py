"""The throttle of replicas that reassignments add (Kafka: leader and follower throttled rates).

Its only state is Kafka's configuration of all brokers, which each broker reads by itself: it
survives the controller. Which replicas it applies to follows from the topics' nodes. It goes with
the last reassignment; a controller that takes over looks for it, since the one before may have died
in between.
"""

import logging

from broker_ctl.controller.procedures.parents import make_parents
from broker_ctl.controller.state.state_changes import StateChanger
from broker_ctl.core.partitions.context import Context
from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    CorruptRecord,
    MultiFailed,
    NodeExists,
    NoNode,
    OrderConflict,
)
from broker_ctl.store.interface import Create, Delete, MetadataStore, Operation, SetData, Versioned
from broker_ctl.store.partition_paths import BROKER_DEFAULTS
from broker_ctl.store.records.partitions import (
    decode_configuration,
    decode_throttle,
    encode_configuration,
    with_throttle,
)

log = logging.getLogger(__name__)


class ReassignmentThrottle:
    """The throttle in one term; ``context.throttle`` is the one that was read last."""

    def __init__(self, store: MetadataStore, context: Context, state_changer: StateChanger) -> None:
        self._store = store
        self._context = context
        self._state_changer = state_changer
        # Version (mzxid) of the node that was found to be unreadable last: it is named once.
        self._reported_zxid = 0

    async def read(self) -> None:
        """Read it; one that cannot be read leaves the one before."""
        node = await self._store.get(BROKER_DEFAULTS)
        try:
            self._context.throttle = None if node is None else decode_throttle(node)
        except CorruptRecord as error:
            self._report(node, f"ignored a throttle: {error}")

    async def end(self) -> None:
        """Remove it with the last reassignment; a node that cannot be read is left alone."""
        if self._context.throttle is None:
            return
        try:
            await self.put(None)
        except OrderConflict as error:
            node = await self._store.get(BROKER_DEFAULTS)
            self._report(node, f"a throttle is left in place: {error}")

    def _report(self, node: Versioned | None, text: str) -> None:
        """Warn once for each version of the node."""
        zxid = 0 if node is None else node.stat.mzxid
        if zxid != self._reported_zxid:
            self._reported_zxid = zxid
            log.warning("%s", text)

    async def put(self, rate: int | None) -> None:
        """Change it; None: remove it.

        Raises:
            OrderConflict: the node cannot be read.
        """
        before = self._context.throttle
        while True:
            if rate is not None:
                await make_parents(self._store, self._state_changer, BROKER_DEFAULTS)
            write = self._write(await self._store.get(BROKER_DEFAULTS), rate)
            try:
                if write is not None:
                    await self._state_changer.write([write])
            except Ambiguous:
                continue  # the next read shows whether it was written
            except MultiFailed as error:
                if not isinstance(error.cause, BadVersion | NodeExists | NoNode):
                    raise
                continue  # another client has written it
            break
        self._context.throttle = rate
        if rate != before:
            log.info("throttle of replicas that are added: %s, was %s", _text(rate), _text(before))

    def _write(self, node: Versioned | None, rate: int | None) -> Operation | None:
        """The write that leads to the rate; None: nothing has to be written."""
        try:
            before = {} if node is None else decode_configuration(node)
        except CorruptRecord as error:
            raise OrderConflict(f"{error}: correct it, or delete the node") from None
        after = with_throttle(before, rate)
        if after == before:
            return None
        if node is None:
            return Create(BROKER_DEFAULTS, encode_configuration(after))
        if not after:
            return Delete(BROKER_DEFAULTS, node.stat.version)
        return SetData(BROKER_DEFAULTS, encode_configuration(after), node.stat.version)


def _text(rate: int | None) -> str:
    return "none" if rate is None else f"{rate} bytes/s"
