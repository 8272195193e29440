"""An operator closes one topic; its bundle keeps its owner."""

from urllib.parse import quote

import pytest

from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.names import Topic
from broker_ctl.errors import BundleMoving, DataPlaneRefused, DataPlaneUnreachable
from broker_ctl.http_client import HttpClient
from tests.support.clusters.fake_services import NAMESPACE, RING, TOPICS, Broker, Held

TOPIC = TOPICS[0]
BUNDLE = RING.bundle_of(TOPIC)


def url_of(broker: Broker, topic: Topic = TOPIC) -> str:
    path = f"{topic.domain}/{topic.namespace}/{quote(topic.local, safe='')}"
    return f"{broker.url}/admin/v2/{path}/unload"


async def test_the_owner_closes_it_and_stays_the_owner(http: HttpClient, leader: Broker) -> None:
    await leader.serve(BUNDLE)
    before, token = await leader.dataplane.topics(BUNDLE), leader.world.tokens[BUNDLE]
    assert (await http.request("PUT", url_of(leader))).status == 204
    after = await leader.dataplane.topics(BUNDLE)
    assert set(before) - set(after) == {str(TOPIC)}
    assert (leader.world.owners[BUNDLE], leader.world.tokens[BUNDLE]) == (leader.broker_id, token)


async def test_others_send_the_request_on_to_the_owner(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    await follower.serve(BUNDLE)
    reply = await http.request("PUT", url_of(leader) + "?authoritative=false")
    assert reply.status == 307
    assert reply.headers["Location"] == url_of(follower) + "?authoritative=false"
    assert (await http.request("PUT", reply.headers["Location"])).status == 204
    assert str(TOPIC) not in await follower.dataplane.topics(BUNDLE)


async def test_a_topic_of_a_bundle_that_nobody_owns_is_missing_and_nothing_is_assigned(
    http: HttpClient, leader: Broker
) -> None:
    reply = await http.request("PUT", url_of(leader))
    assert (reply.status, reply.json()["error"]) == (404, "TopicMissing")
    assert not leader.world.owners


async def test_a_topic_that_is_not_loaded_is_missing(http: HttpClient, leader: Broker) -> None:
    await leader.serve(BUNDLE)
    assert (await http.request("PUT", url_of(leader))).status == 204
    reply = await http.request("PUT", url_of(leader))
    assert (reply.status, reply.json()["error"]) == (404, "TopicMissing")
    assert str(TOPIC) in reply.json()["reason"]


async def test_a_bundle_that_goes_in_between_takes_its_topics_along(
    http: HttpClient, leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await leader.serve(BUNDLE)
    leaving = {BUNDLE: Held(BUNDLE, BundleState.RELEASING, 1)}
    monkeypatch.setattr(leader.dependencies.topics, "_owned", lambda: leaving)
    reply = await http.request("PUT", url_of(leader))
    assert (reply.status, reply.json()["error"]) == (404, "TopicMissing")
    assert str(TOPIC) in await leader.dataplane.topics(BUNDLE)


async def test_a_bundle_on_its_way_is_for_later(http: HttpClient, leader: Broker) -> None:
    leader.ownership.moving.add(BUNDLE)
    reply = await http.request("PUT", url_of(leader))
    assert (reply.status, reply.json()["error"]) == (503, BundleMoving.__name__)


@pytest.mark.parametrize(
    ("error", "status"), [(DataPlaneUnreachable("gone"), 503), (DataPlaneRefused("no"), 500)]
)
async def test_a_broker_process_that_does_not_close_it_is_reported(
    http: HttpClient,
    leader: Broker,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    status: int,
) -> None:
    async def refuse(_: str) -> None:
        raise error

    await leader.serve(BUNDLE)
    monkeypatch.setattr(leader.dataplane, "unload_topic", refuse)
    reply = await http.request("PUT", url_of(leader))
    assert (reply.status, reply.json()["error"]) == (status, type(error).__name__)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("persistent/t/unknown/x", 404),
        ("non-persistent/t/unknown/x", 404),
        ("persistent/t/%24/x", 412),
        ("transient/t/ns/x", 501),
        ("persistent/t/c/ns/x", 501),
    ],
)
async def test_an_invalid_topic_name_is_refused(
    http: HttpClient, leader: Broker, path: str, status: int
) -> None:
    reply = await http.request("PUT", f"{leader.url}/admin/v2/{path}/unload")
    assert reply.status == status


async def test_a_name_reaches_the_owner_as_it_was_written(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    topic = Topic("persistent", NAMESPACE, "a?b %2F+ä")
    leader.world.assign(RING.bundle_of(topic), follower.broker_id)
    reply = await http.request("PUT", url_of(leader, topic))
    assert (reply.status, reply.headers["Location"]) == (307, url_of(follower, topic))


async def test_an_unload_of_a_partitioned_topic_closes_its_partitions_on_all_brokers(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    whole = Topic("persistent", NAMESPACE, "w?ö")
    await leader.dependencies.services.partitioned_topics.create(whole, 6)
    closed: list[tuple[str, str]] = []
    loaded = {f"{whole}-partition-{number}" for number in range(5)}
    for broker in (leader, follower):

        async def close(name: str, at: str = broker.broker_id) -> None:
            if name not in loaded:
                raise DataPlaneRefused("not loaded")
            closed.append((name, at))

        broker.dataplane.unload_topic = close  # type: ignore[assignment,method-assign]
    reply = await http.request("PUT", url_of(leader, whole))
    assert (reply.status, reply.json()["error"]) == (404, "TopicMissing")
    first, *others = RING.bundles
    await leader.serve(first)
    for bundle in others:
        await follower.serve(bundle)
    assert (await http.request("PUT", url_of(follower, whole))).status == 204
    places = {
        (str(topic), leader.world.owners[RING.bundle_of(topic)])
        for number in range(5)
        for topic in [Topic("persistent", NAMESPACE, f"{whole.local}-partition-{number}")]
    }
    assert set(closed) == places
    assert len(closed) == 5
    assert len({broker for _, broker in places}) == 2


async def test_partitions_that_cannot_be_closed_are_reported(
    http: HttpClient, leader: Broker
) -> None:
    whole = Topic("persistent", NAMESPACE, "whole")
    await leader.dependencies.services.partitioned_topics.create(whole, 4)
    leader.ownership.moving.update(RING.bundles)
    reply = await http.request("PUT", url_of(leader, whole))
    assert (reply.status, reply.json()["error"]) == (503, "UnloadFailed")
    assert "4 of 4 partitions" in reply.json()["reason"]
