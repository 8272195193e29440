"""Pulsar's own client (the C++ one, under its Python face): what it makes of our answers."""

import asyncio
import importlib
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from broker_ctl.broker.lookup.lookup import Answer
from broker_ctl.core.model.names import Topic
from broker_ctl.errors import BundleMoving, NamespaceMissing
from broker_ctl.security.authentication import Authenticator
from broker_ctl.security.static_tokens import StaticTokens
from tests.api.binary.serving import SELF, Served, serving

# It ships no types, and what other tests use of it is declared for them.
pulsar: Any = importlib.import_module("pulsar")

TOPIC = "persistent://t/ns/x"
SECRET = "a-secret-of-sixteen"
# What a request of this client may take in all. Who gives up at once is far below it.
TIMEOUT_S = 20


async def using(
    served: Served, act: Callable[[Any], Any], token: str = "", limit_s: int = TIMEOUT_S
) -> Any:
    """Run a client, which blocks, in a thread of its own."""
    shown = pulsar.AuthenticationToken(token) if token else None

    def run() -> Any:
        client = pulsar.Client(
            f"pulsar://127.0.0.1:{served.port}",
            authentication=shown,
            operation_timeout_seconds=limit_s,
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"),
        )
        try:
            return act(client)
        finally:
            client.close()

    return await asyncio.to_thread(run)


def at_home(served: Served) -> None:
    """Make this server the owner's address too, so that it sees what the client does next."""
    served.assign(replace(SELF, native_url=f"pulsar://127.0.0.1:{served.port}"), TOPIC)


async def test_a_stock_client_learns_the_partitions_of_a_topic(served: Served) -> None:
    served.partitions.counts[TOPIC] = 3
    found = await using(served, lambda client: client.get_topic_partitions(TOPIC))
    assert found == [f"{TOPIC}-partition-{number}" for number in range(3)]


async def test_a_stock_client_reaches_the_owner_and_gives_up_on_a_refused_command(
    served: Served,
) -> None:
    at_home(served)
    with pytest.raises(pulsar.PulsarException, match="NotAllowed"):
        await using(served, lambda client: client.create_producer(TOPIC))
    assert served.counted()["LOOKUP", "ok"] == 1
    assert served.counted()["PRODUCER", "NotAllowedError"] == 1


async def test_a_stock_client_retries_while_a_bundle_moves(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(served)
    find, met = served.lookup.find, [BundleMoving("on its way")] * 2

    async def find_later(topic: Topic, **how: Any) -> Answer:
        if met:
            raise met.pop()
        return await find(topic, **how)

    monkeypatch.setattr(served.lookup, "find", find_later)
    with pytest.raises(pulsar.PulsarException, match="NotAllowed"):
        await using(served, lambda client: client.create_producer(TOPIC))
    assert served.counted()["LOOKUP", "MetadataError"] == 2
    assert served.counted()["LOOKUP", "ok"] == 1


async def test_a_stock_client_gives_up_on_a_missing_namespace(served: Served) -> None:
    served.partitions.refuse = NamespaceMissing("gone")
    with pytest.raises(pulsar.PulsarException, match="TopicNotFound"):
        await using(served, lambda client: client.create_producer(TOPIC))
    assert served.counted()["PARTITIONED_METADATA", "TopicNotFound"] == 1


async def test_a_stock_client_with_an_unknown_token_is_refused() -> None:
    tokens = Authenticator([StaticTokens.parse(f"admin:{SECRET}")])
    async with serving(authenticator=tokens) as served:
        served.partitions.counts[TOPIC] = 1
        found = await using(served, lambda client: client.get_topic_partitions(TOPIC), SECRET)
        assert len(found) == 1
        # Whatever goes wrong in a handshake, it tries again until its time is up.
        with pytest.raises(pulsar.PulsarException):
            await using(served, lambda client: client.get_topic_partitions(TOPIC), "wrong", 1)
        counted = served.counted()
        assert counted["CONNECT", "ok"] == counted["PARTITIONED_METADATA", "ok"] == 1
        assert counted["CONNECT", "AuthenticationError"] >= 1


async def test_a_stock_client_subscribes_to_a_pattern(served: Served) -> None:
    at_home(served)
    pattern = re.compile("persistent://t/ns/wanted-.*")
    # None that fits: the subscription stands, and waits for one to come.
    served.topics.names = [TOPIC]
    await using(served, lambda client: client.subscribe(pattern, "s"))
    assert ("t/ns", ("persistent",)) in served.topics.asked
    assert served.counted()["GET_TOPICS_OF_NAMESPACE", "ok"] >= 1
    # One that fits is looked up.
    served.topics.names = [TOPIC, "persistent://t/ns/wanted-1"]
    with pytest.raises(pulsar.PulsarException):
        await using(served, lambda client: client.subscribe(pattern, "s"))
    assert served.counted()["LOOKUP", "ok"] >= 1
