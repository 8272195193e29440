"""A daemon beside Java brokers: who is there, who leads, and who takes no orders."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules, Dependencies
from broker_ctl.broker.lookup.lookup import Connect, Redirect
from broker_ctl.core.cluster.directives import DrainTerms
from broker_ctl.core.model.broker import BrokerUrls, LookupUrls
from broker_ctl.core.model.names import PERSISTENT, Namespace, Topic
from broker_ctl.errors import OrderConflict
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode
from broker_ctl.store.records.ownership import LeaderBroker
from tests.support.clusters.tenants import make_tenants
from tests.support.daemon.in_memory_daemon import InMemory, Run, running
from tests.support.pulsar.recorded import recorded
from tests.support.time.waiting import eventually

OWN = "b1:8080"
TOPIC = Topic(PERSISTENT, Namespace("public", "default"), "x")
REPORTS: dict[str, str] = recorded("registries.json")["ModularLoadManagerImpl"]
REPORT_PATH, REPORT = next(
    (path, data) for path, data in REPORTS.items() if path.startswith(paths.LOAD_REPORTS)
)
JAVA = REPORT_PATH.rpartition("/")[2]


class Shown(InMemory):
    """Keeps what the API server would be built from."""

    dependencies: Dependencies

    def api(self, dependencies: Dependencies, rules: ApiRules) -> ApiServer:
        self.dependencies = dependencies
        return super().api(dependencies, rules)


@dataclass(frozen=True, slots=True)
class Mixed:
    """One daemon, and one Java broker, by what it has written."""

    run: Run
    dependencies: Dependencies
    java: MemoryStore


@asynccontextmanager
async def mixed(*, is_java_leading: bool) -> AsyncIterator[Mixed]:
    ensemble = MemoryEnsemble()
    java = MemoryStore(ensemble)
    await java.start()
    await java.wait_connected()
    await java.create(REPORT_PATH, REPORT.encode(), CreateMode.EPHEMERAL, make_parents=True)
    if is_java_leading:
        election_node = paths.LOADBALANCE_ELECTION.node_path
        leader = LeaderBroker(JAVA, f"http://{JAVA}").encode()
        await java.create(election_node, leader, CreateMode.EPHEMERAL, make_parents=True)
    around = Shown(ensemble)
    async with running("allowMixedCluster=true", around=around) as run:
        await make_tenants(run.assembly.foundation.configuration, "c", TOPIC.namespace.tenant)
        await run.assembly.services.namespaces.create(TOPIC.namespace, bundles=1)
        yield Mixed(run, around.dependencies, java)
    await java.close()


@in_virtual_time
async def test_java_brokers_are_listed_as_long_as_they_live() -> None:
    async with mixed(is_java_leading=False) as scene:
        cluster = scene.dependencies.cluster
        await eventually(lambda: cluster.broker_ids() == sorted([JAVA, OWN]))
        urls = cluster.urls_of(JAVA)
        assert isinstance(urls, BrokerUrls)
        assert urls.web_url == f"http://{JAVA}"
        # It serves binary lookups where it serves messages.
        assert cluster.lookup_urls_of(JAVA) == LookupUrls(urls.native_url, urls.native_url_tls)
        await scene.java.close()
        await eventually(lambda: cluster.broker_ids() == [OWN])
        assert cluster.urls_of(JAVA) is None
        assert cluster.lookup_urls_of(JAVA) is None


@in_virtual_time
async def test_a_lookup_of_a_free_bundle_goes_to_a_leading_java_broker_at_once() -> None:
    async with mixed(is_java_leading=True) as scene:
        cluster, lookup = scene.dependencies.cluster, scene.run.assembly.lookup
        await eventually(lambda: cluster.leader() == (JAVA, f"http://{JAVA}"))
        await eventually(lambda: cluster.urls_of(JAVA))
        sent = await lookup.find(TOPIC)
        assert isinstance(sent, Redirect)
        assert (sent.urls.web_url, sent.is_authoritative) == (f"http://{JAVA}", False)
        # Whom it chose takes the bundle, and is the owner from then on.
        assert isinstance(await lookup.find(TOPIC, authoritative=True), Connect)
        assert isinstance(await lookup.find(TOPIC), Connect)


@in_virtual_time
async def test_a_java_broker_is_not_drained_as_if_it_took_orders() -> None:
    async with mixed(is_java_leading=False) as scene:
        admin = await eventually(scene.dependencies.admin)
        await eventually(lambda: scene.dependencies.cluster.urls_of(JAVA))
        with pytest.raises(OrderConflict, match=f"{JAVA} is not a broker-ctl process"):
            await admin.operations.drain(JAVA, "", "", DrainTerms(is_forced=True))
