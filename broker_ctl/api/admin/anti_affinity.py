"""``/admin/v2/namespaces/.../antiAffinity``: anti-affinity groups of namespaces.

Docs: pulsar-isolation, pulsar-admin-api.
"""

from typing import Final

from aiohttp import web

from broker_ctl.api.admin.namespaces import NAMESPACE
from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change, value_before
from broker_ctl.api.http.bodies import read_bounded
from broker_ctl.api.http.dry_runs import is_dry_run, report_dry_run, supports_dry_run
from broker_ctl.api.http.request_params import json_in, namespace_in
from broker_ctl.api.http.responses import ApiError
from broker_ctl.broker.policies.anti_affinity import AntiAffinity
from broker_ctl.errors import InvalidName

_GROUP: Final = f"{NAMESPACE}/antiAffinity"
_JSON: Final = "application/json"


class AntiAffinityRoutes:
    """The group of a namespace, and the namespaces of a group.

    A group is sent and returned as plain text, as in Pulsar's server and Java client, regardless of
    the Content-Type. A JSON string, which other clients send, is accepted too.
    """

    def __init__(self, groups: AntiAffinity, cluster_name: str) -> None:
        self._groups = groups
        self._cluster_name = cluster_name

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get(_GROUP, self.group),
            web.post(_GROUP, self.set_group),
            web.delete(_GROUP, self.clear),
            web.get("/admin/v2/namespaces/{cluster}/antiAffinity/{group}", self.members),
            # The route that Pulsar's Java client uses before release 4.2.
            web.get("/admin/namespaces/{cluster}/antiAffinity/{group}", self.members),
        ]

    async def group(self, request: web.Request) -> web.Response:
        """The namespace's group; 204 if the namespace is in none."""
        group = await self._groups.group_of(namespace_in(request))
        return responses.no_content() if group is None else responses.text(group)

    @supports_dry_run
    async def set_group(self, request: web.Request) -> web.Response:
        """204; 412 for an invalid group name."""
        return await self._set(request, await _group_in(request))

    @supports_dry_run
    async def clear(self, request: web.Request) -> web.Response:
        """204, even if the namespace was in no group."""
        return await self._set(request, None)

    async def _set(self, request: web.Request, group: str | None) -> web.Response:
        namespace, is_dry = namespace_in(request), is_dry_run(request)
        before = await value_before(self._groups.group_of(namespace))
        note_change(request, before=before, after=group)
        await self._groups.set(namespace, group, is_dry_run=is_dry)
        if not is_dry:
            return responses.no_content()
        return report_dry_run(group=await self._groups.group_of(namespace))

    async def members(self, request: web.Request) -> web.Response:
        """Namespaces of the group in ``tenant``; 404 for another cluster."""
        if request.match_info["cluster"] != self._cluster_name:
            raise ApiError(404, f"this is cluster {self._cluster_name}", kind="NoCluster")
        tenant = request.query.get("tenant") or request.query.get("property")
        if not tenant:
            raise InvalidName("tenant: give the tenant of the namespaces with ?tenant=NAME")
        found = await self._groups.members(tenant, request.match_info["group"])
        return responses.json([str(namespace) for namespace in found])


async def _group_in(request: web.Request) -> str:
    """The body, a JSON string or bare text.

    Raises:
        ApiError: 400, another Content-Type. InvalidName: the bytes are not UTF-8.
    """
    if request.content_type != _JSON:
        raise ApiError(400, f"Content-Type must be {_JSON}")
    try:
        value = await json_in(request)
    except ApiError as met:
        if met.status != 400:
            raise
        value = None
    if isinstance(value, str):
        return value
    try:
        return (await read_bounded(request)).decode().strip()
    except UnicodeDecodeError:
        raise InvalidName("the body is not UTF-8 text") from None
