"""What loadManagerClassName changes in a whole daemon, composed in memory on a virtual clock."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules, Dependencies
from broker_ctl.broker.load.host_usage import UsageSource
from broker_ctl.broker.lookup.lookup import Connect
from broker_ctl.coordination.membership.cluster import Peers
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.model.commands import HandleCommand
from broker_ctl.core.model.load import SystemUsage
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.core.rules.leader_rules import SimpleRules, SimpleStrategy
from broker_ctl.core.strategies.simple import SimplePlacement, SimpleShedder
from broker_ctl.daemon.lifecycle.lifecycle import Daemon
from broker_ctl.daemon.lifecycle.systemd import Notifier, StopSignals
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.part_rules import leader_rules
from broker_ctl.daemon.wiring.stores import OwnStore
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.errors import BrokerCtlError
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.simulated import SimulatedDataPlane
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.peer_http import PeerHttp
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load
from broker_ctl.simulation.workload.workload import Workload
from broker_ctl.store import paths
from broker_ctl.store.records.load import LocalBrokerData
from broker_ctl.store.records.policies import LocalPolicies
from broker_ctl.store.records.simple import BrokerReport, LoadReport, decode_report
from tests.support.clusters.in_memory_peers import InMemoryPeers
from tests.support.daemon.in_memory_daemon import NoServer
from tests.support.time.waiting import eventually

RING = Ring.even(Namespace("public", "default"), 4)
BROKER = "b1:8080"


class IdleHost:
    async def measure(self) -> SystemUsage:
        return SystemUsage()


class Memory(Environment):
    """One broker in memory."""

    def __init__(self) -> None:
        super().__init__(LoopClock(), random.Random(1))
        self.ensemble = MemoryEnsemble()
        self.store = MemoryStore(self.ensemble, session_timeout_s=20.0)
        self.dependencies: Dependencies | None = None

    def open_stores(self, _: Settings, __: StoreInstruments) -> tuple[OwnStore, OwnStore]:
        return self.store, self.store

    def keeps_session(self, _: Settings) -> bool:
        return False

    def dataplane(self, _: Settings) -> DataPlane:
        steady = Workload.named("steady", seed=1)
        return SimulatedDataPlane(steady, self.clock, broker_id=BROKER, rng=self.rng)

    def host_usage(self, _: Settings) -> UsageSource:
        return IdleHost()

    def peers(self, _: Registry, __: PeerHttp, ___: HandleCommand) -> Peers:
        return InMemoryPeers()

    def api(self, dependencies: Dependencies, _: ApiRules) -> ApiServer:
        self.dependencies = dependencies
        return NoServer()

    async def written(self) -> BrokerReport | None:
        node = await self.store.get(paths.load_report(BROKER))
        return None if node is None else decode_report(node.path, node.data)


def settings_with(*overrides: str) -> Settings:
    fixed = ("clusterName=c", "advertisedAddress=b1", "webServicePort=8080")
    return load(None, {}, [*fixed, *overrides])


@asynccontextmanager
async def running(load_manager: str) -> AsyncIterator[Memory]:
    """A daemon that is ready, with a namespace; it is stopped in the end."""
    around, signals = Memory(), StopSignals()
    assembly = Assembly(settings_with(f"loadManagerClassName={load_manager}"), around)
    async with asyncio.TaskGroup() as group:
        daemon = Daemon(assembly, Notifier({}), signals)
        main = group.create_task(daemon.run(), name="daemon")
        await eventually(lambda: assembly.status.now.is_ready)
        payload = LocalPolicies(RING.boundaries).encode()
        path = paths.local_policies(RING.namespace)
        await around.store.create(path, payload, make_parents=True)
        yield around
        signals.ask()
    assert main.result() == 0


@in_virtual_time
async def test_a_standalone_broker_acquires_what_it_is_asked_for_without_an_election() -> None:
    async with running("org.apache.pulsar.broker.loadbalance.NoopLoadManager") as around:
        assert around.dependencies is not None
        for bundle in RING.bundles:
            assert isinstance(await around.dependencies.lookup.find_bundle(bundle), Connect)
        await asyncio.sleep(100.0)
        assert await around.store.exists(paths.LOADBALANCE_ELECTION.node_path) is None
        report = await around.written()
        assert isinstance(report, LocalBrokerData)
        assert report.load_manager == "org.apache.pulsar.broker.loadbalance.NoopLoadManager"
        # That of its registration: nobody wants to know more.
        assert report.load.bundles == {}


@in_virtual_time
async def test_the_simple_manager_leads_and_writes_its_own_report() -> None:
    async with running("SimpleLoadManagerImpl") as around:
        dependencies = around.dependencies
        assert dependencies is not None
        await eventually(lambda: dependencies.admin() is not None)
        bundle = RING.bundles[0]

        async def reported() -> bool:
            report = await around.written()
            return isinstance(report, LoadReport) and str(bundle) in report.load.bundles

        async def taken() -> bool:
            # Until a report has come in the leader knows of nobody.
            with suppress(BrokerCtlError):
                return isinstance(await dependencies.lookup.find_bundle(bundle), Connect)
            return False

        await eventually(taken)
        await eventually(reported)


@pytest.mark.parametrize("name", ["ModularLoadManagerImpl", "SimpleLoadManagerImpl"])
def test_the_load_manager_says_which_rules_the_leader_follows(name: str) -> None:
    settings = settings_with(
        f"loadManagerClassName={name}",
        "loadBalancerPlacementStrategy=weightedRandomSelection",
        "loadBalancerBrokerOverloadedThresholdPercentage=90",
        "loadBalancerBrokerComfortLoadLevelPercentage=60",
        "loadBalancerBrokerUnderloadedThresholdPercentage=40",
    )
    rules = leader_rules(settings)
    simple = SimpleRules(90, 60, 40, SimpleStrategy.WEIGHTED_RANDOM)
    is_simple = name == "SimpleLoadManagerImpl"
    assert (rules.placement == SimplePlacement(simple)) is is_simple
    assert (rules.shedding == SimpleShedder(simple)) is is_simple
