"""Who follows which partitions from here: one feed for each follower's connection.

A follower names a partition once, with the place where its log ends, and again whenever that has
changed. It hears of the partition when there is something for it at that place: nothing passes for
idle partitions, and there is no polling. What it named waits here, however early it
came: the next leader may not have its instruction yet.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.dataplane.replication.leader import LeaderState


@dataclass(slots=True, eq=False)
class Place:
    """Where a follower's log of one partition ends.

    Attributes:
        leader_epoch: under which it follows.
        last_epoch: of its last record.
        is_open: nothing has been sent for this place yet, neither records nor a cut.
        sent_watermark: the high watermark that was sent to it here.
        noted_by: the leadership that has taken notice of this place.
    """

    topic_id: str
    leader_epoch: int
    end_offset: int
    last_epoch: int
    is_open: bool = True
    sent_watermark: int = 0
    noted_by: LeaderState | None = None


class Feed:
    """What one follower has named on one connection, and where something may have changed."""

    def __init__(self, follower: int, contact_s: float) -> None:
        self.follower = follower
        self.contact_s = contact_s
        self.places: dict[TopicPartition, Place] = {}
        # In the order in which they changed; taken from the front, so that none starves.
        self._changed: dict[TopicPartition, None] = {}
        self._event = asyncio.Event()

    def mark(self, partition: TopicPartition) -> None:
        """There may be something for it."""
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
        """Until something is marked."""
        await self._event.wait()


class Feeds:
    """All of them, by partition."""

    def __init__(self) -> None:
        self._feeds: dict[Feed, None] = {}
        self._by_partition: dict[TopicPartition, list[Feed]] = {}

    def open(self, follower: int, now_s: float) -> Feed:
        """A follower has connected."""
        feed = Feed(follower, now_s)
        self._feeds[feed] = None
        return feed

    def close(self, feed: Feed) -> None:
        """Its connection is gone."""
        del self._feeds[feed]
        for partition in feed.places:
            self._leave(partition, feed)

    def name(self, feed: Feed, partition: TopicPartition, place: Place) -> None:
        """The follower's log ends there."""
        before = feed.places.get(partition)
        if before is None:
            self._by_partition.setdefault(partition, []).append(feed)
        else:
            place.sent_watermark = before.sent_watermark
        feed.places[partition] = place
        feed.mark(partition)

    def forget(self, feed: Feed, partitions: Iterable[TopicPartition]) -> None:
        """The follower does not follow these any more, not from here."""
        for partition in partitions:
            if feed.places.pop(partition, None) is not None:
                self._leave(partition, feed)

    def mark(self, partition: TopicPartition) -> None:
        """Something happened there."""
        for feed in self._by_partition.get(partition, ()):
            feed.mark(partition)

    def note_again(self, partition: TopicPartition) -> None:
        """Take notice again of where the logs of its followers end."""
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
