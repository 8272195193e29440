"""Ready answers: the bytes that the whole way gives, while all that they rest on stands."""

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.api.binary import ready_answers, replies
from broker_ctl.api.binary.enums import CommandType, LookupType
from broker_ctl.api.binary.pulsar_commands_pb2 import BaseCommand
from broker_ctl.api.binary.ready_answers import AnswersOf
from broker_ctl.core.model.broker import AdvertisedListener, BrokerUrls, LookupUrls
from broker_ctl.core.model.names import Namespace, Ring, Topic
from broker_ctl.security.authorization import Grants, NamespaceGrants
from tests.api.binary.serving import OTHER, SELF, Served, serving
from tests.api.binary.test_authorization import APP, PROXY, RULES, allow, connect
from tests.support.clusters.fake_services import MemoryLookup
from tests.support.http.binary_client import BinaryClient, lookup
from tests.support.http.certificates import trusting_context

NAMESPACE: Final = Namespace("t", "ns")
RING: Final = Ring.even(NAMESPACE, 4)
TOPIC: Final = "persistent://t/ns/x"
THERE: Final = LookupUrls("pulsar://h:6650", "pulsar+ssl://h:6651")
_FRAME_BYTES: Final = 8


def body(topic: str, request_id: int, **more: Any) -> bytes:
    return lookup(topic, request_id, **more)[_FRAME_BYTES:]


def kept(command: bytes, topic: str) -> AnswersOf:
    answers = AnswersOf([0, 0])
    parts = replies.located_parts(LookupType.CONNECT, THERE, is_authoritative=True)
    assert answers.keep(command, Topic.parse(topic), RING, parts) == len(RING.boundaries) + 1
    return answers


def whole(request_id: int) -> bytes:
    return replies.located(request_id, LookupType.CONNECT, THERE, is_authoritative=True)


@pytest.mark.parametrize("request_id", [0, 1, 127, 128, 16_383, 16_384, 1 << 21, (1 << 35) - 1])
def test_an_answer_has_the_id_of_its_request(request_id: int) -> None:
    answers = kept(body(TOPIC, 5), TOPIC)
    assert answers.find(body(TOPIC, request_id)) == whole(request_id)


@pytest.mark.parametrize(
    "topic", [TOPIC, "persistent://t/ns/" + "a" * 300, "persistent://t/ns/%2F-partition-3"]
)
def test_all_topics_of_a_bundle_have_one_answer(topic: str) -> None:
    answers = kept(body(topic, 5), topic)
    wanted = RING.bundle_of(Topic.parse(topic))
    names = [f"persistent://t/ns/{number}" for number in range(64)]
    for name in names:
        is_same = RING.bundle_of(Topic.parse(name)) == wanted
        assert answers.find(body(name, 3)) == (whole(3) if is_same else None)
    assert {RING.bundle_of(Topic.parse(name)) for name in names} == set(RING.bundles)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(body("persistent://t/ns2/x", 5), id="another namespace"),
        pytest.param(body("non-persistent://t/ns/x", 5), id="another domain"),
        pytest.param(body("t/ns/x", 5), id="a short name"),
        pytest.param(body("PERSISTENT://t/ns/x", 5), id="another spelling"),
        pytest.param(body("persistent://t/ns/..", 5), id="no name of a topic"),
        pytest.param(body("persistent://t/ns/", 5), id="an empty name"),
        pytest.param(body("persistent://t/ns/a/x", 5), id="a name of four parts"),
        pytest.param(body("persistent://t/ns/ü", 5), id="not ASCII"),
        pytest.param(body("persistent://t/ns/x\x00", 5), id="a name with a zero"),
        pytest.param(body("persistent://t/ns/" + "a" * 4_096, 5), id="a name that is too long"),
        pytest.param(body(TOPIC, 5, authoritative=True), id="authoritative"),
        pytest.param(body(TOPIC, 5, advertised_listener_name="l"), id="another listener"),
        pytest.param(body(TOPIC, 5, original_principal="p"), id="for somebody else"),
        pytest.param(body(TOPIC, 1 << 35), id="a long id"),
        pytest.param(body(TOPIC, 5)[:-1], id="cut"),
        pytest.param(body(TOPIC, 5) + b"\x00", id="more than its sizes say"),
        pytest.param(body(TOPIC, 5).replace(b"\x13p", b"\x12p"), id="a size that is wrong"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_what_is_asked_otherwise_has_no_ready_answer(command: bytes) -> None:
    assert kept(body(TOPIC, 5), TOPIC).find(command) is None


def test_each_question_has_its_own_answer() -> None:
    answers = kept(body(TOPIC, 5), TOPIC)
    other = replies.located_parts(
        LookupType.CONNECT, LookupUrls("pulsar://o:1", None), is_authoritative=True
    )
    asked = body(TOPIC, 5, authoritative=True)
    assert answers.keep(asked, Topic.parse(TOPIC), RING, other)
    assert answers.find(body(TOPIC, 9)) == whole(9)
    assert b"pulsar://o:1" in (answers.find(asked) or b"")
    # Strangers name listeners that nobody has; what is kept for them is bounded.
    for number in range(ready_answers._MOST_QUESTIONS):
        named = body(TOPIC, 5, advertised_listener_name=f"l{number}")
        assert answers.keep(named, Topic.parse(TOPIC), RING, other)
    assert len(answers._by_question) <= ready_answers._MOST_QUESTIONS
    # The command is not written as clients do.
    assert not answers.keep(body("t/ns/x", 5), Topic.parse("t/ns/x"), RING, other)


_CHANGES = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from(["set", "cut", "put"]), st.integers(0, 255)),
    max_size=4,
)


@given(_CHANGES)
def test_whatever_is_answered_is_what_the_whole_way_reads(
    changes: list[tuple[int, str, int]],
) -> None:
    answers = kept(body(TOPIC, 300), TOPIC)
    changed = bytearray(body(TOPIC, 300))
    for place, how, byte in changes:
        at = place % (len(changed) or 1)
        changed[at : at + (how != "put")] = b"" if how == "cut" else bytes((byte,))
    found = answers.find(bytes(changed))
    if found is None:
        return
    command = BaseCommand.FromString(bytes(changed))
    assert command.type == CommandType.LOOKUP
    asked = command.lookupTopic
    topic = Topic.parse(asked.topic)
    assert topic.namespace == NAMESPACE
    assert RING.bundle_of(topic) == RING.bundle_of(Topic.parse(TOPIC))
    assert not asked.authoritative
    assert not asked.original_principal
    assert not asked.advertised_listener_name
    assert found == whole(asked.request_id)


# At a server.


def warm(served: Served) -> MemoryLookup:
    """Memory knows a topic's bundle, and whatever is not ready is refused from now on."""
    lookups = served.lookup
    lookups.remembered[Topic.parse(TOPIC)] = SELF
    lookups.knows_rings = True
    return lookups


async def test_a_warm_lookup_is_answered_before_anybody_waits(
    client: BinaryClient, served: Served
) -> None:
    lookups = warm(served)
    first = await client.find(TOPIC, 7)
    # The whole way would not know it any more.
    lookups.remembered.clear()
    lookups.refuse = AssertionError("not ready")
    for request_id in (8, 9_000):
        found = await client.find(TOPIC, request_id)
        first.request_id = request_id
        assert found == first
    assert lookups.recalled == 2
    assert served.counted()["LOOKUP", "ok"] == 3


def changed(served: Served) -> None:
    served.lookup.changes += 1


def without_lease(served: Served) -> None:
    served.lookup.is_leased = False


def drained(served: Served) -> None:
    served.server._lookups.drain()


def aged(served: Served) -> None:
    ready = served.server._lookups._ready
    assert 0 < ready._until_s - ready._clock.now_s() <= 1.0
    ready._until_s = ready._clock.now_s()


@pytest.mark.parametrize("end", [changed, without_lease, drained, aged])
async def test_no_answer_outlives_what_it_rests_on(
    client: BinaryClient, served: Served, end: Callable[[Served], None]
) -> None:
    lookups = warm(served)
    await client.find(TOPIC)
    lookups.remembered.clear()
    end(served)
    served.assign(OTHER, TOPIC)
    found = await client.find(TOPIC)
    assert found.brokerServiceUrl != SELF.native_url
    assert lookups.recalled == 0


async def test_answers_in_the_clear_are_not_those_over_tls(
    client: BinaryClient, served: Served
) -> None:
    lookups = warm(served)
    both = BrokerUrls("b:1", native_url="pulsar://b:1", native_url_tls="pulsar+ssl://b:2")
    lookups.remembered[Topic.parse(TOPIC)] = BrokerUrls("b:1", native_url="pulsar://b:1")
    assert (await client.find(TOPIC)).brokerServiceUrl == "pulsar://b:1"
    lookups.remembered[Topic.parse(TOPIC)] = both
    async with BinaryClient.connected(served.tls_port, trusting_context()) as over_tls:
        assert (await over_tls.find(TOPIC)).brokerServiceUrlTls == "pulsar+ssl://b:2"


async def test_each_listener_has_its_own_answer(client: BinaryClient, served: Served) -> None:
    lookups = warm(served)
    urls = BrokerUrls(
        "b:1",
        native_url="pulsar://b:1",
        listeners=(AdvertisedListener("inside", "pulsar://in:1"),),
    )
    lookups.remembered[Topic.parse(TOPIC)] = urls
    for _ in range(2):
        plain = await client.ask(lookup(TOPIC))
        named = await client.ask(lookup(TOPIC, advertised_listener_name="inside"))
        assert plain.lookupTopicResponse.brokerServiceUrl == "pulsar://b:1"
        assert named.lookupTopicResponse.brokerServiceUrl == "pulsar://in:1"
    assert lookups.recalled == 2


async def test_ready_answers_are_only_for_those_who_may_look_up_the_whole_namespace() -> None:
    async with serving(RULES) as served, BinaryClient.to(served.port) as client:
        lookups = warm(served)
        served.remembers_grants = True
        await client.ask(connect(APP))
        one_topic = {TOPIC: {"app": frozenset({"consume"})}}
        served.grants = Grants(namespace=NamespaceGrants(topics=one_topic))
        for _ in range(2):
            assert (await client.find(TOPIC)).response == LookupType.CONNECT
        assert lookups.recalled == 0
        allow(served, "app")
        for _ in range(3):
            assert (await client.find(TOPIC)).response == LookupType.CONNECT
        assert lookups.recalled > 0
        # Whoever has no right gets nothing that was kept for somebody else.
        async with BinaryClient.to(served.port) as proxy:
            await proxy.ask(connect(PROXY, "stranger"))
            assert (await proxy.find(TOPIC)).response == LookupType.FAILED
        allow(served, "another")
        served.grants_version += 1
        assert (await client.find(TOPIC)).response == LookupType.FAILED


async def test_many_lookups_in_one_read_are_answered_in_one_write(
    client: BinaryClient, served: Served
) -> None:
    lookups = warm(served)
    await client.find(TOPIC)
    lookups.refuse = AssertionError("not ready")
    client.writer.write(b"".join(lookup(TOPIC, number) for number in range(200)))
    ids = [(await client.receive()).lookupTopicResponse.request_id for _ in range(200)]
    assert ids == list(range(200))
    assert lookups.recalled == 200
