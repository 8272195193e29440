"""A rollout beside a Pulsar cluster: played brokers, real HTTP, a store in memory."""

from collections.abc import AsyncIterator

import pytest

from broker_ctl.cli.rollout_driver import Driver
from broker_ctl.cli.runtime.output import Output
from broker_ctl.cli.runtime.target import Target
from broker_ctl.http_client import HttpClient
from broker_ctl.store import paths
from tests.support.clusters.attached import attached_run
from tests.support.clusters.foreign_cluster import ForeignCluster, foreign_cluster
from tests.support.time.waiting import PATIENCE_S, eventually

ACT = ("pulsarAct=true", "loadBalancerSheddingEnabled=false")


@pytest.fixture
async def cluster() -> AsyncIterator[ForeignCluster]:
    async with foreign_cluster() as played:
        yield played


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as client:
        yield client


class PlayedRestart:
    """Brokers lose their session and come back in another one."""

    def __init__(self, cluster: ForeignCluster) -> None:
        self._cluster = cluster
        self.order: list[str] = []

    async def restart(self, broker_id: str) -> None:
        self.order.append(broker_id)
        assert self._cluster.broker(broker_id).owned == set()
        await self._cluster.restart(broker_id)


async def test_a_rollout_restarts_brokers_of_pulsar_empty_and_its_leader_last(
    cluster: ForeignCluster, http: HttpClient
) -> None:
    before = await cluster.tree()
    leader = cluster.brokers[0].broker_id
    async with attached_run(cluster, *ACT) as run:
        await eventually(lambda: run.is_leading)
        plan = (await http.request("GET", f"{run.url}/control/v1/rollout/plan")).json()
        assert (plan["leader"], plan["from_outside"]) == (leader, True)
        body = {"accept_overload": True}
        begun = await http.request("PUT", f"{run.url}/control/v1/rollout", json=body)
        assert begun.status == 200, begun.body
        hook = PlayedRestart(cluster)
        row = await Driver(Target(run.url, None, Output.JSON), hook, lambda _: None).run()
        assert row["state"] == "done", row
        assert len(hook.order) == 3
        assert hook.order[-1] == leader
        assert {broker["url"] for broker in row["brokers"]} == {None}
        await eventually(lambda: not run.attached.directives.drains)
        assert await cluster.store.exists(paths.PAUSE) is None
    # Its state is attach's own: below /broker-ctl, and nowhere else.
    after = await cluster.tree()
    assert after.keys() == before.keys()


async def test_no_rollout_begins_where_nothing_may_be_moved(
    cluster: ForeignCluster, http: HttpClient
) -> None:
    async with attached_run(cluster) as run:
        await eventually(lambda: run.is_leading)
        reply = await http.request("PUT", f"{run.url}/control/v1/rollout", json={})
        assert reply.status == 409
        assert "pulsarAct" in reply.body.decode()
