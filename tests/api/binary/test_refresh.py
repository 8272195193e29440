"""A token that ends during a connection: the client is challenged, and proves its role again."""

import asyncio
import importlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from broker_ctl.api.binary.enums import CommandType, ServerError
from broker_ctl.api.binary.handshake import MAX_HELD
from broker_ctl.security.authentication import Authenticator, Evidence, Principal, Proof
from broker_ctl.security.authorization import AuthorizationPolicy, ClusterRoles
from tests.api.binary.serving import Served, serving
from tests.support.http.binary_client import PING, BinaryClient, command, partitions
from tests.support.time.waiting import PATIENCE_S, eventually

pulsar: Any = importlib.import_module("pulsar")

TOPIC: Final = "persistent://t/ns/x"
END_S: Final = 1000.0
# No check comes by itself.
NEVER_S: Final = 3600.0


@dataclass
class Tokens:
    """A clock, and tokens that end by it."""

    now_s: float = 0.0
    known: dict[bytes, Principal] = field(
        default_factory=lambda: {
            b"first": Principal("app", Proof.JWT, END_S),
            b"second": Principal("app", Proof.JWT, 2 * END_S),
            b"of a proxy": Principal("proxy", Proof.JWT, END_S),
            b"of another": Principal("admin", Proof.JWT, 2 * END_S),
        }
    )

    def authenticate(self, evidence: Evidence) -> Principal | None:
        return self.known.get(evidence.token)

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)

    def rules(self, refresh_check_s: float = NEVER_S) -> dict[str, Any]:
        policy = AuthorizationPolicy(ClusterRoles(proxies=frozenset({"proxy"})))
        return {
            "authenticator": Authenticator([self]),
            "policy": policy,
            "wall_ms": self.wall_ms,
            "refresh_check_s": refresh_check_s,
        }


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture
def rules(tokens: Tokens) -> dict[str, Any]:
    return tokens.rules()


@pytest.fixture
async def served(rules: dict[str, Any]) -> AsyncIterator[Served]:
    async with serving(**rules) as server:
        yield server


def connect(token: bytes = b"first", *, refreshes: bool = True, **more: Any) -> bytes:
    return command(
        CommandType.CONNECT,
        client_version="c",
        protocol_version=19,
        auth_method_name="token",
        auth_data=token,
        feature_flags={"supports_auth_refresh": refreshes},
        **more,
    )


def answer(token: bytes, method: str = "token") -> bytes:
    return command(
        CommandType.AUTH_RESPONSE,
        client_version="c",
        response={"auth_method_name": method, "auth_data": token},
    )


async def signed_in(client: BinaryClient, **more: Any) -> None:
    assert (await client.ask(connect(**more))).type == CommandType.CONNECTED


async def refusal(client: BinaryClient) -> str:
    """The reason with which the server ends the connection."""
    last = await client.receive()
    assert last.error.error == ServerError.AuthenticationError
    with pytest.raises(asyncio.IncompleteReadError):
        await client.receive()
    return str(last.error.message)


async def test_a_command_waits_for_a_newer_token(served: Served, tokens: Tokens) -> None:
    async with BinaryClient.to(served.port) as client:
        await signed_in(client)
        assert (await client.ask(partitions(TOPIC, 1))).partitionMetadataResponse.request_id == 1
        tokens.now_s = END_S
        challenge = (await client.ask(partitions(TOPIC, 2))).authChallenge
        assert challenge.server_version == "broker-ctl 0"
        assert challenge.protocol_version == 19
        assert challenge.challenge.auth_method_name == "token"
        assert challenge.challenge.auth_data == b"PulsarAuthRefresh"
        # Nothing is served yet, and nobody is challenged twice; pings are answered.
        asked = list(served.partitions.asked)
        assert (await client.ask(partitions(TOPIC, 3) + PING)).type == CommandType.PONG
        assert served.partitions.asked == asked
        client.send(answer(b"second"))
        found = {(await client.receive()).partitionMetadataResponse.request_id for _ in range(2)}
        assert found == {2, 3}
        assert served.counted()["AUTH_RESPONSE", "ok"] == 1
        # The second token ends too.
        tokens.now_s = 2 * END_S
        assert (await client.ask(partitions(TOPIC, 4))).type == CommandType.AUTH_CHALLENGE


async def test_a_client_is_judged_by_its_newest_token_when_keys_are_replaced(
    served: Served, tokens: Tokens, rules: dict[str, Any]
) -> None:
    authenticator: Authenticator = rules["authenticator"]
    async with BinaryClient.to(served.port) as client:
        await signed_in(client)
        tokens.now_s = END_S
        assert (await client.ask(partitions(TOPIC, 1))).type == CommandType.AUTH_CHALLENGE
        # The old token is nothing to judge the client by while it looks for a newer one.
        del tokens.known[b"first"]
        authenticator.announce_change()
        answered = await client.ask(answer(b"second"))
        assert answered.type == CommandType.PARTITIONED_METADATA_RESPONSE
        authenticator.announce_change()
        assert await client.is_answered()
        del tokens.known[b"second"]
        authenticator.announce_change()
        assert await refusal(client) == "the jwt of the client was revoked"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (answer(b"unknown"), "a known token"),
        (answer(b""), "a known token"),
        # Not expired by the clock of its issuer, perhaps: the broker's counts.
        (answer(b"first"), "has not expired"),
        (answer(b"of another"), "the role of a connection stays app"),
        (answer(b"second", "tls"), "by 'token' is wanted"),
    ],
)
async def test_a_wrong_answer_ends_the_connection_and_serves_nothing(
    served: Served, tokens: Tokens, given: bytes, says: str
) -> None:
    async with BinaryClient.to(served.port) as client:
        await signed_in(client)
        tokens.now_s = END_S
        assert (await client.ask(partitions(TOPIC))).type == CommandType.AUTH_CHALLENGE
        client.send(given)
        assert says in await refusal(client)
    assert served.partitions.asked == []
    assert served.counted()["AUTH_RESPONSE", "AuthenticationError"] == 1


async def test_nobody_answers_without_a_challenge(served: Served) -> None:
    async with BinaryClient.to(served.port) as client:
        await signed_in(client)
        last = await client.ask(answer(b"of another"))
        assert last.error.message == "AUTH_RESPONSE is not allowed without a challenge"
    async with BinaryClient.to(served.port) as client:
        last = await client.ask(answer(b"second"))
        assert "while the client is new" in last.error.message


@pytest.mark.parametrize(
    "more",
    [{"refreshes": False}, {"token": b"of a proxy", "original_principal": "user"}],
    ids=["old client", "proxy"],
)
async def test_a_client_that_cannot_refresh_is_disconnected(
    served: Served, tokens: Tokens, more: dict[str, Any]
) -> None:
    async with BinaryClient.to(served.port) as client:
        await signed_in(client, **more)
        tokens.now_s = END_S
        client.send(partitions(TOPIC))
        assert await refusal(client) == "the jwt of the client has expired"
    assert served.partitions.asked == []


async def test_what_waits_for_a_newer_token_is_bounded(served: Served, tokens: Tokens) -> None:
    async with BinaryClient.to(served.port) as client:
        await signed_in(client)
        tokens.now_s = END_S
        client.send(*(partitions(TOPIC, number) for number in range(MAX_HELD + 1)))
        assert (await client.receive()).type == CommandType.AUTH_CHALLENGE
        assert "more than 128 commands" in (await client.receive()).error.message


async def test_a_silent_client_is_challenged_and_has_limited_time(tokens: Tokens) -> None:
    async with serving(**tokens.rules(0.5)) as served:
        async with BinaryClient.to(served.port) as client:
            await signed_in(client)
            tokens.now_s = END_S
            assert (await client.receive()).type == CommandType.AUTH_CHALLENGE
            assert (await client.ask(answer(b"second") + PING)).type == CommandType.PONG
            tokens.now_s = 2 * END_S
            assert (await client.receive()).type == CommandType.AUTH_CHALLENGE
            assert await refusal(client) == "no newer token came in time"
        await eventually(lambda: _none(served), what="the end of the connection")


async def _none(served: Served) -> bool:
    return served.connections() == 0


async def test_a_stock_client_refreshes_its_token(served: Served, tokens: Tokens) -> None:
    given: list[str] = []

    def supply() -> str:
        given.append("second" if tokens.now_s else "first")
        return given[-1]

    def run(client: Any) -> int:
        return len(client.get_topic_partitions(TOPIC))

    served.partitions.counts[TOPIC] = 3
    client = pulsar.Client(
        f"pulsar://127.0.0.1:{served.port}",
        authentication=pulsar.AuthenticationToken(supply),
        operation_timeout_seconds=int(PATIENCE_S),
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"),
    )
    try:
        assert await asyncio.to_thread(run, client) == 3
        tokens.now_s = END_S
        assert await asyncio.to_thread(run, client) == 3
    finally:
        await asyncio.to_thread(client.close)
    assert given[-1] == "second"
    counted = served.counted()
    # The same connection, and its second request was not repeated.
    assert (counted["CONNECT", "ok"], counted["AUTH_RESPONSE", "ok"]) == (1, 1)
    assert counted["PARTITIONED_METADATA", "ok"] == 2
