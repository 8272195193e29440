"""The server ends a daemon's session (docs: pip-57): nothing moves because of it."""

import asyncio
import json
import time
from functools import partial

from kazoo.client import KazooClient

from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.daemon.lifecycle import exits
from broker_ctl.dataplane.bundles.serve_log import judge, merge_logs, read_events
from broker_ctl.http_client import HttpClient
from broker_ctl.simulation.workload.workload import Workload
from tests.end_to_end.conftest import NewCluster
from tests.support.daemon.running_daemons import look_up, make_namespace, status
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.proxy import Proxy, Way
from tests.support.zookeeper.session_faults import expire_session, password_of

ROOT = "/namespace/public/default"
TOPICS = [Topic("persistent", Namespace("public", "default"), f"topic-{n}") for n in range(8, 40)]
# From the end of the lease, which is before that of the session, to the end of the process.
# A process that waited for a server to say so would wait for ever.
STOP_S = 30.0
NO_BALANCING = {
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
}


def owners(hosts: str) -> dict[str, tuple[str, int, int]]:
    """Broker, session and token of each bundle's owner."""
    client = KazooClient(hosts=hosts)
    client.start()
    try:
        found = {}
        for name in client.get_children(ROOT):
            data, stat = client.get(f"{ROOT}/{name}")
            found[name] = (json.loads(data)["brokerId"], stat.ephemeralOwner, stat.czxid)
        return found
    finally:
        client.stop()
        client.close()


async def test_every_bundle_stays_and_no_topic_is_served_twice(
    new_cluster: NewCluster, http: HttpClient, zookeeper: SharedEnsemble, chroot: str
) -> None:
    hosts = zookeeper.connect_string + chroot
    async with new_cluster(3, **NO_BALANCING) as daemons:
        await daemons.wait_ready(http)
        await make_namespace(http, daemons.all[0], bundles=8)
        for topic in TOPICS:
            await eventually(partial(look_up, http, daemons.all[0], topic), what=str(topic))
        before = await asyncio.to_thread(owners, hosts)
        assert len(before) == 8
        victim_id = next(iter(before.values()))[0]
        victim = next(daemon for daemon in daemons.all if daemon.broker_id == victim_id)
        session_id = next(session for broker, session, _ in before.values() if broker == victim_id)

        await expire_session(zookeeper.connect_string, session_id, password_of(session_id))

        async def is_back() -> bool:
            seen = await status(http, victim)
            return bool(seen) and seen["session"]["epoch"] == 2 and seen["is_ready"]

        await eventually(is_back, what="a new session, registered")
        after = await asyncio.to_thread(owners, hosts)
        assert {name: broker for name, (broker, _, _) in after.items()} == {
            name: broker for name, (broker, _, _) in before.items()
        }
        for name, (broker, session, token) in after.items():
            if broker == victim_id:
                assert session != session_id
                assert token > before[name][2]
            else:
                assert (broker, session, token) == before[name]
        assert (await look_up(http, victim, TOPICS[0]))["brokerId"] == before_owner(
            before, TOPICS[0]
        )
    acts = merge_logs(
        read_events(d.files.serve_log) for d in daemons.all if d.files.serve_log.exists()
    )
    verdict = judge(acts, 0.1, Workload.named("skewed", 1).positions_with_traffic(0.0))
    assert verdict.double_served == 0, verdict.faults


async def test_with_the_policy_shutdown_the_process_ends_instead(
    new_cluster: NewCluster, http: HttpClient, zookeeper: SharedEnsemble, chroot: str
) -> None:
    async with new_cluster(1, zookeeperSessionExpiredPolicy="shutdown") as daemons:
        await daemons.wait_ready(http)
        (only,) = daemons.all
        client = KazooClient(hosts=zookeeper.connect_string + chroot)
        await asyncio.to_thread(client.start)
        try:
            stat = await asyncio.to_thread(client.exists, f"/broker-ctl/brokers/{only.broker_id}")
        finally:
            await asyncio.to_thread(client.stop)
            await asyncio.to_thread(client.close)
        assert stat is not None
        session_id = stat.ephemeralOwner

        await expire_session(zookeeper.connect_string, session_id, password_of(session_id))

        async with asyncio.timeout(60):
            assert await only.wait() == exits.SESSION_LOST


async def test_with_the_policy_shutdown_the_process_ends_at_its_lease_that_nobody_says_has_ended(
    new_cluster: NewCluster, http: HttpClient, zookeeper: SharedEnsemble, chroot: str
) -> None:
    timeout_s = 4.0
    async with Proxy.to(zookeeper.servers[0].client_port) as proxy:
        cluster = new_cluster(
            1,
            metadataStoreUrl=f"zk:{proxy.address}{chroot}",
            metadataStoreSessionTimeoutMillis=str(round(timeout_s * 1000)),
            zookeeperSessionExpiredPolicy="shutdown",
        )
        async with cluster as daemons:
            await daemons.wait_ready(http)
            (only,) = daemons.all
            # From here on no server says anything, expiries included.
            proxy.way = Way.HALF_OPEN
            begin_s = time.monotonic()
            async with asyncio.timeout(60):
                assert await only.wait() == exits.SESSION_LOST
            assert time.monotonic() - begin_s < timeout_s + STOP_S


def before_owner(found: dict[str, tuple[str, int, int]], topic: Topic) -> str:
    """The broker whose range holds the topic."""
    for name, (broker, _, _) in found.items():
        low, high = (int(point, 16) for point in name.split("_"))
        if low <= topic.ring_hash < high:
            return broker
    raise AssertionError(topic)
