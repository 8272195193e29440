"""Followers: which partitions are fetched from whom, and at which rate."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from broker_ctl import codec
from broker_ctl.clock import Clock
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.errors import CorruptRecord
from broker_ctl.lab.replication.leader import LeaderState
from broker_ctl.lab.replication.log import EpochEnd, LogRecord, size_of
from broker_ctl.lab.replication.replica import Replica
from broker_ctl.lab.replication.storage import ReplicaStorage
from broker_ctl.lab.replication.tcp import (
    BEAT_S,
    FOLLOW,
    MAX_PARTITIONS,
    SILENCE_S,
    Channel,
    ChannelClosed,
    Network,
    records_of,
)
from broker_ctl.retry import Backoff
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# The throttle of replicas that a reassignment adds, in bytes a second.
#
# A token bucket. Whatever may continue gets a grant of a tenth of a second's bytes, in the order
# in which it began to wait, so that no partition starves. A record is not divided: what exceeds a
# grant is a debt, and the next grant waits until it is paid.


T = TypeVar("T")

# Bytes of a grant, and of what is saved up while nothing waits, as seconds of the rate.
_GRANT_S: Final = 0.1
_SAVED_S: Final = 1.0


class Throttle(Generic[T]):
    """The bytes that may be copied, and what waits for them; without a rate nothing waits.

    Attributes:
        rate: bytes a second; None: no limit.
    """

    def __init__(self, clock: Clock) -> None:
        self.rate: int | None = None
        self._clock = clock
        self._left = 0.0
        self._at_s = 0.0
        self._waiting: dict[T, None] = {}

    def set_rate(self, rate: int | None) -> None:
        """Change the rate; debts in bytes remain."""
        if rate != self.rate:
            self._refill()
            self.rate = rate

    def wait(self, one: T) -> None:
        """Wait for a grant, behind all that wait already."""
        self._waiting[one] = None

    def forget(self, one: T) -> None:
        """Wait no more."""
        self._waiting.pop(one, None)

    def grants(self) -> Iterator[tuple[T, int]]:
        """What may continue now, each with its bytes, which are spent."""
        self._refill()
        while self._waiting and (self.rate is None or self._left >= self._grant):
            one = next(iter(self._waiting))
            del self._waiting[one]
            self._left -= self._grant
            yield one, self._grant

    def spend(self, size: int) -> None:
        """Account for bytes beyond a grant; negative: the grant was not used up."""
        if self.rate is not None:
            self._refill()
            self._left -= size

    def wait_s(self) -> float | None:
        """Seconds until the next grant; None: nothing waits."""
        if not self._waiting:
            return None
        self._refill()
        return 0.0 if self.rate is None else max(0.0, (self._grant - self._left) / self.rate)

    @property
    def _grant(self) -> int:
        return 0 if self.rate is None else max(1, round(self.rate * _GRANT_S))

    def _refill(self) -> None:
        now_s = self._clock.now_s()
        if self.rate is None:
            self._left = 0.0
        else:
            earned = self.rate * max(0.0, now_s - self._at_s)
            self._left = min(self._left + earned, max(self._grant, self.rate * _SAVED_S))
        self._at_s = now_s


# Followers of the partitions that this broker leads: one feed for each follower's connection.
#
# A follower names a partition once, with its log end, and again whenever that has changed. The
# leader sends to it once there is data for that place: idle partitions cause no traffic, and
# there is no polling. Named places are kept even if they arrive early: the next leader may not
# have its instruction yet.


@dataclass(slots=True, eq=False)
class FetchPlace:
    """Log end of a follower in one partition.

    Attributes:
        leader_epoch: under which it follows.
        last_epoch: of its last record.
        is_open: whether neither records nor a cut have been sent for this place yet.
        sent_watermark: the high watermark that was sent to it here.
        noted_by: the leadership that has accounted for this place.
    """

    topic_id: str
    leader_epoch: int
    end_offset: int
    last_epoch: int
    is_open: bool = True
    sent_watermark: int = 0
    noted_by: LeaderState | None = None


class Feed:
    """The places that one follower has named on one connection, and the partitions to check."""

    def __init__(self, follower: int, contact_s: float) -> None:
        self.follower = follower
        self.contact_s = contact_s
        self.places: dict[TopicPartition, FetchPlace] = {}
        # Bytes that the throttle lets it have.
        self.granted: dict[TopicPartition, int] = {}
        # In the order in which they changed; taken from the front, so that no partition starves.
        self._changed: dict[TopicPartition, None] = {}
        self._event = asyncio.Event()

    def mark(self, partition: TopicPartition) -> None:
        """Mark a partition that may have data for the follower."""
        self._changed[partition] = None
        self._event.set()

    def take(self, most: int) -> list[TopicPartition]:
        """Remove and return up to ``most`` marked partitions, longest marked first."""
        taken = [partition for partition, _ in zip(self._changed, range(most), strict=False)]
        for partition in taken:
            del self._changed[partition]
        if not self._changed:
            self._event.clear()
        return taken

    async def wait_changed(self) -> None:
        """Wait until a partition is marked."""
        await self._event.wait()


class Feeds:
    """The feeds of all followers, by partition."""

    def __init__(self) -> None:
        self._feeds: dict[Feed, None] = {}
        self._by_partition: dict[TopicPartition, list[Feed]] = {}

    def open(self, follower: int, now_s: float) -> Feed:
        """Open a feed for a follower that has connected."""
        feed = Feed(follower, now_s)
        self._feeds[feed] = None
        return feed

    def close(self, feed: Feed) -> None:
        """Close the feed of a connection that has ended."""
        del self._feeds[feed]
        for partition in feed.places:
            self._leave(partition, feed)
            # A connection that had to wait until it was served may have named an older log end of
            # its follower, after the connection that has replaced it: that one counts again.
            self.note_again(partition)

    def name(self, feed: Feed, partition: TopicPartition, place: FetchPlace) -> None:
        """Record where the follower's log ends."""
        before = feed.places.get(partition)
        if before is None:
            self._by_partition.setdefault(partition, []).append(feed)
        else:
            place.sent_watermark = before.sent_watermark
        feed.places[partition] = place
        feed.mark(partition)

    def forget(self, feed: Feed, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions that the follower no longer follows from this broker."""
        for partition in partitions:
            if feed.places.pop(partition, None) is not None:
                self._leave(partition, feed)

    def mark(self, partition: TopicPartition) -> None:
        """Mark a partition at all feeds that follow it."""
        for feed in self._by_partition.get(partition, ()):
            feed.mark(partition)

    def note_again(self, partition: TopicPartition) -> None:
        """Account again for the log ends of the followers of a partition."""
        for feed in self._by_partition.get(partition, ()):
            feed.places[partition].noted_by = None
            feed.mark(partition)

    def last_contact_s(self, follower: int) -> float:
        """Time of its last request on any open connection, in seconds; 0 without one."""
        return max(
            (feed.contact_s for feed in self._feeds if feed.follower == follower), default=0.0
        )

    def _leave(self, partition: TopicPartition, feed: Feed) -> None:
        others = [one for one in self._by_partition[partition] if one is not feed]
        if others:
            self._by_partition[partition] = others
        else:
            del self._by_partition[partition]


# Fetchers: one task for each broker that leads partitions which this broker follows.
#
# A fetcher names the followed partitions, applies the data that arrives, and names the changed
# partitions again; see `messages`. It reopens a connection that ends or is silent, and names all
# partitions again.


_BACKOFF: Final = Backoff(first_s=0.05, factor=2.0, max_s=1.0)


class Fetchers:
    """The followed brokers, and the task that fetches from each.

    Args:
        replicas: all replicas of the table.
        fail: called with a replica whose log cannot be written.

    Attributes:
        throttle: of the replicas that a reassignment adds here.
    """

    def __init__(
        self,
        broker_id: int,
        replicas: Mapping[TopicPartition, Replica],
        storage: ReplicaStorage,
        network: Network,
        fail: Callable[[Replica], None],
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.rng = rng
        self.throttle = Throttle[tuple[_Followed, TopicPartition]](clock)
        self._broker_id = broker_id
        self._replicas = replicas
        self._storage = storage
        self._network = network
        self._fail = fail
        self._brokers: dict[int, str] = {}
        self._leader_of: dict[TopicPartition, int] = {}
        self._followed: dict[int, _Followed] = {}
        self._tasks = TaskScope("replica fetchers")

    def follow(self, partition: TopicPartition, leader: int) -> None:
        """Follow that broker, and no other; fetching begins with `settle`."""
        self.forget(partition)
        self._leader_of[partition] = leader
        followed = self._followed.get(leader)
        if followed is None:
            followed = self._followed[leader] = _Followed()
        followed.add(partition)

    def forget(self, partition: TopicPartition) -> None:
        """Stop fetching; data on its way is ignored on arrival, since the role has changed."""
        leader = self._leader_of.pop(partition, None)
        if leader is not None:
            followed = self._followed[leader]
            followed.remove(partition)
            self.throttle.forget((followed, partition))

    def settle(self, brokers: Mapping[int, str]) -> None:
        """Apply the changes: connect to the brokers that are followed, and to no others.

        A broker without an address is not fetched from until the next call. An address is kept
        until another one replaces it: connecting to a dead leader fails until another leader is to
        be followed.
        """
        self._brokers.update(brokers)
        for leader, followed in tuple(self._followed.items()):
            address = self._brokers.get(leader, "") if followed.partitions else ""
            if address != followed.address:
                followed.stop()
                followed.address = address
                if address:
                    fetcher = _Fetcher(self, followed, leader)
                    followed.task = self._tasks.start(fetcher.run(), f"broker {leader}")
            if not followed.partitions:
                del self._followed[leader]

    async def close(self) -> None:
        """Stop fetching."""
        await self._tasks.close()
        for partition in tuple(self._leader_of):
            self.forget(partition)
        self._followed.clear()
        self._tasks = TaskScope("replica fetchers")

    async def connect(self, leader: int, address: str) -> Channel:
        """A connection to a leader.

        Raises:
            ChannelClosed: the leader is not reachable, or it is another broker.
        """
        channel = await self._network.connect(address)
        if channel.proven_brokers is not None and leader not in channel.proven_brokers:
            channel.close()
            log.warning("the certificate at %s is not that of broker %d", address, leader)
            raise ChannelClosed(f"{address} is not broker {leader}")
        return channel

    def naming(
        self, named: Sequence[TopicPartition], forgotten: Sequence[TopicPartition]
    ) -> dict[str, Any]:
        """The frame that names these partitions with their log ends."""
        rows, topics = [], {}
        for partition in named:
            replica = self._replicas.get(partition)
            follower = None if replica is None else replica.follower
            if replica is None or follower is None:
                continue
            topics[partition.topic] = replica.topic_id
            epoch, end, last = (
                follower.leader_epoch,
                replica.log.end_offset,
                replica.log.last_epoch,
            )
            rows.append([*partition, epoch, end, last])
        return {
            "api": FOLLOW,
            "follower": self._broker_id,
            "topics": topics,
            "named": rows,
            "forgotten": [list(partition) for partition in forgotten],
        }

    def release(self) -> None:
        """Have the partitions named again for which the throttle has bytes."""
        for (followed, partition), size in self.throttle.grants():
            followed.granted[partition] = size
            followed.mark(partition)

    def take(self, leader: int, row: Sequence[Any]) -> TopicPartition | None:
        """Append the records of a leader to one partition; returns it if it is to be named again.

        That is, its log has changed; but while the throttle is used up, it is named later.

        Raises:
            ValueError: the row does not fit.
        """
        topic, number, leader_epoch, watermark, start_offset, rows = row
        replica = self._followed_from(leader, TopicPartition(topic, number))
        if replica is None or (follower := replica.follower) is None:
            return None
        held = replica.log
        records = follower.news_in(held, leader_epoch, start_offset, records_of(rows))
        if records:
            try:
                self._storage.append(replica.partition, records)
            except OSError as error:
                self._broken(replica, error)
                return None
            held.append(records)
        if leader_epoch == follower.leader_epoch:
            held.high_watermark = max(held.high_watermark, min(watermark, held.end_offset))
        if not records or self._waits(leader, replica, watermark, records):
            return None
        return replica.partition

    def _waits(
        self, leader: int, replica: Replica, watermark: int, records: Sequence[LogRecord]
    ) -> bool:
        """Account for records of a replica that a reassignment adds; whether it has to wait.

        One that has all that is committed is about to be in sync, and does not wait.
        """
        follower, followed = replica.follower, self._followed[leader]
        if self.throttle.rate is None or follower is None:
            return False
        if self._broker_id not in follower.adding:
            return False
        self.throttle.spend(size_of(records) - followed.granted.pop(replica.partition, 0))
        if replica.log.end_offset >= watermark:
            return False
        self.throttle.wait((followed, replica.partition))
        return True

    def cut(self, leader: int, row: Sequence[Any]) -> TopicPartition | None:
        """Truncate records that the leader never had; returns the partition if its log changed.

        Raises:
            ValueError: the row does not fit.
        """
        topic, number, leader_epoch, at_offset, epoch, end_offset = row
        replica = self._followed_from(leader, TopicPartition(topic, number))
        if replica is None or (follower := replica.follower) is None:
            return None
        end = follower.cut_in(replica.log, leader_epoch, at_offset, EpochEnd(epoch, end_offset))
        if end >= replica.log.end_offset:
            return None
        log.info("%s: truncating from %d to %d", replica.partition, replica.log.end_offset, end)
        try:
            self._storage.truncate(replica.partition, end)
        except OSError as error:
            self._broken(replica, error)
            return None
        replica.log.truncate(end)
        return replica.partition

    def _followed_from(self, leader: int, partition: TopicPartition) -> Replica | None:
        """The replica, unless its leader has changed since."""
        return self._replicas.get(partition) if self._leader_of.get(partition) == leader else None

    def _broken(self, replica: Replica, error: OSError) -> None:
        log.warning("%s cannot be written: %s; its replica fails", replica.partition, error)
        self.forget(replica.partition)
        self._fail(replica)


class _Followed:
    """Partitions followed from one broker, and the changes that it was not sent yet."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, None] = {}
        self.changed: dict[TopicPartition, None] = {}
        self.forgotten: dict[TopicPartition, None] = {}
        # Bytes that the throttle lets come.
        self.granted: dict[TopicPartition, int] = {}
        self.event = asyncio.Event()
        self.address = ""
        self.task: asyncio.Task[None] | None = None

    def add(self, partition: TopicPartition) -> None:
        self.partitions[partition] = None
        self.mark(partition)

    def mark(self, partition: TopicPartition) -> None:
        self.changed[partition] = None
        self.forgotten.pop(partition, None)
        self.event.set()

    def remove(self, partition: TopicPartition) -> None:
        self.partitions.pop(partition, None)
        self.changed.pop(partition, None)
        self.forgotten[partition] = None
        self.event.set()

    def mark_all(self) -> None:
        """Mark all partitions: the next connection starts without any."""
        self.changed = dict.fromkeys(self.partitions)
        self.forgotten = {}
        self.event.set()

    def take(self) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """The partitions to name and to forget next."""
        named = [one for one, _ in zip(self.changed, range(MAX_PARTITIONS), strict=False)]
        forgotten = [one for one, _ in zip(self.forgotten, range(MAX_PARTITIONS), strict=False)]
        for one in named:
            del self.changed[one]
        for one in forgotten:
            del self.forgotten[one]
        if not self.changed and not self.forgotten:
            self.event.clear()
        return named, forgotten

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            self.task = None


class _Fetcher:
    """The task that fetches from one broker at one address."""

    def __init__(self, fetchers: Fetchers, followed: _Followed, leader: int) -> None:
        self._fetchers = fetchers
        self._followed = followed
        self._leader = leader
        self._address = followed.address
        # Connections in a row over which nothing came.
        self._failures = 0

    async def run(self) -> None:
        """Fetch over one connection after the other, until it is cancelled."""
        while True:
            try:
                async with asyncio.timeout(SILENCE_S):
                    channel = await self._fetchers.connect(self._leader, self._address)
                await self._fetch(channel)
            except (ChannelClosed, TimeoutError) as error:
                log.debug("cannot fetch from %d at %s: %s", self._leader, self._address, error)
            except (CorruptRecord, KeyError, TypeError, ValueError) as error:
                log.warning("bad data of broker %d at %s: %r", self._leader, self._address, error)
            # With jitter: the followers of a broker that restarts do not come back in step.
            self._failures += 1
            await asyncio.sleep(_BACKOFF.delay_s(self._failures, self._fetchers.rng))

    async def _fetch(self, channel: Channel) -> None:
        self._followed.mark_all()
        try:
            async with TaskScope(f"followed broker {self._leader}") as tasks:
                tasks.start(self._name(channel), "naming")
                await self._receive(channel)
        finally:
            channel.close()

    async def _receive(self, channel: Channel) -> None:
        while True:
            async with asyncio.timeout(SILENCE_S):
                frame = codec.decode_object(await channel.receive())
            for row in frame.get("cuts", ()):
                self._mark(self._fetchers.cut(self._leader, row))
            for row in frame.get("data", ()):
                self._mark(self._fetchers.take(self._leader, row))
            self._failures = 0

    def _mark(self, partition: TopicPartition | None) -> None:
        if partition is not None:
            self._followed.mark(partition)

    async def _name(self, channel: Channel) -> None:
        try:
            while True:
                self._fetchers.release()
                named, forgotten = self._followed.take()
                frame = codec.encode(self._fetchers.naming(named, forgotten))
                async with asyncio.timeout(SILENCE_S):
                    await channel.send(frame)
                wait_s = self._fetchers.throttle.wait_s()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(BEAT_S if wait_s is None else min(BEAT_S, wait_s)):
                        await self._followed.event.wait()
        except (ChannelClosed, TimeoutError):
            channel.close()  # which ends receiving too
