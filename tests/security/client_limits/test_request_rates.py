"""Requests per second: attacks that succeed without a limit, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count

import pytest

from broker_ctl.api.binary.dependencies import BinaryRules
from broker_ctl.api.binary.enums import CommandType, LookupType, MetadataType, ServerError
from broker_ctl.api.http.access.peer_requests import PeerRequests
from broker_ctl.api.http.dependencies import ApiRules, BinaryLimits
from broker_ctl.core.model.names import Topic
from broker_ctl.errors import TooManyRequests
from broker_ctl.instruments.clients import BoundInstruments
from broker_ctl.instruments.declared import ApiInstruments
from broker_ctl.instruments.kinds import Instrument
from broker_ctl.lab.time import ManualClock
from broker_ctl.security.client_limits import RateLimits, RequestRates
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.security.signed_requests import HEADER, MAX_AHEAD_MS, RequestSigner
from tests.api.binary.serving import RULES, SELF, serving
from tests.support.clusters.fake_services import CLUSTER, Broker, serving_brokers
from tests.support.http.binary_client import CONNECT, BinaryClient, command, lookup, partitions
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting
from tests.support.time.waiting import eventually

ONE, OTHER = "a-secret-of-the-first", "a-secret-of-the-second"
ADMISSION = admitting(f"one:{ONE}\nother:{OTHER}\n", ["one", "other"])
READ = "/admin/v2/clusters"
# So low that a slow test gets no further token.
RATE = 0.001


def rejected(counter: Instrument) -> dict[tuple[str, ...], float]:
    return {tuple(one.labels.values()): one.value for one in counter.samples()}


@asynccontextmanager
async def serving_http(rules: ApiRules) -> AsyncIterator[Broker]:
    async with serving_brokers([free_port()], rules) as [broker]:
        yield broker


async def send(
    broker: Broker,
    path: str = READ,
    *,
    address: str = "127.0.0.1",
    method: str = "GET",
    headers: Sequence[str] = (),
) -> bytes:
    """The head of the answer to a request from an address of loopback."""
    host, port = broker.broker_id.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(address, 0))
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    return answer.split(b"\r\n\r\n")[0]


def is_limited(answer: bytes) -> bool:
    return answer.startswith(b"HTTP/1.1 429 ")


def test_a_bucket_holds_the_requests_of_one_second() -> None:
    clock, counter = ManualClock(), ApiInstruments().rate_limited
    rates = RequestRates(RateLimits(address_per_s=10), "http", clock, counter)
    for _ in range(10):
        rates.spend("a")
    with pytest.raises(TooManyRequests) as refused:
        rates.spend("a")
    assert refused.value.wait_s == pytest.approx(0.1)
    rates.spend("b")
    clock.time_s += 0.25
    for _ in range(2):
        rates.spend("a")
    with pytest.raises(TooManyRequests):
        rates.spend("a")
    assert rejected(counter) == {("http", "address"): 2}


def test_what_one_address_has_too_many_of_takes_nothing_from_all() -> None:
    clock, counter = ManualClock(), ApiInstruments().rate_limited
    limits = RateLimits(total_per_s=4, address_per_s=2)
    rates = RequestRates(limits, "http", clock, counter)
    for _ in range(2):
        rates.spend("a")
    for _ in range(100):
        with pytest.raises(TooManyRequests):
            rates.spend("a")
    for _ in range(2):
        rates.spend("b")
    with pytest.raises(TooManyRequests, match=r"4 requests per second .* all clients together"):
        rates.spend("c")


async def test_one_address_is_limited_and_another_is_not() -> None:
    rules = ApiRules(CLUSTER, rates=RateLimits(address_per_s=RATE))
    async with serving_http(rules) as broker:
        assert (await send(broker)).startswith(b"HTTP/1.1 200 ")
        # Whatever else the client says of where it comes from.
        headers = ["X-Forwarded-For: 192.0.2.9", "Forwarded: for=192.0.2.9", "X-Real-IP: 192.0.2.9"]
        for path in (READ, "/metrics", "/nothing", "/lookup/v2/topic/persistent/t/ns/x"):
            refused = await send(broker, path, headers=headers)
            assert is_limited(refused), path
        (seconds,) = [line for line in refused.split(b"\r\n") if line.startswith(b"Retry-After: ")]
        assert 900 < int(seconds.split()[1]) <= 1000
        assert (await send(broker, address="127.0.0.2")).startswith(b"HTTP/1.1 200 ")
        for _ in range(3):
            assert (await send(broker, "/livez")).startswith(b"HTTP/1.1 200 ")
            assert (await send(broker, "/dataplane/v1/authority")).startswith(b"HTTP/1.1 200 ")
        counter = broker.instruments.api.rate_limited
        assert rejected(counter) == {("http", "address"): 4}


async def test_all_clients_together_are_limited() -> None:
    rules = ApiRules(CLUSTER, rates=RateLimits(total_per_s=RATE))
    async with serving_http(rules) as broker:
        assert not is_limited(await send(broker))
        assert is_limited(await send(broker, address="127.0.0.2"))
        assert not is_limited(await send(broker, "/readyz"))


async def test_one_role_is_limited_and_another_is_not() -> None:
    rules = ApiRules(CLUSTER, **ADMISSION, rates=RateLimits(role_per_s=RATE))
    async with serving_http(rules) as broker:
        one, other = ([f"Authorization: Bearer {token}"] for token in (ONE, OTHER))
        assert not is_limited(await send(broker, headers=one))
        assert is_limited(await send(broker, headers=one, address="127.0.0.2"))
        assert not is_limited(await send(broker, headers=other))
        counter = broker.instruments.api.rate_limited
        assert rejected(counter) == {("http", "role"): 1}


@pytest.mark.parametrize(
    ("is_signed", "since_start_ms", "status"),
    [(False, 0, 429), (True, 0, 425), (True, MAX_AHEAD_MS + 1_000, 400)],
)
async def test_commands_of_brokers_are_not_limited(
    is_signed: bool, since_start_ms: int, status: int
) -> None:
    keys, clock = ClusterKeys.of([bytes(range(32))]), ManualClock()
    port = free_port()
    own_id = f"127.0.0.1:{port}"
    signer = RequestSigner(keys, "127.0.0.1:1")
    peers = PeerRequests(
        keys,
        own_id,
        clock,
        role="broker",
        is_required=True,
        on_refusal=lambda _: None,
        bounds=BoundInstruments(),
    )
    clock.time_s += since_start_ms / 1000
    limits = RateLimits(total_per_s=RATE, address_per_s=RATE, role_per_s=RATE)
    rules = replace(ApiRules(CLUSTER, **ADMISSION), rates=limits, peers=peers)
    path = "/control/v1/acquire"
    async with serving_brokers([port], rules) as [broker]:
        assert not is_limited(await send(broker))
        for _ in range(3):
            headers: list[str] = []
            if is_signed:
                made = signer.sign(own_id, "POST", path, b"", clock.wall_ms())
                headers = [f"{HEADER}: {made[HEADER]}"]
            answer = await send(broker, path, method="POST", headers=headers)
            assert answer.startswith(f"HTTP/1.1 {status} ".encode())
            # A header that says nothing true gives no right.
            forged = await send(broker, path, method="POST", headers=[f"{HEADER}: x"])
            assert is_limited(forged)
            # Nor does it help where brokers send nothing.
            assert is_limited(await send(broker, headers=headers or [f"{HEADER}: x"]))


def connect(token: str) -> bytes:
    return command(
        CommandType.CONNECT,
        client_version="c",
        auth_method_name="token",
        auth_data=token.encode(),
    )


async def test_requests_of_the_binary_protocol_are_limited_by_address() -> None:
    topic = "persistent://t/ns/x"
    async with serving(limits=RateLimits(address_per_s=RATE)) as served:
        served.assign(SELF, topic)
        async with BinaryClient.connected(served.port) as first:
            found = (await first.ask(lookup(topic))).lookupTopicResponse
            assert found.response == LookupType.CONNECT
        async with BinaryClient.connected(served.port) as again:
            found = (await again.ask(lookup(topic))).lookupTopicResponse
            assert (found.response, found.error) == (LookupType.FAILED, ServerError.TooManyRequests)
            counted = (await again.ask(partitions(topic))).partitionMetadataResponse
            assert counted.response == MetadataType.FAILED
            assert counted.error == ServerError.TooManyRequests
            # The connection stays.
            assert await again.is_answered()
        assert served.partitions.asked == []
        assert served.counted()["LOOKUP", "TooManyRequests"] == 1
        assert rejected(served.rate_limited) == {("binary", "address"): 2}


async def test_requests_of_the_binary_protocol_are_limited_by_role() -> None:
    rules = BinaryRules("test", ADMISSION["authenticator"], ADMISSION["policy"])
    numbers = count(1)
    async with serving(rules, limits=RateLimits(role_per_s=RATE)) as served:

        async def ask(token: str) -> ServerError | None:
            async with BinaryClient.to(served.port) as client:
                await client.ask(connect(token))
                topic = Topic.parse(f"persistent://t/ns/x{next(numbers)}")
                found = (await client.ask(partitions(str(topic)))).partitionMetadataResponse
                return ServerError(found.error) if found.HasField("error") else None

        assert [await ask(token) for token in (ONE, ONE, OTHER, ONE)] == [
            None,
            ServerError.TooManyRequests,
            None,
            ServerError.TooManyRequests,
        ]
        assert rejected(served.rate_limited) == {("binary", "role"): 2}


async def test_clients_of_one_address_take_only_their_places() -> None:
    async with (
        serving(replace(RULES, max_connections_of_address=1)) as served,
        BinaryClient.connected(served.port) as first,
    ):
        async with BinaryClient.to(served.port) as second:
            error = (await second.receive()).error
            assert error.error == ServerError.ServiceNotReady
            assert error.message == "1 clients of 127.0.0.1 are connected already"
        assert served.connections() == 1
        first.writer.close()
        await eventually(lambda: served.connections() == 0)
        async with BinaryClient.connected(served.port) as again:
            assert await again.is_answered()


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (BinaryLimits(max_clients=1), "1 clients are connected already"),
        (BinaryLimits(max_clients_of_address=1), "1 clients of 127.0.0.1 are connected already"),
        (BinaryLimits(max_clients=0), ""),
    ],
)
async def test_the_binary_server_of_a_broker_has_its_limits_of_clients(
    limits: BinaryLimits, reason: str
) -> None:
    port = free_port()
    async with (
        serving_http(ApiRules(CLUSTER, lookup_port=port, binary=limits)),
        BinaryClient.connected(port),
        BinaryClient.to(port) as second,
    ):
        assert (await second.ask(CONNECT)).error.message == reason


async def test_the_binary_server_of_a_broker_has_its_rates() -> None:
    port = free_port()
    limits = BinaryLimits(rates=RateLimits(address_per_s=RATE))
    rules = ApiRules(CLUSTER, lookup_port=port, binary=limits)
    async with serving_http(rules) as broker, BinaryClient.connected(port) as client:
        for _ in range(2):
            found = (await client.ask(partitions("persistent://t/ns/x"))).partitionMetadataResponse
        assert found.error == ServerError.TooManyRequests
        assert rejected(broker.instruments.api.rate_limited) == {("binary", "address"): 1}
