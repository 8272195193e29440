"""Unloads all partitions of a partitioned topic at their owners."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.responses import ApiError
from broker_ctl.core.model.names import Topic
from broker_ctl.errors import BrokerCtlError, HttpError, NotOwner, TopicMissing
from broker_ctl.peer_http import Source

_UNLOADS_IN_FLIGHT: Final = 8


@dataclass(slots=True)
class _Found:
    """Results so far."""

    closed: int = 0
    failures: list[str] = field(default_factory=list)


class PartitionUnloads:
    """Unloads of a partitioned topic by its own name."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._services = dependencies.services

    async def run(self, topic: Topic, partitions: int, *, is_dry_run: bool) -> None:
        """Close all loaded partitions, or only check whether one is loaded.

        Raises:
            TopicMissing: no partition is loaded.
            ApiError: 503, some partitions could not be closed; the others were.
        """
        found = _Found()
        waiting = iter(range(partitions))
        async with asyncio.TaskGroup() as group:
            for number in range(min(_UNLOADS_IN_FLIGHT, partitions)):
                work = self._each(topic, waiting, found, is_dry_run=is_dry_run)
                group.create_task(work, name=f"unload partitions {number}")
        if found.failures:
            reason = f"{len(found.failures)} of {partitions} partitions could not be unloaded"
            raise ApiError(503, f"{reason}, first {found.failures[0]}", kind="UnloadFailed")
        if not found.closed:
            raise TopicMissing(f"none of the {partitions} partitions of {topic} is loaded")

    async def _each(
        self, topic: Topic, waiting: Iterator[int], found: _Found, *, is_dry_run: bool
    ) -> None:
        for number in waiting:
            partition = Topic(topic.domain, topic.namespace, f"{topic.local}-partition-{number}")
            try:
                await self._close(partition, is_dry_run=is_dry_run)
            except (TopicMissing, NotOwner):
                continue
            except BrokerCtlError as met:
                found.failures.append(f"{partition.local}: {met}")
            else:
                found.closed += 1

    async def _close(self, partition: Topic, *, is_dry_run: bool) -> None:
        bundle = await self._dependencies.lookup.bundle_of(partition)
        owner = await self._services.ownership.owner_of(bundle)
        if owner is None:
            raise TopicMissing(f"{partition} is not loaded: no broker owns {bundle}")
        if owner.is_self:
            await self._dependencies.topics.unload(bundle, partition, is_dry_run=is_dry_run)
            return
        urls = owner.urls
        path = f"{partition.domain}/{partition.namespace}/{quote(partition.local, safe='')}/unload"
        target = f"/admin/v2/{path}" + "?dry_run=true" * is_dry_run
        reply = await self._dependencies.peers.request("PUT", urls, target, Source.OWNER)
        if reply.status == 404:
            raise TopicMissing(f"{partition} is not loaded")
        if reply.status not in {200, 204}:
            raise HttpError(f"{urls.broker_id} answered {reply.status}")
