"""Brokers that broker-ctl does not run, by what real ones of Pulsar 4.0.8 wrote."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker_ctl.coordination.membership.foreign_brokers import ForeignBrokers
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.strategies.load_managers import EXTENSIBLE, MODULAR, SIMPLE, LoadManager
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode, MetadataStore
from broker_ctl.store.records.ownership import BrokerRecord, ServiceUnit
from tests.support.clusters.sessions import Party, parties
from tests.support.pulsar.recorded import recorded
from tests.support.time.waiting import eventually

REGISTRIES: dict[str, dict[str, str]] = recorded("registries.json")
MODULAR_NODES = REGISTRIES["ModularLoadManagerImpl"]
EXTENSIBLE_NODES = REGISTRIES["ExtensibleLoadManagerImpl"]


async def write(store: MetadataStore, nodes: dict[str, str]) -> None:
    for path, data in nodes.items():
        is_broker = path.startswith(paths.LOAD_REPORTS)
        mode = CreateMode.EPHEMERAL if is_broker else CreateMode.PERSISTENT
        await store.create(path, data.encode(), mode, make_parents=True)


@asynccontextmanager
async def following(nodes: dict[str, str]) -> AsyncIterator[tuple[ForeignBrokers, Party]]:
    """Brokers in one session, followed from another."""
    async with parties(2) as (reader, writer):
        await write(writer.store, nodes)
        brokers = ForeignBrokers(reader.store, rng=random.Random(1))
        await brokers.start()
        await brokers.wait_synced()
        yield brokers, writer
        await brokers.close()


@pytest.mark.parametrize("manager", [MODULAR, SIMPLE, EXTENSIBLE])
def test_brokers_of_every_load_manager_are_known(manager: LoadManager) -> None:
    name = manager.class_name.rpartition(".")[2]

    @in_virtual_time
    async def look() -> None:
        async with following(REGISTRIES[name]) as (brokers, writer):
            ids = [
                path.rpartition("/")[2]
                for path in REGISTRIES[name]
                if path.startswith(paths.LOAD_REPORTS)
            ]
            assert sorted(brokers.peers) == sorted(ids)
            assert brokers.corrupt == 0
            for broker_id, broker in brokers.peers.items():
                assert broker.urls.broker_id == broker_id
                assert broker.urls.web_url == f"http://{broker_id}"
                assert (broker.urls.native_url or "").startswith("pulsar://127.0.0.1:")
                assert (broker.manager, broker.version) == (manager.class_name, "4.0.8")
                assert broker.session_id == writer.store.session_id
                assert not broker.is_draining
                node = await writer.store.get(paths.load_report(broker_id))
                assert node is not None
                assert broker.czxid == node.stat.czxid

    look()


def test_brokers_before_3_0_do_not_name_their_manager() -> None:
    for name, manager in (("ModularLoadManagerImpl", MODULAR), ("SimpleLoadManagerImpl", SIMPLE)):
        path, data = next(iter(REGISTRIES[name].items()))
        old = data.replace('"loadManagerClassName"', '"ofANewerRelease"').encode()
        assert BrokerRecord.decode(path, old).manager == manager.class_name


@in_virtual_time
async def test_listeners_hear_of_brokers_and_not_of_their_reports() -> None:
    async with following(MODULAR_NODES) as (brokers, writer):
        heard: list[set[str]] = []
        stop = brokers.listen(lambda: heard.append(set(brokers.peers)))
        first, *others = MODULAR_NODES
        busier = MODULAR_NODES[first].replace('"msgRateIn":0.0', '"msgRateIn":77.0', 1)
        assert busier != MODULAR_NODES[first]
        await writer.store.set(first, busier.encode())
        await writer.store.delete(first)
        rest = {path.rpartition("/")[2] for path in others}
        await eventually(lambda: set(brokers.peers) == rest)
        assert heard == [rest]
        await writer.store.create(first, busier.encode(), CreateMode.EPHEMERAL)
        await eventually(lambda: len(brokers.peers) == len(MODULAR_NODES))
        stop()


@in_virtual_time
async def test_one_corrupt_node_hides_no_other_broker() -> None:
    spoilt = dict(MODULAR_NODES)
    first = next(iter(spoilt))
    spoilt[first] = "{"
    async with following(spoilt) as (brokers, _):
        assert len(brokers.peers) == len(spoilt) - 1
        assert brokers.corrupt == 1
        assert brokers.peer(first.rpartition("/")[2]) is None


@in_virtual_time
async def test_a_report_under_another_name_than_host_and_port_lists_no_broker() -> None:
    spoilt = dict(MODULAR_NODES)
    first = next(iter(spoilt))
    spoilt[f"{paths.LOAD_REPORTS}/-oProxyCommand=x #:8080"] = spoilt[first]
    async with following(spoilt) as (brokers, _):
        assert sorted(brokers.peers) == sorted(one.rpartition("/")[2] for one in MODULAR_NODES)
        assert brokers.corrupt == 1


@pytest.mark.parametrize("name", ["ModularLoadManagerImpl", "SimpleLoadManagerImpl"])
def test_planning_has_no_obstacle_where_brokers_report_their_load(name: str) -> None:
    @in_virtual_time
    async def look() -> None:
        async with following(REGISTRIES[name]) as (brokers, _):
            assert await brokers.planning_obstacle() is None
            assert brokers.urls == {
                broker_id: broker.urls for broker_id, broker in brokers.peers.items()
            }
            assert all(isinstance(urls, BrokerUrls) for urls in brokers.urls.values())

    look()


@in_virtual_time
async def test_the_extensible_manager_is_an_obstacle_that_says_what_is_missing() -> None:
    async with following(EXTENSIBLE_NODES) as (brokers, writer):
        unit = f"{paths.SERVICE_UNITS}/public/default/0x00000000_0x10000000"
        await writer.store.create(unit, b"spoilt")
        assert await brokers.planning_obstacle() == (
            "127.0.0.1:49757, 127.0.0.1:60265: ExtensibleLoadManagerImpl reports load in topics "
            "of pulsar/system and not in the metadata store, so no plan is possible (bundles "
            "owned: 2 by 127.0.0.1:49757, 3 by 127.0.0.1:60265). Read the "
            "cluster by its admin API alone: --source admin, or pulsarStateUrl"
        )


@in_virtual_time
async def test_an_obstacle_to_planning_names_owners_that_are_kept_in_a_topic() -> None:
    nodes = {p: data for p, data in EXTENSIBLE_NODES.items() if p.startswith(paths.LOAD_REPORTS)}
    async with following({**nodes, **MODULAR_NODES}) as (brokers, _):
        obstacle = await brokers.planning_obstacle()
        assert obstacle is not None
        # Those that do report are not named.
        assert obstacle.startswith(
            "127.0.0.1:49757, 127.0.0.1:60265: ExtensibleLoadManagerImpl reports"
        )
        assert "(bundles owned: not in the metadata store either)" in obstacle


@pytest.mark.parametrize(
    ("payload", "owner"),
    [
        ('{"state":"Owned","dstBroker":"a:1","sourceBroker":"b:1"}', "a:1"),
        ('{"state":"Assigning","dstBroker":"a:1"}', None),
        ('{"state":"Releasing","dstBroker":"a:1","sourceBroker":"b:1"}', "b:1"),
        ('{"state":"Splitting","sourceBroker":"b:1"}', "b:1"),
        ('{"state":"Free","sourceBroker":"b:1"}', None),
        ('{"state":"Deleted"}', None),
    ],
)
def test_the_owner_of_a_service_unit_is_the_broker_that_serves_it(
    payload: str, owner: str | None
) -> None:
    assert ServiceUnit.decode("/service_unit_state/t/n/r", payload.encode()).owner == owner


@pytest.mark.parametrize(("version", "is_old"), [("2.11.4", True), ("3.0.0", False), ("", False)])
@in_virtual_time
async def test_brokers_that_ignore_destinations_are_named(version: str, is_old: bool) -> None:
    async with following(MODULAR_NODES) as (brokers, _):
        for broker in brokers._tree.values.values():
            object.__setattr__(broker, "version", version)
        obstacle = brokers.destination_obstacle()
        assert bool(obstacle) is is_old
        for broker_id in brokers.peers if is_old else ():
            assert f"{broker_id} ({version})" in obstacle
