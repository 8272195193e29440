"""Replication clusters and permissions of a namespace.

Docs: pulsar-http-lookup, pulsar-admin-api.
"""

from typing import Final

from aiohttp import web

from broker_ctl.api.admin.namespaces import NAMESPACE
from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change, value_before
from broker_ctl.api.http.dry_runs import is_dry_run, report_dry_run, supports_dry_run
from broker_ctl.api.http.request_params import namespace_in, texts_in
from broker_ctl.broker.policies.namespace_policies import NamespacePolicies

_REPLICATION: Final = f"{NAMESPACE}/replication"


class ReplicationRoutes:
    """Policies of a namespace with routes of their own."""

    def __init__(self, policies: NamespacePolicies) -> None:
        self._policies = policies

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get(_REPLICATION, self.clusters),
            web.post(_REPLICATION, self.set_clusters),
            web.get(f"{NAMESPACE}/permissions", self.permissions),
        ]

    async def clusters(self, request: web.Request) -> web.Response:
        """The stored clusters; empty if an earlier release created the namespace."""
        found = await self._policies.find(namespace_in(request))
        return responses.json(found.replication_clusters)

    @supports_dry_run
    async def set_clusters(self, request: web.Request) -> web.Response:
        """204; 403 for a cluster that is unknown or not the tenant's; 409 for peer clusters."""
        namespace = namespace_in(request)
        names = await texts_in(request, "cluster names")
        is_dry = is_dry_run(request)
        stored = await value_before(self._policies.find(namespace))
        before = None if stored is None else list(stored.replication_clusters)
        note_change(request, before=before, after=names)
        await self._policies.set_replication_clusters(namespace, names, is_dry_run=is_dry)
        return report_dry_run() if is_dry else responses.no_content()

    async def permissions(self, request: web.Request) -> web.Response:
        """The stored permissions of roles; for lookups they count with authorizationEnabled."""
        return responses.json(await self._policies.permissions(namespace_in(request)))
