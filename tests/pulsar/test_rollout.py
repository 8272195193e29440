"""A rollout of a real cluster through `broker-ctl attach`, under traffic."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from broker_ctl.cli.rollout_driver import Driver
from broker_ctl.cli.runtime.output import Output
from broker_ctl.cli.runtime.target import Target
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from tests.support.http.web_server import free_port
from tests.support.pulsar.attached import attached
from tests.support.pulsar.cluster import PulsarCluster
from tests.support.pulsar.interruptions import interruptions_ms
from tests.support.pulsar.load import load
from tests.support.pulsar.skew import flows, owners_of, topics_of, wait_reported
from tests.support.pulsar.snapshot import all_nodes
from tests.support.time.waiting import eventually

pytestmark = [pytest.mark.pulsar, pytest.mark.timeout(900)]

PER_SECOND = 240.0
BYTES = 1000
TOPICS = 24
BUNDLES = 12
LONGEST_S = 800.0
BEGUN_S = 180.0
SETTINGS = {"loadBalancerSheddingEnabled": "false"}


class Restart:
    """Stops a broker as its service would, and starts it again."""

    def __init__(self, cluster: PulsarCluster) -> None:
        self._cluster = cluster
        self.order: list[str] = []

    async def restart(self, broker_id: str) -> None:
        broker = self._cluster.broker(broker_id)
        self.order.append(broker_id)
        await broker.stop()
        await broker.start()


async def begin(url: str) -> None:
    """Begin the rollout, as soon as the attached process leads."""
    async with HttpClient(timeout_s=20.0, max_body_bytes=1 << 20) as http:

        async def is_begun() -> bool:
            body = {"accept_overload": True, "by": "test"}
            try:
                reply = await http.request("PUT", f"{url}/control/v1/rollout", json=body)
            except HttpError:
                return False
            return reply.status == 200

        await eventually(is_begun, BEGUN_S, "the rollout begins", poll_s=1.0)


async def test_every_broker_restarts_and_no_message_is_lost_or_out_of_order(
    cluster: PulsarCluster, figures: dict[str, Any], tmp_path: Path
) -> None:
    namespace = "public/rolled"
    await cluster.make_namespace(namespace, BUNDLES)
    chosen = flows(namespace, TOPICS, PER_SECOND, BYTES)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    leader = (await cluster.get("brokers/leaderBroker"))["serviceUrl"].removeprefix("http://")
    async with load(tmp_path, cluster.service_url, chosen, LONGEST_S) as running:
        await wait_reported(cluster, TOPICS, PER_SECOND)
        bundles = await topics_of(cluster, namespace, [flow.topic for flow in chosen])
        # In bundles of their own, too: they are in no report of a broker, and move too.
        for number in range(TOPICS):
            await cluster.put(f"persistent/{namespace}/without-clients-{number}", {})
        owned = len(await owners_of(cluster, namespace))
        options = ("--act", "--web-port", str(port))
        async with attached(cluster, tmp_path, *options, settings=SETTINGS) as beside:
            await begin(url)
            hook = Restart(cluster)
            async with asyncio.timeout(LONGEST_S - BEGUN_S):
                row = await Driver(Target(url, None, Output.JSON), hook, lambda _: None).run()
            await beside.end()
            moved = [row for row in beside.decided("transfer") if row["result"] == "done"]
        outcome = await running.end()
    assert row["state"] == "done", row
    assert sorted(hook.order) == sorted(broker.id for broker in cluster.brokers)
    assert hook.order[-1] == leader
    nodes = all_nodes(cluster.zookeeper, ["/broker-ctl"])
    assert "/broker-ctl/pause" not in nodes
    assert not [path for path in nodes if path.startswith("/broker-ctl/drains/")]
    assert (outcome.lost, outcome.unknown, outcome.unacknowledged) == (0, 0, 0)
    assert outcome.disordered == 0
    waits = interruptions_ms(outcome, moved, bundles)
    figures["rollout"] = {
        "bundles": owned,
        "moves": row["moves"],
        "least_moves": row["least_moves"],
        "moves_per_bundle": round(row["moves"] / owned, 2),
        "interruption_ms": {
            "p50": round(float(np.percentile(waits, 50)), 1),
            "p99": round(float(np.percentile(waits, 99)), 1),
        },
        "send_s": {
            f"p{q}": round(float(np.percentile(outcome.waits_s, q)), 3) for q in (99, 99.9, 99.99)
        },
        "longest_send_s": round(max(outcome.waits_s), 3),
        "sent": outcome.sent,
        "lost": outcome.lost,
        "disordered": outcome.disordered,
        "repeated": outcome.repeated,
    }
