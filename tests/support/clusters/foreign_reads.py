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

_LINE = 'pulsar_lb_{}_usage{{cluster="played",metric="loadBalancing"}} {}'
_STARTED_S = 1_700_000_000.5


def read_routes(cluster: "ForeignCluster") -> list[web.RouteDef]:
    """The routes; which broker is asked, the Host header says."""

    def at(
        answer: Callable[["PlayedBroker", web.Request], Awaitable[web.Response]],
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            if cluster.is_silent:
                raise web.HTTPServiceUnavailable
            return await answer(cluster.broker(request.host), request)

        return handle

    async def owned(broker: "PlayedBroker", _: web.Request) -> web.Response:
        state = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
        return web.json_response({str(bundle): state for bundle in broker.owned})

    async def load_report(broker: "PlayedBroker", _: web.Request) -> web.Response:
        if cluster.load_manager == EXTENSIBLE.class_name:
            raise web.HTTPInternalServerError(text='{"reason": "UnsupportedOperationException"}')
        return web.json_response(cluster.report_of(broker))

    async def topics(broker: "PlayedBroker", _: web.Request) -> web.Response:
        found: dict[str, dict[str, object]] = {}
        for bundle in broker.owned:
            rate = cluster.traffic.get(bundle, 0.0)
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

    async def metrics(broker: "PlayedBroker", _: web.Request) -> web.Response:
        used = cluster.link_percent(broker)
        lines = [_LINE.format(name, 0.5) for name in ("cpu", "memory", "directMemory")]
        lines += [_LINE.format("bandwidth_in", used), _LINE.format("bandwidth_out", 0.0)]
        lines += ["# TYPE process_start_time_seconds gauge"]
        lines += [f"process_start_time_seconds {_STARTED_S}"]
        return web.Response(text="\n".join(lines))

    async def version(_: "PlayedBroker", __: web.Request) -> web.Response:
        return web.Response(text=cluster.version)

    async def ring(_: "PlayedBroker", request: web.Request) -> web.Response:
        namespace = Namespace(request.match_info["t"], request.match_info["n"])
        node = await cluster.store.get(paths.local_policies(namespace))
        if node is None:
            raise web.HTTPNotFound
        return web.json_response(json.loads(node.data)["bundles"])

    async def empty(_: "PlayedBroker", __: web.Request) -> web.Response:
        return web.Response(status=204)

    async def none(_: "PlayedBroker", __: web.Request) -> web.Response:
        raise web.HTTPNotFound(text='{"reason": "there are none"}')

    return [
        web.get("/admin/v2/brokers/{cluster}/{broker}/ownedNamespaces", at(owned)),
        web.get("/admin/v2/broker-stats/load-report", at(load_report)),
        web.get("/admin/v2/broker-stats/topics", at(topics)),
        web.get("/admin/v2/brokers/version", at(version)),
        web.get("/metrics/", at(metrics)),
        web.get("/admin/v2/namespaces/{t}/{n}/bundles", at(ring)),
        web.get("/admin/v2/namespaces/{t}/{n}/antiAffinity", at(empty)),
        web.get("/admin/v2/clusters/{cluster}/namespaceIsolationPolicies", at(none)),
        web.get("/admin/v2/clusters/{cluster}/failureDomains", at(empty)),
    ]
