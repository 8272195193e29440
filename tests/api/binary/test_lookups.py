"""Lookups and numbers of partitions over a socket."""

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from broker_ctl.api.binary.enums import CommandType, LookupType, MetadataType, ServerError
from broker_ctl.broker.lookup.lookup import Answer, PeerCluster
from broker_ctl.core.model.broker import AdvertisedListener, BrokerUrls, LookupUrls
from broker_ctl.core.model.names import Topic
from broker_ctl.errors import (
    AuthorityLost,
    BrokerCtlError,
    BundleBusy,
    BundleGone,
    BundleMoving,
    BundleReclaimable,
    ConnectionLoss,
    Draining,
    ForeignNamespace,
    InvalidName,
    NamespaceMissing,
    NoBroker,
    NoLeader,
    TopicMissing,
)
from tests.api.binary.serving import DAEMON, OTHER, SELF, Served, serving
from tests.support.http.binary_client import BinaryClient, command, lookup, partitions
from tests.support.http.certificates import trusting_context

TOPIC = "persistent://t/ns/x"


def failure(response: Any) -> tuple[ServerError, str]:
    """Why a request failed, which says nothing else."""
    failed = MetadataType.FAILED if hasattr(response, "partitions") else LookupType.FAILED
    assert response.response == failed
    return ServerError(response.error), response.message


async def test_the_owner_is_answered(client: BinaryClient, served: Served) -> None:
    served.assign(SELF, TOPIC)
    found = await client.find(TOPIC, 7)
    assert found.response == LookupType.CONNECT
    assert found.authoritative
    assert (found.brokerServiceUrl, found.brokerServiceUrlTls) == (
        SELF.native_url,
        SELF.native_url_tls,
    )
    assert not found.HasField("error")


async def test_another_broker_s_bundle_is_answered_with_that_broker(
    client: BinaryClient, served: Served
) -> None:
    served.assign(OTHER, TOPIC)
    found = await client.find(TOPIC)
    assert (found.response, found.brokerServiceUrl) == (LookupType.CONNECT, OTHER.native_url)
    assert not found.HasField("brokerServiceUrlTls")


async def test_a_redirect_leads_to_the_other_daemon(client: BinaryClient, served: Served) -> None:
    served.lookup.placement = OTHER.broker_id
    found = await client.find(TOPIC)
    assert (found.response, found.authoritative) == (LookupType.REDIRECT, True)
    assert (found.brokerServiceUrl, found.brokerServiceUrlTls) == (DAEMON.url, DAEMON.url_tls)


async def test_the_leader_is_asked_without_authority(client: BinaryClient, served: Served) -> None:
    served.world.leader_id = OTHER.broker_id
    found = await client.find(TOPIC)
    assert (found.response, found.authoritative) == (LookupType.REDIRECT, False)
    assert found.brokerServiceUrl == DAEMON.url


async def test_an_authoritative_request_acquires_here(client: BinaryClient, served: Served) -> None:
    served.world.leader_id = OTHER.broker_id
    found = await client.find(TOPIC, authoritative=True)
    assert (found.response, found.brokerServiceUrl) == (LookupType.CONNECT, SELF.native_url)


async def test_a_lookup_is_answered_with_retry_while_the_other_daemons_address_is_unknown(
    client: BinaryClient, served: Served
) -> None:
    served.lookup.placement = OTHER.broker_id
    served.daemons.clear()
    why, reason = failure(await client.find(TOPIC))
    assert (why, reason.endswith(OTHER.broker_id)) == (ServerError.ServiceNotReady, True)


async def test_another_cluster_is_asked_from_the_start(
    client: BinaryClient, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def find(*_: object, **__: object) -> Answer:
        return PeerCluster(BrokerUrls("west", native_url="pulsar://west:6650"))

    monkeypatch.setattr(served.lookup, "find", find)
    found = await client.find(TOPIC, authoritative=True)
    assert (found.response, found.authoritative) == (LookupType.REDIRECT, False)
    assert found.brokerServiceUrl == "pulsar://west:6650"


async def test_where_a_bundle_is_taken_its_topics_are_loaded(
    client: BinaryClient, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, asked = served.lookup.find, []

    async def noted(topic: Topic, **how: Any) -> Answer:
        asked.append(how)
        return await find(topic, **how)

    monkeypatch.setattr(served.lookup, "find", noted)
    await client.find(TOPIC)
    await client.find(TOPIC, authoritative=True)
    assert asked == [
        {"authoritative": False, "is_preloading": True},
        {"authoritative": True, "is_preloading": True},
    ]


async def test_a_listener_is_asked_for_by_name(client: BinaryClient, served: Served) -> None:
    served.assign(SELF, TOPIC)
    found = await client.find(TOPIC, advertised_listener_name="external")
    assert found.brokerServiceUrl == SELF.listeners[0].native_url
    assert not found.HasField("brokerServiceUrlTls")
    unknown = await client.find(TOPIC, advertised_listener_name="nobody")
    assert failure(unknown) == (
        ServerError.NotAllowedError,
        "self:8080 has no listener of that name",
    )


async def test_a_redirect_names_the_address_of_the_clients_listener(
    client: BinaryClient, served: Served
) -> None:
    """A client in another network could not follow the address of this one."""
    served.lookup.placement = OTHER.broker_id
    served.daemons[OTHER.broker_id] = replace(
        DAEMON, listeners=(AdvertisedListener("ext", "pulsar://ext.example:6640"),)
    )

    async def address(listener: str) -> str:
        found = await client.find(TOPIC, advertised_listener_name=listener)
        assert found.response == LookupType.REDIRECT
        return str(found.brokerServiceUrl)

    assert await address("ext") == "pulsar://ext.example:6640"
    assert await address("") == DAEMON.url
    # It has no lookup address of its own there: that of the daemon is left.
    assert await address("unknown") == DAEMON.url


async def test_over_tls_the_tls_addresses_are_there(served: Served) -> None:
    served.assign(SELF, TOPIC)
    async with BinaryClient.connected(served.tls_port, trusting_context()) as client:
        assert (await client.find(TOPIC)).brokerServiceUrlTls == SELF.native_url_tls
        # A client would go on to no address at all.
        served.assign(OTHER, TOPIC)
        assert failure(await client.find(TOPIC)) == (
            ServerError.NotAllowedError,
            "other:8080 has no pulsar+ssl address",
        )
        served.world.owners.clear()
        served.lookup.placement = OTHER.broker_id
        assert (await client.find(TOPIC)).brokerServiceUrlTls == DAEMON.url_tls
        served.daemons[OTHER.broker_id] = LookupUrls("pulsar://other:6640")
        assert failure(await client.find(TOPIC))[0] == ServerError.NotAllowedError


async def test_a_lookup_without_tls_of_a_broker_without_a_plain_address_is_refused(
    client: BinaryClient, served: Served
) -> None:
    served.assign(replace(SELF, native_url=None), TOPIC)
    assert failure(await client.find(TOPIC)) == (
        ServerError.NotAllowedError,
        "self:8080 has no pulsar address",
    )


async def test_a_short_name_is_in_the_default_namespace(
    client: BinaryClient, served: Served
) -> None:
    await client.count("x")
    assert served.partitions.asked == ["persistent://public/default/x"]


async def test_partitions_are_counted(client: BinaryClient, served: Served) -> None:
    served.partitions.counts[TOPIC] = 12
    found = await client.count(TOPIC, 3)
    assert (found.response, found.partitions) == (MetadataType.SUCCESS, 12)
    plain = await client.count("persistent://t/ns/y", metadata_auto_creation_enabled=False)
    assert (plain.response, plain.partitions) == (MetadataType.SUCCESS, 0)
    assert plain.HasField("partitions")
    assert served.partitions.asked == [TOPIC, "persistent://t/ns/y"]


@pytest.mark.parametrize(
    ("met", "expected"),
    [
        (NoBroker("why"), ServerError.ServiceNotReady),
        (NoLeader("why"), ServerError.ServiceNotReady),
        (Draining("why"), ServerError.ServiceNotReady),
        (BundleMoving("why"), ServerError.MetadataError),
        (BundleReclaimable("why"), ServerError.MetadataError),
        (BundleGone("why"), ServerError.MetadataError),
        (BundleBusy("why", "other"), ServerError.MetadataError),
        (AuthorityLost("why"), ServerError.ServiceNotReady),
        (ConnectionLoss("why"), ServerError.MetadataError),
        (NamespaceMissing("why"), ServerError.TopicNotFound),
        (TopicMissing("why"), ServerError.TopicNotFound),
        (InvalidName("why"), ServerError.InvalidTopicName),
        (ForeignNamespace("why"), ServerError.NotAllowedError),
    ],
)
async def test_each_error_has_its_answer(
    client: BinaryClient, served: Served, met: BrokerCtlError, expected: ServerError
) -> None:
    served.lookup.refuse = served.partitions.refuse = met
    why, reason = failure(await client.find(TOPIC))
    assert (why, reason.startswith("why")) == (expected, True)
    assert failure(await client.count(TOPIC))[0] == expected
    assert served.counted()["LOOKUP", expected.name] == 1
    assert served.counted()["PARTITIONED_METADATA", expected.name] == 1
    # It stands as it stood.
    assert await client.is_answered()


@pytest.mark.parametrize(
    "topic",
    ["", "a/b", "persistent://t/cluster/ns/x", "transient://t/ns/x", "persistent://t /ns/x", "\0"],
)
async def test_a_bad_name_is_refused(client: BinaryClient, topic: str) -> None:
    assert failure(await client.find(topic))[0] == ServerError.InvalidTopicName
    assert failure(await client.count(topic))[0] == ServerError.InvalidTopicName


async def test_a_name_that_is_not_a_text_is_refused(client: BinaryClient) -> None:
    frame = lookup("xx", 5).replace(b"\x02xx", b"\x02\xff\xfe")
    answer = await client.ask(frame)
    assert failure(answer.lookupTopicResponse) == (
        ServerError.InvalidTopicName,
        "a topic's name is UTF-8",
    )


async def test_an_unexpected_error_is_reported_by_its_number(
    client: BinaryClient, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served.lookup.refuse = ZeroDivisionError("secret")
    with caplog.at_level(logging.ERROR):
        why, reason = failure(await client.find(TOPIC))
    assert why == ServerError.UnknownError
    assert "request 1" in reason
    assert "secret" not in reason
    assert "ZeroDivisionError" in caplog.text


async def test_both_kinds_share_one_bound(served: Served) -> None:
    opened = asyncio.Event()
    served.lookup.gate = opened.wait
    served.bound.limit = 2
    async with BinaryClient.connected(served.port) as client:
        client.send(lookup(TOPIC, 1), lookup(TOPIC, 2), lookup(TOPIC, 3), partitions(TOPIC, 4))
        refused = [(await client.receive()).lookupTopicResponse, await client.receive()]
        why, reason = failure(refused[0])
        assert (refused[0].request_id, why) == (3, ServerError.TooManyRequests)
        assert reason == "2 lookups are in progress"
        response = refused[1].partitionMetadataResponse
        assert (response.request_id, failure(response)[0]) == (4, ServerError.TooManyRequests)
        opened.set()
        answered = {(await client.receive()).lookupTopicResponse.request_id for _ in range(2)}
        assert answered == {1, 2}
        assert served.bound.in_flight == 0


async def test_a_lookup_that_waits_holds_up_no_other(served: Served) -> None:
    opened = asyncio.Event()
    waiting = 0

    async def gate() -> None:
        nonlocal waiting
        waiting += 1
        if waiting % 2:
            await opened.wait()

    served.lookup.gate = gate
    async with BinaryClient.connected(served.port) as client:
        client.send(*(lookup(TOPIC, number) for number in range(40)))
        quick = [(await client.receive()).lookupTopicResponse.request_id for _ in range(20)]
        assert quick == list(range(1, 40, 2))
        opened.set()
        slow = {(await client.receive()).lookupTopicResponse.request_id for _ in range(20)}
        assert slow == set(range(0, 40, 2))


async def test_a_lookup_that_hangs_is_ended() -> None:
    async with serving(request_limit_s=0.05) as served:
        served.lookup.gate = asyncio.Event().wait
        async with BinaryClient.connected(served.port) as client:
            assert failure(await client.find(TOPIC)) == (
                ServerError.MetadataError,
                "not answered in time",
            )
            # A deadline that something else has missed is a fault.
            served.lookup.gate, served.lookup.refuse = None, TimeoutError()
            assert failure(await client.find(TOPIC))[0] == ServerError.UnknownError
            assert served.bound.in_flight == 0


@pytest.mark.parametrize(
    ("mode", "domains"),
    [
        (0, ("persistent",)),
        (1, ("non-persistent",)),
        (2, ("persistent", "non-persistent")),
    ],
)
async def test_topics_of_a_namespace_are_listed_by_the_domains_of_the_mode(
    client: BinaryClient, served: Served, mode: int, domains: tuple[str, ...]
) -> None:
    served.topics.names = ["persistent://t/ns/a", "persistent://t/ns/b"]
    asked = command(CommandType.GET_TOPICS_OF_NAMESPACE, request_id=7, namespace="t/ns", mode=mode)
    answer = await client.ask(asked)
    assert answer.type == CommandType.GET_TOPICS_OF_NAMESPACE_RESPONSE
    response = answer.getTopicsOfNamespaceResponse
    assert (response.request_id, list(response.topics)) == (7, served.topics.names)
    assert (response.filtered, response.changed) == (False, True)
    assert served.topics.asked == [("t/ns", domains)]


async def test_a_failure_to_list_topics_is_answered_with_an_error(
    client: BinaryClient, served: Served
) -> None:
    for fields, why in (
        ({"namespace": "t/c/ns"}, ServerError.InvalidTopicName),
        ({"namespace": "t/ns", "mode": 9}, ServerError.NotAllowedError),
    ):
        asked = command(CommandType.GET_TOPICS_OF_NAMESPACE, request_id=8, **fields)
        answer = await client.ask(asked)
        assert answer.type == CommandType.ERROR
        assert (answer.error.request_id, answer.error.error) == (8, why)


# From memory.


async def test_what_memory_has_is_answered_without_a_search(
    client: BinaryClient, served: Served
) -> None:
    served.lookup.refuse = AssertionError("not from memory")
    served.lookup.remembered[Topic.parse(TOPIC)] = OTHER
    found = await client.find(TOPIC)
    assert (found.response, found.brokerServiceUrl) == (LookupType.CONNECT, OTHER.native_url)
    assert served.counted()["LOOKUP", "ok"] == 1


async def test_an_answer_from_memory_that_does_not_serve_the_client_says_why(
    client: BinaryClient, served: Served
) -> None:
    served.lookup.remembered[Topic.parse(TOPIC)] = BrokerUrls("tls-only:8443")
    served.assign(BrokerUrls("tls-only:8443"), TOPIC)
    error, reason = failure(await client.find(TOPIC))
    assert error is ServerError.NotAllowedError
    assert reason == "tls-only:8443 has no pulsar address"


async def test_a_server_that_shuts_down_recalls_nothing(
    client: BinaryClient, served: Served
) -> None:
    served.lookup.remembered[Topic.parse(TOPIC)] = OTHER
    served.server._lookups.drain()
    assert failure(await client.find(TOPIC))[0] is ServerError.ServiceNotReady
