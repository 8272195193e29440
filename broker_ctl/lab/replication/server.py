"""The server of a simulated broker process, for followers, clients and checks."""

import asyncio
import contextlib
import logging
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any, Final

from broker_ctl import codec
from broker_ctl.clock import Clock
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.errors import CorruptRecord, DataPlaneError, DataPlaneRefused, DataPlaneUnreachable
from broker_ctl.lab.replication import tcp
from broker_ctl.lab.replication.fetchers import Feed, FetchPlace
from broker_ctl.lab.replication.leader import LeaderState
from broker_ctl.lab.replication.leaderships import Leaderships, bounded
from broker_ctl.lab.replication.replica import Replica
from broker_ctl.lab.replication.tcp import BEAT_S, SILENCE_S, Channel, ChannelClosed, HeldLog
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

_MAX_CONNECTIONS: Final = 512
# Bound on the requests of one connection in progress; the server stops reading beyond it.
_MAX_UNDER_WAY: Final = 256
_MAX_TIMEOUT_S: Final = 60.0
# A connection without any message takes the place of a follower.
_FIRST_MESSAGE_S: Final = 10.0
# Partitions that a follower may name before this broker has its first instruction for them.
_MAX_EARLY_PLACES: Final = 10_000


class ReplicaServer:
    """Serves connections, each in a task of its own.

    Args:
        replicas: all that are held; the table's.
    """

    def __init__(
        self,
        replicas: Mapping[TopicPartition, Replica],
        leaderships: Leaderships,
        clock: Clock,
    ) -> None:
        self._replicas = replicas
        self._leaderships = leaderships
        self._clock = clock
        self._open: dict[Channel, None] = {}
        self._is_closed = True

    async def serve(self, channel: Channel) -> None:
        """Serve a connection until the other end closes it, or sends a malformed message."""
        if self._is_closed or len(self._open) >= _MAX_CONNECTIONS:
            return
        self._open[channel] = None
        async with TaskScope("replica connection") as tasks:
            connection = _Connection(self, channel, tasks)
            try:
                await connection.run()
            except (ChannelClosed, TimeoutError):
                pass
            except (CorruptRecord, KeyError, TypeError, ValueError) as error:
                log.warning(
                    "closed the connection of a client after a malformed message: %r", error
                )
            finally:
                del self._open[channel]
                if connection.feed is not None:
                    self._leaderships.close(connection.feed)

    def open(self) -> None:
        """Accept connections."""
        self._is_closed = False

    def close(self) -> None:
        """Close all connections, also those being accepted."""
        self._is_closed = True
        for channel in tuple(self._open):
            channel.close()

    def open_feed(self, follower: int) -> Feed:
        """Open the feed of a follower that has identified itself."""
        return self._leaderships.feeds.open(follower, self._clock.now_s())

    def named(self, feed: Feed, message: Mapping[str, Any]) -> None:
        """Apply the places that a follower names, and those that it forgets.

        Raises:
            KeyError, TypeError, ValueError: it does not fit, or names too many partitions that
                this broker does not hold.
        """
        feed.contact_s = self._clock.now_s()
        feeds, topics = self._leaderships.feeds, message["topics"]
        for topic, number, leader_epoch, end_offset, last_epoch in message["named"]:
            place = FetchPlace(topics[topic], leader_epoch, end_offset, last_epoch)
            feeds.name(feed, TopicPartition(topic, number), place)
        feeds.forget(
            feed, [TopicPartition(topic, number) for topic, number in message["forgotten"]]
        )
        if len(feed.places) > len(self._replicas) + _MAX_EARLY_PLACES:
            raise ValueError(f"more than {_MAX_EARLY_PLACES} partitions without a replica here")

    def feed_frame(self, feed: Feed) -> Mapping[str, Any]:
        """Data for a follower."""
        return self._leaderships.frame(feed)

    def throttled_s(self) -> float:
        """Seconds until followers that the throttle holds back may go on; a beat if none waits."""
        wait_s = self._leaderships.throttle.wait_s()
        return BEAT_S if wait_s is None else wait_s

    async def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a client's request, or the error in its place."""
        number = message["id"]
        answers: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            tcp.CONSUME: self._consume,
            tcp.HELD: self._held,
            tcp.READ: self._read,
        }
        try:
            if message["api"] == tcp.PRODUCE:
                return {"id": number, **await self._produce(message)}
            return {"id": number, **answers[message["api"]](message)}
        except DataPlaneError as error:
            return {"id": number, "error": type(error).__name__, "reason": str(error)}

    async def _produce(self, message: Mapping[str, Any]) -> dict[str, Any]:
        partition, is_for_all = _partition(message), message["acks"] == tcp.ACKS_ALL
        values = [str(text).encode("latin-1") for text in message["values"]]
        if sum(map(len, values)) > tcp.MAX_VALUES_BYTES:
            raise DataPlaneRefused(f"at most {tcp.MAX_VALUES_BYTES} bytes at once")
        offset, leader_epoch = self._leaderships.produce(
            partition, message["leader_epoch"], values, is_for_all=is_for_all
        )
        if is_for_all:
            timeout_s = min(message["timeout_ms"] / 1000, _MAX_TIMEOUT_S)
            await self._committed(partition, offset + len(values), timeout_s)
        return {"offset": offset, "leader_epoch": leader_epoch}

    async def _committed(
        self, partition: TopicPartition, end_offset: int, timeout_s: float
    ) -> None:
        """Wait until the records are committed; acknowledging them then still requires authority.

        Raises:
            DataPlaneUnreachable: not in time, or the leadership ended: their fate is unknown.
        """
        if self._replicas[partition].log.high_watermark < end_offset:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._leaderships.commits.wait(partition, end_offset)
            except TimeoutError:
                raise DataPlaneUnreachable(
                    f"{partition}: not committed within {timeout_s:g} s"
                ) from None
        try:
            self._leaderships.check_authority()
        except DataPlaneError as error:
            raise DataPlaneUnreachable(f"{partition}: {error}") from error

    def _consume(self, message: Mapping[str, Any]) -> dict[str, Any]:
        records, watermark = self._leaderships.consume(
            _partition(message),
            message["leader_epoch"],
            _from_zero(message["offset"]),
            min(_from_zero(message["most"]), tcp.MAX_RECORDS),
        )
        return {"records": tcp.record_rows(records), "high_watermark": watermark}

    def _held(self, message: Mapping[str, Any]) -> dict[str, Any]:
        names = sorted(self._replicas)
        after = message["after"]
        start = 0 if after is None else bisect_right(names, TopicPartition(*after))
        page = names[start : start + tcp.MAX_PARTITIONS]
        rows = [tcp.held_row(_replica_row(self._replicas[name])) for name in page]
        return {"replicas": rows, "is_all": start + len(page) == len(names)}

    def _read(self, message: Mapping[str, Any]) -> dict[str, Any]:
        replica = self._replicas.get(_partition(message))
        start = _from_zero(message["offset"])
        end = start + min(_from_zero(message["most"]), tcp.MAX_RECORDS)
        records = () if replica is None else replica.log.read(start, end)
        return {"records": tcp.record_rows(bounded(records, tcp.MAX_VALUES_BYTES))}


class _Connection:
    """One connection: a client's requests side by side, or a follower and its feed."""

    def __init__(self, server: ReplicaServer, channel: Channel, tasks: TaskScope) -> None:
        self._server = server
        self._channel = channel
        self._tasks = tasks
        self._under_way = asyncio.Semaphore(_MAX_UNDER_WAY)
        self.feed: Feed | None = None

    async def run(self) -> None:
        silence_s: float | None = _FIRST_MESSAGE_S
        while True:
            async with asyncio.timeout(silence_s):
                message = codec.decode_object(await self._channel.receive())
            if message["api"] == tcp.FOLLOW:
                if self.feed is None:
                    self.feed = self._open_feed(int(message["follower"]))
                self._server.named(self.feed, message)
            else:
                await self._under_way.acquire()
                self._tasks.start(self._answer(message), "request")
            # A client may be idle without a limit; a follower sends beats.
            silence_s = None if self.feed is None else SILENCE_S

    def _open_feed(self, follower: int) -> Feed:
        """The feed of a follower; raises ValueError if its certificate names another broker."""
        proven = self._channel.proven_brokers
        if proven is not None and follower not in proven:
            raise ValueError(f"follower {follower} with the certificate of {sorted(proven)}")
        feed = self._server.open_feed(follower)
        self._tasks.start(self._feed_for_ever(feed), "feed")
        return feed

    async def _answer(self, message: Mapping[str, Any]) -> None:
        try:
            answer = await self._server.answer(message)
            await self._send(answer)
        except (ChannelClosed, KeyError, TypeError, ValueError):
            self._channel.close()
        finally:
            self._under_way.release()

    async def _feed_for_ever(self, feed: Feed) -> None:
        loop = asyncio.get_running_loop()
        beat_s = loop.time() + BEAT_S
        try:
            while True:
                wake_s = min(beat_s, loop.time() + self._server.throttled_s())
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(wake_s):
                        await feed.wait_changed()
                frame = self._server.feed_frame(feed)
                # Empty frames are beats, which show the follower that this leader is alive.
                if frame or loop.time() >= beat_s:
                    await self._send(frame)
                    beat_s = loop.time() + BEAT_S
        except ChannelClosed:
            self._channel.close()

    async def _send(self, message: Mapping[str, Any]) -> None:
        try:
            async with asyncio.timeout(SILENCE_S):
                await self._channel.send(codec.encode(message))
        except TimeoutError:
            raise ChannelClosed(f"took nothing for {SILENCE_S:g} s") from None


def _partition(message: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(message["topic"], message["partition"])


def _from_zero(number: Any) -> int:
    return max(0, int(number))


def _replica_row(replica: Replica) -> HeldLog:
    role = replica.role
    words = "follower" if role is not None else "none"
    if isinstance(role, LeaderState):
        words = "leader"
    return HeldLog(
        replica.partition,
        replica.topic_id,
        replica.leader_epoch,
        "failed" if replica.is_failed else words,
        replica.log.high_watermark,
        replica.log.end_offset,
        role.isr if isinstance(role, LeaderState) else (),
        tuple(replica.log.epoch_starts),
    )
