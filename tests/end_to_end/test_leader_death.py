import signal
from functools import partial

from broker_ctl.core.names import Namespace, Topic
from broker_ctl.http import HttpClient
from tests.end_to_end.conftest import NewCluster
from tests.support.clusters import leader_of, look_up, make_namespace
from tests.support.waiting import eventually

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
