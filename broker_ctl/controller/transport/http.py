"""Instructions by HTTP: one sender for each broker (docs: kafka-failure-kinds, kafka-design-v3).

    letters -> what waits for the broker -> one instruction on its way -> acknowledged

While one is on its way the next letters wait, and of a partition the newest. One that fails is sent
again until it is acknowledged, or the broker is gone.
"""

import asyncio
from collections.abc import Sequence

from broker_ctl.controller.transport.http_sender import HttpSender, SenderDependencies
from broker_ctl.controller.transport.messages import BROKER_GONE, Lot, Mail, StopAnswer
from broker_ctl.core.partitions.values import BrokersChanged
from broker_ctl.store.interface import Operation
from broker_ctl.tasks import TaskScope


class HttpTransport:
    """`Transport` that calls the daemons of brokers."""

    def __init__(self, parts: SenderDependencies) -> None:
        self._parts = parts
        self._senders: dict[int, tuple[HttpSender, asyncio.Task[None]]] = {}
        self._tasks = TaskScope("instructions")

    def operations(self, mail: Mail) -> Sequence[Operation]:  # noqa: ARG002
        """Nothing has to be in the transaction."""
        return ()

    async def prepare(self, mail: Mail) -> None:
        """Nothing can have been refused."""

    def written(self, mail: Mail, operations: Sequence[Operation]) -> None:  # noqa: ARG002
        """See `Transport.written`."""
        for broker_id, lot in mail.items():
            if broker_id in self._senders:
                self._senders[broker_id][0].put(lot)

    async def post(self, mail: Mail) -> None:
        """See `Transport.post`."""
        self.written(mail, ())

    async def post_full(self, broker_id: int, lot: Lot) -> None:
        """See `Transport.post_full`."""
        if broker_id in self._senders:
            self._senders[broker_id][0].put_full(lot)

    async def brokers_changed(self, changed: BrokersChanged) -> None:
        """See `Transport.brokers_changed`."""
        # A new one was told of before where doing so was not carried through.
        for broker_id in changed.dead | changed.bounced | changed.new:
            if broker_id in self._senders:
                sender, task = self._senders.pop(broker_id)
                task.cancel()
                self._unanswered(broker_id, sender)
        for broker_id in changed.new | changed.bounced:
            sender = HttpSender(self._parts, changed.live[broker_id])
            task = self._tasks.keep(sender.run(), f"to broker {broker_id}")
            self._senders[broker_id] = sender, task

    def _unanswered(self, broker_id: int, sender: HttpSender) -> None:
        """A broker that is gone answers nothing: whoever waits for it must not wait on."""
        gone = [StopAnswer(broker_id, stop, BROKER_GONE) for stop in sender.unanswered_stops()]
        if gone:
            self._parts.postbox.stops_answered(gone)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._tasks.close()
