"""``/admin/v2/clusters``: the known clusters and their peers.

Docs: pulsar-admin-api. The policies of a cluster (isolation policies and failure domains) are
    in `admin_policies`.
"""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change, value_before
from broker_ctl.api.http.request_params import (
    fields_in,
    is_dry_run,
    report_dry_run,
    supports_dry_run,
    texts_in,
)
from broker_ctl.api.http.responses import ApiError
from broker_ctl.broker.policies.tenants import PEERS, Clusters
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.field_kinds import CLUSTER_DATA

_CLUSTERS: Final = "/admin/v2/clusters"
_CLUSTER: Final = f"{_CLUSTERS}/{{cluster}}"
_PEERS: Final = f"{_CLUSTER}/peers"
# Of fields such as brokerClientAuthenticationParameters.
_SECRETS: Final = ("Authentication", "Password")
_ADDRESSES: Final = ("serviceUrl", "serviceUrlTls", "brokerServiceUrl", "brokerServiceUrlTls")


class ClusterRoutes:
    """List, show, create, update, delete.

    Args:
        own_urls: addresses of this broker, returned for its cluster while none are configured:
            clients can start at any daemon.
    """

    def __init__(self, clusters: Clusters, own_name: str, own_urls: BrokerUrls) -> None:
        self._clusters = clusters
        self._own_name = own_name
        self._own_urls = own_urls

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get(_CLUSTERS, self.names),
            web.get(_CLUSTER, self.show),
            web.put(_CLUSTER, self.create),
            web.post(_CLUSTER, self.update),
            web.delete(_CLUSTER, self.delete),
            web.get(_PEERS, self.peers),
            web.post(_PEERS, self.set_peers),
        ]

    async def names(self, _: web.Request) -> web.Response:
        """Names of all clusters, including this one."""
        return responses.json(await self._clusters.names())

    async def show(self, request: web.Request) -> web.Response:
        """Data of one cluster; 404 if it does not exist."""
        name = request.match_info["cluster"]
        data = await self._clusters.find(name)
        if name == self._own_name and data.keys().isdisjoint(_ADDRESSES):
            data = {**_data(self._own_urls), **data}
        return responses.json(data)

    @supports_dry_run
    async def create(self, request: web.Request) -> web.Response:
        """200, as in Pulsar; 409 if the cluster exists, 412 for an invalid name."""
        name, data = request.match_info["cluster"], await fields_in(request, CLUSTER_DATA)
        if not data:
            raise ApiError(400, "cluster data is required: an object with serviceUrl and its like")
        is_dry = is_dry_run(request)
        note_change(request, after=_without_secrets(data))
        await self._clusters.create(name, data, is_dry_run=is_dry)
        return report_dry_run() if is_dry else responses.done()

    @supports_dry_run
    async def update(self, request: web.Request) -> web.Response:
        """200, as in Pulsar; 404 if the cluster does not exist."""
        name, data = request.match_info["cluster"], await fields_in(request, CLUSTER_DATA)
        is_dry = is_dry_run(request)
        note_change(request, before=await self._stored(name), after=_without_secrets(data))
        await self._clusters.update(name, data, is_dry_run=is_dry)
        return report_dry_run() if is_dry else responses.done()

    @supports_dry_run
    async def delete(self, request: web.Request) -> web.Response:
        """204; 412 while tenants or isolation policies name the cluster."""
        is_dry, name = is_dry_run(request), request.match_info["cluster"]
        note_change(request, before=await self._stored(name))
        await self._clusters.delete(name, is_dry_run=is_dry)
        return report_dry_run() if is_dry else responses.no_content()

    async def _stored(self, name: str) -> dict[str, Any] | None:
        data = await value_before(self._clusters.find(name))
        return None if data is None else _without_secrets(data)

    async def peers(self, request: web.Request) -> web.Response:
        """Peer clusters, to which clients may be redirected; null if none were ever set."""
        data = await self._clusters.find(request.match_info["cluster"])
        return responses.json(data.get(PEERS))

    @supports_dry_run
    async def set_peers(self, request: web.Request) -> web.Response:
        """204; 412 if the peers contain the cluster itself or an unknown cluster."""
        name, peers = request.match_info["cluster"], await texts_in(request, "cluster names")
        is_dry = is_dry_run(request)
        before = await value_before(self._clusters.find(name))
        note_change(request, before=None if before is None else before.get(PEERS), after=peers)
        await self._clusters.set_peers(name, peers, is_dry_run=is_dry)
        return report_dry_run() if is_dry else responses.no_content()


def _without_secrets(data: Mapping[str, Any]) -> dict[str, Any]:
    """Cluster data without the credentials of brokers that replicate to it."""
    return {
        name: "(not recorded)" if any(word in name for word in _SECRETS) else value
        for name, value in data.items()
    }


def _data(urls: BrokerUrls) -> dict[str, Any]:
    own = (urls.web_url, urls.web_url_tls, urls.native_url, urls.native_url_tls)
    return {name: url for name, url in zip(_ADDRESSES, own, strict=True) if url}
