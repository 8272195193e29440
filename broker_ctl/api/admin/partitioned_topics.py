"""``/admin/v2/{domain}/.../partitions``: partitioned topics, in Pulsar's shapes."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change, value_before
from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.request_params import (
    is_dry_run,
    json_in,
    namespace_in,
    new_topic_in,
    report_dry_run,
    supports_dry_run,
    topic_in,
    whole_number,
)
from broker_ctl.api.http.responses import ApiError
from broker_ctl.broker.namespaces.partitioned_topics import PartitionedTopics
from broker_ctl.core.model.names import DOMAINS, Topic
from broker_ctl.errors import BrokerCtlError, HttpError, InvalidPolicy, NotOwner, TopicMissing
from broker_ctl.peer_http import AddressSource

# Unloads all partitions of a partitioned topic at their owners.


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
            except BrokerCtlError as error:
                found.failures.append(f"{partition.local}: {error}")
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
        reply = await self._dependencies.peers.request("PUT", urls, target, AddressSource.OWNER)
        if reply.status == 404:
            raise TopicMissing(f"{partition} is not loaded")
        if reply.status not in {200, 204}:
            raise HttpError(f"{urls.broker_id} answered {reply.status}")


# ``/admin/v2/{domain}/.../partitions``: partitioned topics, in Pulsar's shapes.
#
# Any broker answers for all topics, because their numbers of partitions are in the configuration
# store. Statuses are Pulsar's: 406 for an invalid number in a create request, 422 in an update.


_NAMESPACE: Final = f"/admin/v2/{{domain:{'|'.join(DOMAINS)}}}/{{tenant}}/{{namespace}}"
_METADATA: Final = "application/vnd.partitioned-topic-metadata+json"
_PARTITIONS: Final = f"{_NAMESPACE}/{{topic:[^/]+}}/partitions"


class PartitionedTopicRoutes:
    """Create, show, extend, delete, list."""

    def __init__(self, topics: PartitionedTopics) -> None:
        self._topics = topics

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.put(_PARTITIONS, self.create),
            web.get(_PARTITIONS, self.show),
            web.post(_PARTITIONS, self.update),
            web.delete(_PARTITIONS, self.delete),
            web.get(f"{_NAMESPACE}/partitioned", self.of_namespace),
        ]

    @supports_dry_run
    async def create(self, request: web.Request) -> web.Response:
        """204; 406 for an invalid number, 409 if the topic exists, 412 for an invalid name.

        Partitions are opened when clients use them.
        """
        topic = new_topic_in(request)
        partitions, properties = await _metadata_in(request)
        is_dry = is_dry_run(request)
        note_change(request, after={"partitions": partitions, "properties": sorted(properties)})
        try:
            await self._topics.create(topic, partitions, properties, is_dry_run=is_dry)
        except InvalidPolicy as error:
            raise _refusal(406, error) from error
        return report_dry_run() if is_dry else responses.no_content()

    async def show(self, request: web.Request) -> web.Response:
        """200, with 0 partitions for any topic that is not partitioned.

        Clients send this request before they open a topic. Pulsar answers 404 if no topic of this
        name exists; here only broker processes know which topics exist.
        """
        return responses.json(await self._topics.metadata(topic_in(request)))

    @supports_dry_run
    async def update(self, request: web.Request) -> web.Response:
        """204; 409 if the topic is not partitioned, 422 for fewer partitions or too many."""
        topic, partitions = topic_in(request), await _number_in(request)
        is_dry = is_dry_run(request)
        before = await self._partitions_of(topic)
        note_change(request, before=before, after={"partitions": partitions})
        try:
            await self._topics.update(topic, partitions, is_dry_run=is_dry)
        except TopicMissing as error:
            raise _refusal(409, error) from error
        except InvalidPolicy as error:
            raise _refusal(422, error) from error
        return report_dry_run() if is_dry else responses.no_content()

    @supports_dry_run
    async def delete(self, request: web.Request) -> web.Response:
        """204; 404 if the topic is not partitioned. Loaded partitions stay open."""
        is_dry, topic = is_dry_run(request), topic_in(request)
        note_change(request, before=await self._partitions_of(topic))
        await self._topics.delete(topic, is_dry_run=is_dry)
        return report_dry_run() if is_dry else responses.no_content()

    async def _partitions_of(self, topic: Topic) -> dict[str, int] | None:
        count = await value_before(self._topics.partitions_of(topic))
        return {"partitions": count} if count else None

    async def of_namespace(self, request: web.Request) -> web.Response:
        """Complete names of a namespace's partitioned topics of one domain."""
        domain = request.match_info["domain"]
        topics = await self._topics.of_namespace(namespace_in(request), domain)
        return responses.json([str(topic) for topic in topics])


async def _metadata_in(request: web.Request) -> tuple[int, dict[str, str]]:
    """Return the number of partitions and the properties in the body.

    Go's client always sends both; Java's client and pulsar-admin send both only with properties,
    with a separate Content-Type.

    Raises:
        ApiError: 400, something else.
    """
    body = await json_in(request, _METADATA)
    if request.content_type != _METADATA:
        return _number_of(body), {}
    if not isinstance(body, dict):
        raise ApiError(400, "the body must be an object with partitions and properties")
    properties = body.get("properties") or {}
    if not isinstance(properties, dict) or not all(
        isinstance(value, str) for value in properties.values()
    ):
        raise ApiError(400, "properties must be an object of texts")
    return _number_of(body.get("partitions")), properties


async def _number_in(request: web.Request) -> int:
    """Parse the body, a single number.

    Raises:
        ApiError: 400, something else.
    """
    return _number_of(await json_in(request))


def _number_of(value: Any) -> int:
    """Return the number of partitions; 0 if it is missing, as in Pulsar."""
    if value is None:
        return 0
    number = whole_number(value)
    if number is None:
        raise ApiError(400, "the body must be the number of partitions")
    return number


def _refusal(status: int, met: InvalidPolicy | TopicMissing) -> ApiError:
    return ApiError(status, str(met), kind=type(met).__name__)
