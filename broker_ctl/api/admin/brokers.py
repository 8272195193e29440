"""``/admin/v2/brokers`` and ``/admin/v2/broker-stats``: brokers, leader, load reports.

Docs: pulsar-admin-api.
"""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.limits.requests import ConcurrencyLimit
from broker_ctl.api.http.redirects import redirect
from broker_ctl.api.http.request_params import whole_number_in
from broker_ctl.api.http.responses import ApiError, explain_unserved
from broker_ctl.broker.ownership.command_handler import TopicTraffic
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Namespace

_BROKERS: Final = "/admin/v2/brokers"
_STATISTICS: Final = "/admin/v2/broker-stats"
# A broker may serve a million topics; a list of this length has some 30 MB.
MOST_TOPICS: Final = 100_000
_TOPICS: Final = 10_000
# Any client may send this request, and each one causes work in the broker process.
_TOPIC_QUESTIONS: Final = 2
# Header that marks further topics; the body has only Pulsar's fields.
CUT_HEADER: Final = "X-Broker-Ctl-Cut-At"


class BrokerRoutes:
    """Brokers, the leader, and the bundles and load of this broker."""

    def __init__(self, dependencies: Dependencies, cluster_name: str) -> None:
        self._cluster = dependencies.cluster
        self._ownership = dependencies.services.ownership
        self._topics = dependencies.topics
        self._reporter = dependencies.services.reporter
        self._configuration = dependencies.services.configuration
        self._cluster_name = cluster_name
        self._questions = ConcurrencyLimit("questions for topic statistics", _TOPIC_QUESTIONS)
        self._questions.show(dependencies.instruments.bounds, "topic-statistics")

    def routes(self) -> list[web.RouteDef]:
        """What is served here; a cluster called leaderBroker is not reached, as in Pulsar."""
        return [
            web.get(_BROKERS, self.live),
            web.get(f"{_BROKERS}/leaderBroker", self.leader),
            web.get(f"{_BROKERS}/version", self.version),
            web.get(f"{_BROKERS}/internal-configuration", self.stores),
            web.get(f"{_BROKERS}/backlog-quota-check", self.check_backlogs),
            web.get(f"{_BROKERS}/{{cluster}}", self.live_of_cluster),
            web.get(f"{_BROKERS}/{{cluster}}/{{broker}}/ownedNamespaces", self.owned),
            web.get(f"{_STATISTICS}/load-report", self.load_report),
            web.get(f"{_STATISTICS}/topics", self.topics),
        ]

    async def live(self, _: web.Request) -> web.Response:
        """Ids of the live brokers."""
        return responses.json(self._cluster.broker_ids())

    async def live_of_cluster(self, request: web.Request) -> web.Response:
        """Ids of the live brokers of this cluster; 404 for another cluster."""
        self._check_cluster(request)
        return responses.json(self._cluster.broker_ids())

    async def leader(self, _: web.Request) -> web.Response:
        """The leader; 404 while no leader is known."""
        leader = self._cluster.leader()
        if leader is None:
            raise ApiError(404, "no broker leads at present", kind="NoLeader")
        broker_id, address = leader
        return responses.json({"serviceUrl": address, "brokerId": broker_id})

    async def version(self, _: web.Request) -> web.Response:
        """The release of this daemon; the load report has that of the broker process."""
        return responses.text(version("broker-ctl"))

    async def stores(self, _: web.Request) -> web.Response:
        """The addresses of the metadata store, for other tools; ledgers are not known here."""
        metadata = self._configuration.current().metadata
        store, other = metadata.store_url, metadata.configuration_store_url
        url = "" if store is None else str(store)
        configuration_url = url if other is None else str(other)
        return responses.json(
            {
                "zookeeperServers": url,
                "configurationStoreServers": configuration_url,
                "metadataStoreUrl": url,
                "configurationMetadataStoreUrl": configuration_url,
            }
        )

    async def check_backlogs(self, request: web.Request) -> web.Response:
        """501: only the broker process knows backlogs."""
        raise explain_unserved(request.path) or ApiError(501, "backlogs are the broker process's")

    async def owned(self, request: web.Request) -> web.Response:
        """The bundles of this broker; requests about another broker are redirected to it."""
        self._check_cluster(request)
        broker_id = request.match_info["broker"]
        if broker_id != self._ownership.urls.broker_id:
            urls = self._cluster.urls_of(broker_id)
            if urls is None:
                raise ApiError(404, f"{broker_id!r} is not a live broker", kind="NoBroker")
            return redirect(request, urls)
        return responses.json(
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
        """This broker's load report in its load manager's format: LocalBrokerData or LoadReport."""
        report = self._reporter.current().encode()
        return responses.encoded_json(report)

    async def topics(self, request: web.Request) -> web.Response:
        """Traffic of this broker's topics, by namespace, bundle and domain.

        Returns at most ``limit`` topics, in the order of bundles and names; a header marks that
        there are more. ``namespace`` restricts the result to one namespace.
        """
        limit = whole_number_in(request, "limit", _TOPICS, MOST_TOPICS)
        namespace = request.query.get("namespace")
        with self._questions.held():
            traffic = await self._topics.statistics(
                limit, Namespace.parse(namespace) if namespace else None
            )
        answer = responses.json(_by_namespace(traffic))
        if traffic.is_cut:
            answer.headers[CUT_HEADER] = str(limit)
        return answer

    def _check_cluster(self, request: web.Request) -> None:
        if request.match_info["cluster"] != self._cluster_name:
            raise ApiError(404, f"this is cluster {self._cluster_name}", kind="NoCluster")


def _by_namespace(traffic: TopicTraffic) -> dict[str, Any]:
    """Pulsar's nesting: namespace, range, domain, complete name."""
    found: dict[str, Any] = {}
    for bundle, lines in traffic.bundles.items():
        domains: dict[str, dict[str, Any]] = {}
        for name, stats in lines.items():
            # Not parsed: the broker process has done so, and there are many.
            domains.setdefault(name.partition("://")[0], {})[name] = _topic_line(stats)
        if domains:
            found.setdefault(str(bundle.namespace), {})[str(bundle.range)] = domains
    return found


def _topic_line(stats: BundleStats) -> Mapping[str, float]:
    """Return the measured values of a topic under Pulsar's names, and no other fields."""
    return {
        "producerCount": stats.producers,
        "consumerCount": stats.consumers,
        "averageMsgSize": stats.msg_throughput_in / stats.msg_rate_in if stats.msg_rate_in else 0.0,
        "msgRateIn": stats.msg_rate_in,
        "msgRateOut": stats.msg_rate_out,
        "msgThroughputIn": stats.msg_throughput_in,
        "msgThroughputOut": stats.msg_throughput_out,
    }
