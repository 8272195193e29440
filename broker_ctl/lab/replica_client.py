"""A client of simulated broker processes: produce to and consume from partitions."""

import asyncio
import itertools
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from broker_ctl import codec
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.errors import (
    CorruptRecord,
    DataPlaneError,
    DataPlaneFenced,
    DataPlaneRefused,
    DataPlaneUnreachable,
)
from broker_ctl.lab.replication import tcp
from broker_ctl.lab.replication.log import LogRecord
from broker_ctl.lab.replication.tcp import ANY_EPOCH, Channel, ChannelClosed, HeldLog, Network
from broker_ctl.tasks import TaskScope

# An answer that is sent at the deadline may take this long to arrive.
_ANSWER_S: Final = 1.0
_ERRORS: Final[dict[str, type[DataPlaneError]]] = {
    kind.__name__: kind for kind in (DataPlaneFenced, DataPlaneRefused, DataPlaneUnreachable)
}


class Produced(NamedTuple):
    """Position of appended records; ``offset`` is that of the first one."""

    offset: int
    leader_epoch: int


class Consumed(NamedTuple):
    """Committed records from the requested offset on, and the high watermark."""

    records: list[LogRecord]
    high_watermark: int


class ReplicaClient:
    """One connection to one broker process, opened at the first request and after each loss.

    All methods raise `DataPlaneRefused` (nothing was done, and why), `DataPlaneFenced` (the same:
    the leader epoch is old) or `DataPlaneUnreachable`: no certain answer; the records may have been
    appended, and may still be committed.

    Args:
        address: ``host:port`` of the broker process.
        timeout_s: deadline of each request.
    """

    def __init__(self, network: Network, address: str, *, timeout_s: float = 5.0) -> None:
        self._network = network
        self._address = address
        self._timeout_s = timeout_s
        self._numbers = itertools.count(1)
        self._connecting = asyncio.Lock()
        self._link: _ReplicaLink | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; the next request reconnects."""
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def produce(
        self,
        partition: TopicPartition,
        values: Sequence[bytes],
        *,
        leader_epoch: int = ANY_EPOCH,
        is_for_all: bool = True,
    ) -> Produced:
        """Append values; returns when they are committed, or with ``is_for_all=False`` at once."""
        answer = await self._ask(
            tcp.PRODUCE,
            _named(partition)
            | {
                "leader_epoch": leader_epoch,
                "acks": tcp.ACKS_ALL if is_for_all else tcp.ACKS_LEADER,
                "values": [value.decode("latin-1") for value in values],
                "timeout_ms": int(self._timeout_s * 1000),
            },
            self._timeout_s + _ANSWER_S,
        )
        return Produced(answer["offset"], answer["leader_epoch"])

    async def consume(
        self,
        partition: TopicPartition,
        offset: int = 0,
        *,
        leader_epoch: int = ANY_EPOCH,
        most: int = tcp.MAX_RECORDS,
    ) -> Consumed:
        """Committed records from an offset on; up to ``most``, or as many as fit a frame."""
        asked = {"leader_epoch": leader_epoch, "offset": offset, "most": most}
        answer = await self._ask(tcp.CONSUME, _named(partition) | asked)
        return Consumed(tcp.records_of(answer["records"]), answer["high_watermark"])

    async def held(self) -> list[HeldLog]:
        """All replicas that the broker process holds, in order; not an atomic snapshot."""
        found: list[HeldLog] = []
        while True:
            after = list(found[-1].partition) if found else None
            answer = await self._ask(tcp.HELD, {"after": after})
            found += [tcp.held_of(row) for row in answer["replicas"]]
            if answer["is_all"]:
                return found

    async def log(self, partition: TopicPartition) -> list[LogRecord]:
        """All records of a replica, committed or not; empty if it is not held."""
        found: list[LogRecord] = []
        while True:
            asked = {"offset": len(found), "most": tcp.MAX_RECORDS}
            answer = await self._ask(tcp.READ, _named(partition) | asked)
            records = tcp.records_of(answer["records"])
            if not records:
                return found
            found += records

    async def _ask(
        self, api: str, request: dict[str, Any], timeout_s: float | None = None
    ) -> dict[str, Any]:
        number = next(self._numbers)
        deadline_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(deadline_s):
                link = await self._connected()
                answer = await link.ask(number, {"api": api, "id": number, **request})
        except TimeoutError:
            raise DataPlaneUnreachable(
                f"{self._address}: no answer to {api} within {deadline_s:g} s"
            ) from None
        except ChannelClosed as error:
            raise DataPlaneUnreachable(f"{self._address}: {api}: {error}") from error
        if "error" in answer:
            kind = _ERRORS.get(answer["error"], DataPlaneRefused)
            raise kind(f"{self._address}: {answer.get('reason', '')}")
        return answer

    async def _connected(self) -> "_ReplicaLink":
        async with self._connecting:
            if self._link is None or self._link.is_closed:
                if self._link is not None:
                    await self._link.close()
                self._link = _ReplicaLink(await self._network.connect(self._address))
            return self._link


class _ReplicaLink:
    """One connection, and the callers that wait for answers."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tasks = TaskScope("replica client")
        self._tasks.start(self._receive_for_ever(), "answers")
        self.is_closed = False

    async def ask(self, number: int, request: dict[str, Any]) -> dict[str, Any]:
        """The answer.

        Raises:
            ChannelClosed: the connection ended without an answer.
        """
        if self.is_closed:
            raise ChannelClosed("it was closed")
        waiter = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self._channel.send(codec.encode(request))
            answer: dict[str, Any] = await waiter
        finally:
            del self._waiting[number]
        return answer

    async def close(self) -> None:
        self._end("it was closed")
        await self._tasks.close()

    async def _receive_for_ever(self) -> None:
        try:
            while True:
                answer = codec.decode_object(await self._channel.receive())
                waiter = self._waiting.get(answer.get("id", 0))
                if waiter is not None and not waiter.done():
                    waiter.set_result(answer)
        except (ChannelClosed, CorruptRecord) as error:
            self._end(str(error))

    def _end(self, why: str) -> None:
        self.is_closed = True
        self._channel.close()
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(ChannelClosed(why))


def _named(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}
