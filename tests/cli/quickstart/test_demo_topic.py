"""The replicated topic of a trial cluster."""

import pytest

from broker_ctl.cli.status_screen import TOPIC, create_topic, overview, sentence
from broker_ctl.errors import EmbeddedError, InvalidReplicas
from broker_ctl.http_client import HttpClient
from tests.support.clusters.fake_services import serving_brokers
from tests.support.http.web_server import free_port
from tests.support.time.waiting import PATIENCE_S


async def test_the_topic_is_created_at_the_controller_and_described_in_a_line() -> None:
    async with (
        serving_brokers([free_port(), free_port()]) as (leader, follower),
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http,
    ):
        await create_topic(http, follower.url, 6, brokers=4)
        (made,) = leader.partition_admin.written
        assert made[:2] == ("create", TOPIC)
        assert [len(made[2]), len(made[2][0])] == [6, 3]
        line = sentence(await overview(http, follower.url))
        assert line.startswith("partitions 6, offline 0, under-replicated 0; broker 1 controls, ")
        leader.world.controller_id = None
        assert await overview(http, follower.url) == {}


async def test_why_there_is_no_topic_is_said() -> None:
    async with (
        serving_brokers([free_port()]) as [one],
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http,
    ):
        one.partition_admin.refuse = InvalidReplicas("names 4: no such broker lives")
        with pytest.raises(EmbeddedError, match="no such broker lives"):
            await create_topic(http, one.url, 6, brokers=4)
