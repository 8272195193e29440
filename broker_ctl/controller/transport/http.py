"""Transport by HTTP: one sender for each broker (docs: kafka-failure-kinds, kafka-design-v3).

    requests -> queue of the broker -> one instruction in flight -> acknowledged

While an instruction is in flight the next requests are queued, for each partition only the newest.
A failed instruction is sent again until the broker acknowledges it or is gone.
"""

import asyncio
from collections.abc import Sequence

from broker_ctl.controller.transport.http_sender import HttpSender, SenderDependencies
from broker_ctl.controller.transport.messages import (
    BROKER_GONE,
    FullRequests,
    RequestsByBroker,
    StopResponse,
)
from broker_ctl.core.partitions.values import BrokersChanged
from broker_ctl.store.interface import Operation
from broker_ctl.tasks import TaskScope


class HttpTransport:
    """`Transport` that calls the daemons of brokers."""

    def __init__(self, dependencies: SenderDependencies) -> None:
        self._dependencies = dependencies
        self._senders: dict[int, tuple[HttpSender, asyncio.Task[None]]] = {}
        self._tasks = TaskScope("instructions")

    def operations(self, by_broker: RequestsByBroker) -> Sequence[Operation]:  # noqa: ARG002
        """No operations: HTTP needs nothing in the transaction."""
        return ()

    async def prepare_retry(self, by_broker: RequestsByBroker) -> None:
        """Does nothing: no operation can have been refused."""

    def on_written(self, by_broker: RequestsByBroker, operations: Sequence[Operation]) -> None:  # noqa: ARG002
        """See `Transport.on_written`."""
        for broker_id, requests in by_broker.items():
            if broker_id in self._senders:
                self._senders[broker_id][0].put(requests)

    async def send(self, by_broker: RequestsByBroker) -> None:
        """See `Transport.send`."""
        self.on_written(by_broker, ())

    async def send_full(self, broker_id: int, requests: FullRequests) -> None:
        """See `Transport.send_full`."""
        if broker_id in self._senders:
            self._senders[broker_id][0].put_full(requests)

    async def on_brokers_changed(self, changed: BrokersChanged) -> None:
        """See `Transport.on_brokers_changed`."""
        # A new broker may already have a sender if an earlier event failed halfway.
        for broker_id in changed.dead | changed.bounced | changed.new:
            if broker_id in self._senders:
                sender, task = self._senders.pop(broker_id)
                task.cancel()
                self._fail_stops(broker_id, sender)
        for broker_id in changed.new | changed.bounced:
            sender = HttpSender(self._dependencies, changed.live[broker_id])
            task = self._tasks.keep(sender.run(), f"to broker {broker_id}")
            self._senders[broker_id] = sender, task

    def _fail_stops(self, broker_id: int, sender: HttpSender) -> None:
        """Report pending stops as failed, since a broker that is gone does not answer."""
        failed = [StopResponse(broker_id, stop, BROKER_GONE) for stop in sender.pending_stops()]
        if failed:
            self._dependencies.listener.on_stop_responses(failed)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._tasks.close()
