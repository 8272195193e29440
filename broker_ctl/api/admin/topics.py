"""``/admin/v2/{domain}/.../{topic}``: unload of one topic (docs: pulsar-admin-api)."""

from typing import Final

from aiohttp import web

from broker_ctl.api.admin.partition_unloads import PartitionUnloads
from broker_ctl.api.http import responses
from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.dry_runs import is_dry_run, report_dry_run, supports_dry_run
from broker_ctl.api.http.redirects import redirect_to_broker
from broker_ctl.api.http.request_params import topic_in
from broker_ctl.core.model.names import DOMAINS
from broker_ctl.errors import NotOwner, TopicMissing

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
        except NotOwner as met:
            # The bundle was released between the check and the unload, and its topics were closed
            # with it.
            raise TopicMissing(f"{topic} is not loaded: {met}") from met
        return report_dry_run() if is_dry else responses.no_content()
