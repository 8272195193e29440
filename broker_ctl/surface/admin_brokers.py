"""``/admin/v2/brokers`` and ``/admin/v2/broker-stats``: who is there (reference: 8.4)."""

from typing import Final

from aiohttp import web

from broker_ctl.core.ownership import BundleState
from broker_ctl.ports import Cluster
from broker_ctl.surface import answers
from broker_ctl.surface.answers import Refusal
from broker_ctl.surface.parts import LoadReporter, Ownership
from broker_ctl.surface.redirects import redirect

_BROKERS: Final = "/admin/v2/brokers"


class BrokerRoutes:
    """Brokers, the leader, and what this broker has and carries."""

    def __init__(
        self, cluster: Cluster, ownership: Ownership, reporter: LoadReporter, cluster_name: str
    ) -> None:
        self._cluster = cluster
        self._ownership = ownership
        self._reporter = reporter
        self._cluster_name = cluster_name

    def routes(self) -> list[web.RouteDef]:
        """What is served here; a cluster called leaderBroker is not reached, as in Pulsar."""
        return [
            web.get(_BROKERS, self.live),
            web.get(f"{_BROKERS}/leaderBroker", self.leader),
            web.get(f"{_BROKERS}/{{cluster}}", self.live_of_cluster),
            web.get(f"{_BROKERS}/{{cluster}}/{{broker}}/ownedNamespaces", self.owned),
            web.get("/admin/v2/broker-stats/load-report", self.load_report),
        ]

    async def live(self, _: web.Request) -> web.Response:
        """Ids of the live brokers."""
        return answers.json(self._cluster.broker_ids())

    async def live_of_cluster(self, request: web.Request) -> web.Response:
        """The same; 404 for another cluster."""
        self._check_cluster(request)
        return answers.json(self._cluster.broker_ids())

    async def leader(self, _: web.Request) -> web.Response:
        """Who leads; 404 while nobody is known to."""
        leader = self._cluster.leader()
        if leader is None:
            raise Refusal(404, "nobody leads at the moment", kind="NoLeader")
        broker_id, address = leader
        return answers.json({"serviceUrl": address, "brokerId": broker_id})

    async def owned(self, request: web.Request) -> web.Response:
        """The bundles of a broker, told by itself; others are sent there."""
        self._check_cluster(request)
        broker_id = request.match_info["broker"]
        if broker_id != self._ownership.urls.broker_id:
            urls = self._cluster.urls_of(broker_id)
            if urls is None:
                raise Refusal(404, f"{broker_id!r} is no live broker", kind="NoBroker")
            return redirect(request, urls)
        return answers.json(
            {
                str(bundle): {
                    "broker_assignment": "shared",
                    "is_controlled": False,
                    "is_active": held.state == BundleState.OWNED,
                }
                for bundle, held in self._ownership.owned().items()
            }
        )

    async def load_report(self, _: web.Request) -> web.Response:
        """This broker's, in Pulsar's form."""
        report = self._reporter.current().encode()
        return web.Response(body=report, content_type="application/json")

    def _check_cluster(self, request: web.Request) -> None:
        if request.match_info["cluster"] != self._cluster_name:
            raise Refusal(404, f"this is cluster {self._cluster_name}", kind="NoCluster")
