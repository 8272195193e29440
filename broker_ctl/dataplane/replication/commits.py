"""Callers that wait for records to be committed."""

import asyncio
from typing import Final

from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.errors import DataPlaneUnreachable

_ENDED: Final = "the leadership ended before the records were committed: their fate is unknown"


class Commits:
    """Futures that end when the high watermark of a partition reaches an offset."""

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, list[tuple[int, asyncio.Future[None]]]] = {}

    def wait(self, partition: TopicPartition, end_offset: int) -> asyncio.Future[None]:
        """Return once all below ``end_offset`` is committed; `DataPlaneUnreachable`: unknown."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(partition, []).append((end_offset, waiter))
        return waiter

    def advanced(self, partition: TopicPartition, high_watermark: int) -> None:
        """Complete the waits for records below the high watermark."""
        waiting = self._waiting.pop(partition, None)
        if waiting is None:
            return
        rest = []
        for end_offset, waiter in waiting:
            if waiter.done():
                continue  # the waiting caller was cancelled
            if end_offset <= high_watermark:
                waiter.set_result(None)
            else:
                rest.append((end_offset, waiter))
        if rest:
            self._waiting[partition] = rest

    def ended(self, partition: TopicPartition) -> None:
        """Fail all waits of a partition: its leadership is over."""
        for _, waiter in self._waiting.pop(partition, ()):
            if not waiter.done():
                waiter.set_exception(DataPlaneUnreachable(f"{partition}: {_ENDED}"))
