"""Real daemons send spans to a collector: one trace leads from a decision to the new owner."""

from functools import partial

import pytest

from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.tracing.spans import TRACEPARENT
from tests.end_to_end.conftest import NewCluster
from tests.support.daemon.running_daemons import leader_of, look_up, make_namespace
from tests.support.http.otlp_receiver import ReceivedSpan, Receiver, receiving
from tests.support.time.waiting import PATIENCE_S, eventually

TOPICS = [Topic("persistent", Namespace("public", "default"), f"t-{n}") for n in range(8)]
# Whatever a span may say: names, ids and numbers.
ATTRIBUTES = {
    "broker_ctl.bundle",
    "broker_ctl.destination",
    "broker_ctl.move",
    "broker_ctl.namespace",
    "broker_ctl.owner",
    "broker_ctl.peer",
    "broker_ctl.reason",
    "broker_ctl.source",
    "broker_ctl.token",
    "error.type",
    "http.request.method",
    "http.response.status_code",
    "http.route",
}
SETTINGS = {
    "openTelemetryTracesRequestRatio": "0",
    # What moves, a drain has asked for.
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
}
CLIENT_TRACE = "0af7651916cd43dd8448eb211c80319c"


async def drain(http: HttpClient, daemon: DaemonProcess) -> None:
    url = f"{daemon.url}/control/v1/drains/{daemon.broker_id}?force=true"
    reply = await http.request("PUT", url, json={"reason": "a trace"})
    assert reply.status == 200, reply.body


def moved(receiver: Receiver, there: str) -> list[ReceivedSpan] | None:
    """From a change of owner at a daemon up to the decision that caused it, once all have come."""
    for span in receiver.named("change of owner"):
        chain = receiver.above(span)
        if span.daemon == there and chain[-1].name == "decision transfer":
            return chain
    return None


@pytest.mark.slow
async def test_a_decision_is_one_trace_from_the_leader_to_the_new_owner(
    new_cluster: NewCluster, http: HttpClient
) -> None:
    async with receiving() as receiver:
        settings = {"openTelemetryTracesEndpoint": receiver.url, **SETTINGS}
        async with new_cluster(2, **settings) as daemons:
            await daemons.wait_ready(http)
            await make_namespace(http, daemons.all[0])
            for topic in TOPICS:
                await eventually(partial(look_up, http, daemons.all[0], topic))
            leader, _ = await eventually(lambda: leader_of(http, daemons.all))
            (follower,) = [one for one in daemons.all if one is not leader]
            await drain(http, leader)
            chain = await eventually(
                lambda: moved(receiver, follower.broker_id), PATIENCE_S, "a traced move"
            )
            assert [(span.daemon, span.name) for span in chain] == [
                (follower.broker_id, "change of owner"),
                (follower.broker_id, "POST /control/v1/{verb}"),
                (leader.broker_id, "command receive"),
                (leader.broker_id, "move"),
                (leader.broker_id, "decision transfer"),
            ]
            assert {span.trace_id for span in chain} == {chain[0].trace_id}
            assert {key for span in receiver.spans for key in span.attributes} <= ATTRIBUTES
            # At 0 no request begins a trace; one that carries a trace follows it.
            assert not [span for span in receiver.spans if span.name.startswith("GET /lookup")]
            await look_up_in_a_trace(http, follower, TOPICS[0])
            await eventually(
                lambda: [span for span in receiver.spans if span.trace_id == CLIENT_TRACE]
            )


async def look_up_in_a_trace(http: HttpClient, daemon: DaemonProcess, topic: Topic) -> None:
    url = f"{daemon.url}/lookup/v2/topic/{topic.domain}/{topic.namespace}/{topic.local}"
    context = f"00-{CLIENT_TRACE}-b7ad6b7169203331-01"
    await http.request("GET", url, sign=lambda *_: {TRACEPARENT: context})


@pytest.mark.slow
async def test_a_collector_that_does_not_answer_stops_nobody(
    new_cluster: NewCluster, http: HttpClient
) -> None:
    settings = {"openTelemetryTracesEndpoint": "http://127.0.0.1:9/v1/traces"}
    async with new_cluster(1, **settings, openTelemetryTracesRequestRatio="1") as daemons:
        await daemons.wait_ready(http)
        (daemon,) = daemons.all
        await make_namespace(http, daemon)
        await eventually(lambda: look_up(http, daemon, TOPICS[0]))
        await daemon.stop()
        assert daemon.exit_code == 0, daemon.log_tail()
