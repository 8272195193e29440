"""Followers of the partitions that this broker leads: one feed for each follower's connection.

A follower names a partition once, with its log end, and again whenever that has changed. The leader
sends to it once there is data for that place: idle partitions cause no traffic, and there is no
polling. Named places are kept even if they arrive early: the next leader may not have its
instruction yet.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.dataplane.replication.leader import LeaderState


@dataclass(slots=True, eq=False)
class Place:
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
        self.places: dict[TopicPartition, Place] = {}
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

    def name(self, feed: Feed, partition: TopicPartition, place: Place) -> None:
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
