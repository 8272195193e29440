import asyncio
import json
import signal
from functools import partial

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from broker_ctl.core.model.names import Namespace, Ring, Topic
from broker_ctl.dataplane.bundles.serve_log import judge, merge_logs, read_events
from broker_ctl.http_client import HttpClient
from broker_ctl.simulation.workload.workload import Workload
from tests.end_to_end.conftest import NewCluster
from tests.support.daemon.running_daemons import leader_of, look_up, make_namespace
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

TIMEOUT_S, TICK_S = 4.0, 0.5
TOPICS = [Topic("persistent", Namespace("public", "default"), f"t-{n}") for n in range(40)]


async def test_another_leads_under_a_higher_epoch_and_serves_what_the_dead_leader_served(
    new_cluster: NewCluster, http: HttpClient
) -> None:
    async with new_cluster(3, metadataStoreSessionTimeoutMillis=str(int(TIMEOUT_S * 1000))) as all_:
        await all_.wait_ready(http)
        await make_namespace(http, all_.all[0])
        first = await eventually(lambda: leader_of(http, all_.all), what="a leader")
        leader, epoch = first

        async def is_served(topic: Topic) -> bool:
            return bool(await look_up(http, all_.all[0], topic))

        for topic in TOPICS:
            await eventually(partial(is_served, topic), what=f"an owner of {topic}")
        survivors = [daemon for daemon in all_.all if daemon is not leader]

        leader.signal(signal.SIGKILL)
        await leader.wait()
        second = await eventually(
            lambda: leader_of(http, survivors), deadline_s=TIMEOUT_S + TICK_S + 1.0, what="another"
        )
        assert second[1] > epoch

        async def is_served_by_a_survivor(topic: Topic) -> bool:
            answer = await look_up(http, survivors[0], topic)
            return answer.get("brokerId") in {daemon.broker_id for daemon in survivors}

        for topic in TOPICS:
            await eventually(partial(is_served_by_a_survivor, topic), what=f"an owner of {topic}")


@pytest.mark.slow
async def test_a_move_that_the_dead_leader_had_begun_is_brought_to_an_end(
    new_cluster: NewCluster, http: HttpClient, zookeeper: SharedEnsemble, chroot: str
) -> None:
    settings = {
        "metadataStoreSessionTimeoutMillis": str(int(TIMEOUT_S * 1000)),
        "loadBalancerAutoBundleSplitEnabled": "false",
        "loadBalancerSheddingIntervalMinutes": "0.01",
        "loadBalancerSheddingGracePeriodMinutes": "0.001",
    }
    client = KazooClient(hosts=zookeeper.connect_string + chroot)
    async with new_cluster(3, **settings) as all_:
        await all_.wait_ready(http)
        await make_namespace(http, all_.all[0], bundles=16)
        leader, epoch = await eventually(lambda: leader_of(http, all_.all), what="a leader")
        survivors = [daemon for daemon in all_.all if daemon is not leader]
        await asyncio.to_thread(client.start)
        try:
            # One broker has everything, so the leader moves bundles away from it.
            for bundle in Ring.even(Namespace("public", "default"), 16).bundles:
                order = {"epoch": epoch, "bundle": str(bundle)}
                url = f"{survivors[0].url}/control/v1/acquire"
                assert (await http.request("POST", url, json=order)).status == 200

            def moves() -> list[str]:
                try:
                    return list(client.get_children("/broker-ctl/moves"))
                except NoNodeError:
                    return []

            def epochs() -> set[int | None]:
                """Under which leader each move that stands was begun or taken over."""
                found = set()
                for name in moves():
                    try:
                        data, _ = client.get(f"/broker-ctl/moves/{name}")
                    except NoNodeError:
                        continue
                    found.add(json.loads(data).get("epoch"))
                return found

            await eventually(lambda: asyncio.to_thread(moves), poll_s=0.001, what="a move")
            leader.signal(signal.SIGKILL)
            await leader.wait()
            await eventually(lambda: leader_of(http, survivors), what="another leader")

            async def is_settled() -> bool:
                served = [await look_up(http, survivors[0], topic) for topic in TOPICS]
                owners = {answer.get("brokerId") for answer in served}
                return owners <= {daemon.broker_id for daemon in survivors}

            await eventually(is_settled, what="everything is served")
            # Of what the dead one had begun nothing is left; the successor begins moves of its own.
            begun = await asyncio.to_thread(epochs)
            assert begun <= {None, *(one for one in begun if one and one > epoch)}, begun
        finally:
            await asyncio.to_thread(client.stop)
            await asyncio.to_thread(client.close)
    acts = merge_logs(
        read_events(d.files.serve_log) for d in all_.all if d.files.serve_log.exists()
    )
    verdict = judge(acts, 0.1, Workload.named("skewed", 1).positions_with_traffic(0.0))
    assert verdict.double_served == 0, verdict.faults
