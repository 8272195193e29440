"""What the brokers of a played cluster answer to one that reads nothing but their admin API."""

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from broker_ctl.core.model.names import Namespace
from broker_ctl.core.strategies.load_managers import EXTENSIBLE
from broker_ctl.store import paths

if TYPE_CHECKING:
    from tests.support.clusters.foreign_cluster import ForeignCluster, PlayedBroker

    Answer = Callable[[PlayedBroker, web.Request], Awaitable[web.Response]]

_GAUGE = 'pulsar_lb_{}_usage{{cluster="played",metric="loadBalancing"}} {}'
_STARTED_S = 1_700_000_000.5


class ForeignReads:
    """Routes of one cluster; which broker is asked, the Host header says."""

    def __init__(self, cluster: "ForeignCluster") -> None:
        self._cluster = cluster

    def routes(self) -> list[web.RouteDef]:
        ours, namespace = "/admin/v2/clusters/{cluster}", "/admin/v2/namespaces/{t}/{n}"
        return [
            web.get("/admin/v2/brokers/{cluster}/{broker}/ownedNamespaces", self._at(self._owned)),
            web.get("/admin/v2/broker-stats/load-report", self._at(self._load_report)),
            web.get("/admin/v2/broker-stats/topics", self._at(self._topics)),
            web.get("/admin/v2/brokers/version", self._at(self._version)),
            web.get("/metrics/", self._at(self._metrics)),
            web.get(f"{namespace}/bundles", self._at(self._ring)),
            web.get(f"{namespace}/antiAffinity", self._at(self._empty)),
            web.get(f"{ours}/namespaceIsolationPolicies", self._at(self._missing)),
            web.get(f"{ours}/failureDomains", self._at(self._empty)),
        ]

    def _at(self, answer: "Answer") -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            if self._cluster.is_silent:
                raise web.HTTPServiceUnavailable
            return await answer(self._cluster.broker(request.host), request)

        return handle

    async def _owned(self, broker: "PlayedBroker", _: web.Request) -> web.Response:
        state = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
        return web.json_response({str(bundle): state for bundle in broker.owned})

    async def _load_report(self, broker: "PlayedBroker", _: web.Request) -> web.Response:
        if self._cluster.load_manager == EXTENSIBLE.class_name:
            raise web.HTTPInternalServerError(text='{"reason": "UnsupportedOperationException"}')
        return web.json_response(self._cluster.report_of(broker))

    async def _topics(self, broker: "PlayedBroker", _: web.Request) -> web.Response:
        found: dict[str, dict[str, object]] = {}
        for bundle in broker.owned:
            rate = self._cluster.traffic.get(bundle, 0.0)
            topic = {
                "publishers": [{}],
                "subscriptions": {"s": {"consumers": [{}, {}]}},
                "msgRateIn": rate / 1000,
                "msgThroughputIn": rate,
                "msgRateOut": 0.0,
                "msgThroughputOut": 0.0,
            }
            stats = {"persistent": {f"persistent://{bundle.namespace}/x": topic}}
            found.setdefault(str(bundle.namespace), {})[str(bundle.range)] = stats
        return web.json_response(found)

    async def _metrics(self, broker: "PlayedBroker", _: web.Request) -> web.Response:
        used = self._cluster.link_percent(broker)
        lines = [_GAUGE.format(name, 0.5) for name in ("cpu", "memory", "directMemory")]
        lines += [_GAUGE.format("bandwidth_in", used), _GAUGE.format("bandwidth_out", 0.0)]
        lines += ["# TYPE process_start_time_seconds gauge"]
        lines += [f"process_start_time_seconds {_STARTED_S}"]
        return web.Response(text="\n".join(lines))

    async def _version(self, _: "PlayedBroker", __: web.Request) -> web.Response:
        return web.Response(text=self._cluster.version)

    async def _ring(self, _: "PlayedBroker", request: web.Request) -> web.Response:
        namespace = Namespace(request.match_info["t"], request.match_info["n"])
        node = await self._cluster.store.get(paths.local_policies(namespace))
        if node is None:
            raise web.HTTPNotFound
        return web.json_response(json.loads(node.data)["bundles"])

    async def _empty(self, _: "PlayedBroker", __: web.Request) -> web.Response:
        return web.Response(status=204)

    async def _missing(self, _: "PlayedBroker", __: web.Request) -> web.Response:
        raise web.HTTPNotFound(text='{"reason": "there are none"}')
