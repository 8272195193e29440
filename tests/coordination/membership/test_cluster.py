"""The brokers and the leader that a process names which runs none of the brokers."""

import random
from types import SimpleNamespace
from typing import cast

import pytest

from broker_ctl.coordination.election import Election
from broker_ctl.coordination.membership.cluster import LiveCluster
from broker_ctl.coordination.membership.foreign_brokers import ForeignBrokers
from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.machines.session import SessionState
from broker_ctl.core.model.broker import BrokerUrls, LookupUrls
from broker_ctl.core.model.load import BrokerLoad
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode
from broker_ctl.store.records.load import LocalBrokerData
from broker_ctl.store.records.ownership import LeaderBroker
from tests.support.clusters.sessions import parties

URLS = BrokerUrls("a:8080", web_url="http://a:8080", native_url="pulsar://a:6650")
LEADER = LeaderBroker("me:1", "http://me:1")


def cluster_of(
    brokers: ForeignBrokers | None, state: SessionState = SessionState.CONNECTED
) -> LiveCluster:
    election = cast("Election", SimpleNamespace(leader=LEADER))
    watcher = cast("SessionWatcher", SimpleNamespace(state=state))
    return LiveCluster(None, election, watcher, brokers)


@in_virtual_time
async def test_brokers_that_run_elsewhere_are_named_and_serve_their_own_lookups() -> None:
    async with parties(2) as (reader, writer):
        report = LocalBrokerData(URLS, BrokerLoad(URLS.broker_id)).encode()
        path = paths.load_report(URLS.broker_id)
        await writer.store.create(path, report, CreateMode.EPHEMERAL, make_parents=True)
        brokers = ForeignBrokers(reader.store, rng=random.Random(1))
        await brokers.start()
        await brokers.wait_synced()
        cluster = cluster_of(brokers)
        assert cluster.broker_ids() == [URLS.broker_id]
        assert cluster.urls_of(URLS.broker_id) == URLS
        assert cluster.urls_of("b:8080") is None
        assert cluster.lookup_urls_of(URLS.broker_id) == LookupUrls("pulsar://a:6650")
        await brokers.close()


def test_without_any_registry_there_is_no_broker() -> None:
    cluster = cluster_of(None)
    assert cluster.broker_ids() == []
    assert cluster.urls_of("a:8080") is None
    assert cluster.lookup_urls_of("a:8080") is None


@pytest.mark.parametrize("state", SessionState)
def test_a_leader_is_named_only_while_the_session_that_read_it_may_live(
    state: SessionState,
) -> None:
    is_known = state in {SessionState.CONNECTED, SessionState.SUSPENDED}
    assert cluster_of(None, state).leader() == (("me:1", "http://me:1") if is_known else None)


@in_virtual_time
async def test_a_leader_has_the_addresses_of_its_own_registration_while_it_is_known() -> None:
    async with parties(2) as (reader, writer):
        report = LocalBrokerData(URLS, BrokerLoad(URLS.broker_id)).encode()
        path = paths.load_report(URLS.broker_id)
        await writer.store.create(path, report, CreateMode.EPHEMERAL, make_parents=True)
        brokers = ForeignBrokers(reader.store, rng=random.Random(1))
        await brokers.start()
        await brokers.wait_synced()
        # Who leads is in the election's node; its addresses there are not used.
        elected = LeaderBroker(URLS.broker_id, "http://a:9999")
        for leader, state, found in (
            (elected, SessionState.CONNECTED, URLS),
            (elected, SessionState.EXPIRED, None),
            (LEADER, SessionState.CONNECTED, None),
            (None, SessionState.CONNECTED, None),
        ):
            election = cast("Election", SimpleNamespace(leader=leader))
            watcher = cast("SessionWatcher", SimpleNamespace(state=state))
            assert LiveCluster(None, election, watcher, brokers).leader_urls() == found
        await brokers.close()


def test_an_election_node_does_not_name_another_host_than_that_of_its_broker() -> None:
    election = SimpleNamespace(leader=LeaderBroker("me:1", "http://evil:1"))
    watcher = SimpleNamespace(state=SessionState.CONNECTED)
    cluster = LiveCluster(None, cast("Election", election), cast("SessionWatcher", watcher), None)
    assert cluster.leader() == ("me:1", "")


@in_virtual_time
async def test_a_report_does_not_name_another_host_than_that_of_its_node() -> None:
    async with parties(2) as (reader, writer):
        claimed = BrokerUrls("evil:8080", web_url="http://evil:8080")
        report = LocalBrokerData(claimed, BrokerLoad("evil:8080")).encode()
        path = paths.load_report("a:8080")
        await writer.store.create(path, report, CreateMode.EPHEMERAL, make_parents=True)
        brokers = ForeignBrokers(reader.store, rng=random.Random(1))
        await brokers.start()
        await brokers.wait_synced()
        cluster = cluster_of(brokers)
        assert cluster.urls_of("a:8080") == BrokerUrls("a:8080")
        assert cluster.registered("a:8080") == BrokerUrls("a:8080", web_url="http://evil:8080")
        await brokers.close()
