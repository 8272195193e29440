"""``/admin/v2/.../topics``: topics of a namespace, and their unload (docs: pulsar-admin-api)."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from aiohttp import web

from broker_ctl.api.admin.partitioned_topics import PartitionUnloads
from broker_ctl.api.http import responses
from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.limits.requests import ConcurrencyLimit
from broker_ctl.api.http.redirects import redirect_to_broker
from broker_ctl.api.http.request_params import (
    bundle_in,
    is_dry_run,
    namespace_in,
    report_dry_run,
    supports_dry_run,
    topic_in,
)
from broker_ctl.api.http.responses import ApiError
from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.ownership.ownership import Owner
from broker_ctl.core.model.names import DOMAINS, Bundle, Namespace, Topic
from broker_ctl.errors import CorruptRecord, HttpError, NotOwner, TopicMissing
from broker_ctl.peer_http import AddressSource
from broker_ctl.tasks import SingleFlight

# The topics of a namespace, as far as the cluster knows them.
#
# Only broker processes know which topics are stored. A daemon knows the partitions of partitioned
# topics, by their number, and the loaded topics, which the owner of each bundle reports.


# All of them travel in one frame of 5 MiB to clients of the binary protocol.
MOST_BYTES: Final = 4 * 1024 * 1024
# Each request queries all owners of its namespace; concurrent equal requests share one query.
_LISTS: Final = 16
_OWNERS_AT_ONCE: Final = 16
_ANSWER_S: Final = 10.0


class TopicNames:
    """Lists topics of a namespace by asking the owners of its bundles."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._services = dependencies.services
        self._lists = ConcurrencyLimit("lists of topics", _LISTS)
        self._lists.show(dependencies.instruments.bounds, "topic-lists")
        self._joined: SingleFlight[Namespace, tuple[str, ...]] = SingleFlight("lists of topics")

    async def of_namespace(
        self, namespace: Namespace, domains: Collection[str] = DOMAINS
    ) -> list[str]:
        """Return complete names in order; for a partitioned topic those of its partitions.

        Raises:
            NamespaceMissing: there is no such namespace.
            ApiError: 412, more names than fit into an answer; 503, an owner is unreachable.
        """
        with self._lists.held():
            found = await self._joined.do(
                namespace, lambda: self._all(namespace), f"topics of {namespace}"
            )
        wanted = tuple(f"{domain}://" for domain in domains)
        return [name for name in found if name.startswith(wanted)]

    async def loaded_here(self, namespace: Namespace) -> list[str]:
        """Return the topics that this broker's data plane has loaded.

        Raises:
            NamespaceMissing: there is no such namespace.
            DataPlaneError: the broker process cannot answer.
        """
        await self._services.namespaces.ring(namespace)
        return _bounded(namespace, await self._dependencies.topics.names(namespace))

    async def close(self) -> None:
        """Cancel all queries in progress."""
        await self._joined.close()

    async def _all(self, namespace: Namespace) -> tuple[str, ...]:
        names: set[str] = set()
        for owner in await self._owners(namespace):
            if owner.is_self:
                names.update(await self._dependencies.topics.names(namespace))
        places = asyncio.Semaphore(_OWNERS_AT_ONCE)

        async def ask(owner: Owner) -> None:
            async with places:
                names.update(await self._loaded_at(owner, namespace))

        try:
            async with asyncio.TaskGroup() as group:
                for owner in await self._owners(namespace):
                    if not owner.is_self:
                        group.create_task(ask(owner), name=f"topics at {owner.urls.broker_id}")
        except* ApiError as refusals:
            raise refusals.exceptions[0] from None
        for domain in DOMAINS:
            for topic in await self._services.partitioned_topics.of_namespace(namespace, domain):
                names.update(await self._partitions(topic))
        return tuple(_bounded(namespace, names))

    async def _owners(self, namespace: Namespace) -> Iterable[Owner]:
        """Each of them once; a bundle without an owner has no topic loaded."""
        owners: dict[str, Owner] = {}
        for bundle in (await self._services.namespaces.ring(namespace)).bundles:
            owner = await self._services.ownership.owner_of(bundle)
            if owner is not None:
                owners.setdefault(owner.urls.broker_id, owner)
        return owners.values()

    async def _loaded_at(self, owner: Owner, namespace: Namespace) -> list[str]:
        urls = owner.urls
        path = f"/control/v1/topics/{namespace}"
        try:
            reply = await self._dependencies.peers.request(
                "GET", urls, path, AddressSource.OWNER, timeout_s=_ANSWER_S
            )
            if reply.status != 200:
                raise HttpError(f"{path}: {reply.status}")
            return _names_in(reply.json(), namespace)
        except (HttpError, CorruptRecord) as error:
            reason = f"{urls.broker_id} did not report its topics of {namespace}: {error}"
            raise ApiError(503, reason, kind="PeerUnreachable") from error

    async def _partitions(self, topic: Topic) -> list[str]:
        try:
            count = await self._services.partitioned_topics.partitions_of(topic)
        except TopicMissing:
            return []  # deleted meanwhile
        return [f"{topic}-partition-{number}" for number in range(count)]


def _bounded(namespace: Namespace, names: Collection[str]) -> list[str]:
    if sum(map(len, names)) > MOST_BYTES:
        raise ApiError(412, f"{namespace} has more topics than fit into {MOST_BYTES:,} bytes")
    return sorted(names)


def _names_in(row: Any, namespace: Namespace) -> list[str]:
    """Parse the answer of another broker, and validate each name.

    Raises:
        CorruptRecord: the answer is not a list of topics of the namespace.
    """
    names = row.get("topics") if isinstance(row, Mapping) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise CorruptRecord("no list of topics")
    roots = tuple(f"{domain}://{namespace}/" for domain in DOMAINS)
    if not all(name.startswith(roots) for name in names):
        raise CorruptRecord(f"topics of other namespaces than {namespace}")
    return names


# ``/admin/v2/.../topics``: the topics of a namespace, in Pulsar's JSON.
#
# Docs: pulsar-admin-api.


_OF_NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}/topics"
_OF_DOMAIN: Final = f"/admin/v2/{{domain:{'|'.join(DOMAINS)}}}/{{tenant}}/{{namespace}}"
_OF_BUNDLE: Final = f"{_OF_DOMAIN}/{{bundle:0x[0-9a-fA-F]+_0x[0-9a-fA-F]+}}"
_HERE: Final = "/control/v1/topics/{tenant}/{namespace}"
MODES: Final[Mapping[str, tuple[str, ...]]] = {
    "PERSISTENT": DOMAINS[:1],
    "NON_PERSISTENT": DOMAINS[1:],
    "ALL": DOMAINS,
}


class TopicListRoutes:
    """Any broker answers; it asks the owners of the bundles."""

    def __init__(self, names: TopicNames, namespaces: Namespaces) -> None:
        self._names = names
        self._namespaces = namespaces

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get(_OF_NAMESPACE, self.of_namespace),
            web.get(_OF_DOMAIN, self.of_domain),
            web.get(_OF_BUNDLE, self.of_bundle),
            web.get(_HERE, self.here),
        ]

    async def of_namespace(self, request: web.Request) -> web.Response:
        """Topics of a namespace by ``mode``: PERSISTENT (default), NON_PERSISTENT or ALL."""
        mode = request.query.get("mode") or "PERSISTENT"
        if mode not in MODES:
            raise ApiError(400, f"mode is one of {', '.join(MODES)}")
        names = await self._names.of_namespace(namespace_in(request), MODES[mode])
        return responses.json(names)

    async def of_domain(self, request: web.Request) -> web.Response:
        """Topics of the domain in the path; ``bundle`` restricts the result to one bundle."""
        names = await self._of_domain(request)
        if bundle := request.query.get("bundle"):
            wanted = Bundle.parse(f"{namespace_in(request)}/{bundle}")
            names = [name for name in names if _is_in(wanted, name)]
        return responses.json(names)

    async def of_bundle(self, request: web.Request) -> web.Response:
        """Topics of the domain and the bundle in the path."""
        bundle = await bundle_in(request, self._namespaces)
        names = await self._of_domain(request)
        return responses.json([name for name in names if _is_in(bundle, name)])

    async def here(self, request: web.Request) -> web.Response:
        """Topics loaded at this broker, for a broker that collects the topics of all brokers."""
        return responses.json({"topics": await self._names.loaded_here(namespace_in(request))})

    async def _of_domain(self, request: web.Request) -> list[str]:
        domain = request.match_info["domain"]
        return await self._names.of_namespace(namespace_in(request), (domain,))


def _is_in(bundle: Bundle, name: str) -> bool:
    return Topic.parse(name).ring_hash in bundle.range


# ``/admin/v2/{domain}/.../{topic}``: unload of one topic (docs: pulsar-admin-api).


_TOPIC: Final = f"/admin/v2/{{domain:{'|'.join(DOMAINS)}}}/{{tenant}}/{{namespace}}/{{topic:[^/]+}}"


class TopicRoutes:
    """Operators' requests for single topics."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._services = dependencies.services
        self._partitions = PartitionUnloads(dependencies)

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [web.put(f"{_TOPIC}/unload", self.unload)]

    @supports_dry_run
    async def unload(self, request: web.Request) -> web.Response:
        """204 once the topic is closed; 307 to the owner of its bundle; 404 if it is not loaded.

        For a partitioned topic, all partitions are closed at their owners.

        Unlike in Pulsar, the request does not assign a bundle: a bundle without an owner has no
        loaded topics, and unloading a topic must not change an owner.
        """
        topic, is_dry = topic_in(request), is_dry_run(request)
        if partitions := await self._services.partitioned_topics.partitions_of(topic):
            await self._partitions.run(topic, partitions, is_dry_run=is_dry)
            return report_dry_run() if is_dry else responses.no_content()
        bundle = await self._dependencies.lookup.bundle_of(topic)
        owner = await self._services.ownership.owner_of(bundle)
        if owner is None:
            raise TopicMissing(f"{topic} is not loaded: no broker owns {bundle}")
        if not owner.is_self:
            return redirect_to_broker(request, self._dependencies.cluster, owner.urls)
        try:
            await self._dependencies.topics.unload(bundle, topic, is_dry_run=is_dry)
        except NotOwner as error:
            # The bundle was released between the check and the unload, and its topics were closed
            # with it.
            raise TopicMissing(f"{topic} is not loaded: {error}") from error
        return report_dry_run() if is_dry else responses.no_content()
