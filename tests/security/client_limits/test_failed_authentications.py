"""Guessing tokens becomes slow, and a valid token from the same address does not."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from broker_ctl.api.binary.enums import CommandType, ServerError
from broker_ctl.api.http import responses
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.api.http.limits.rates import FailedAuthentications
from broker_ctl.instruments.clients import SecurityInstruments
from broker_ctl.lab.time import ManualClock, in_virtual_time
from broker_ctl.security.client_limits import FailureDelays
from tests.support.clusters.fake_services import CLUSTER, Broker, serving_brokers
from tests.support.http.binary_client import BinaryClient, command
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting

TOKEN = "a-secret-of-the-operator"
WRONG = "a-guess-of-a-stranger"
# Longer than any request of a busy machine takes.
LONG_S = 60.0
FREE = 10
MAX_S = 0.2


def delays(max_delay_s: float, clock: ManualClock) -> FailureDelays:
    return FailureDelays(max_delay_s, clock, SecurityInstruments().authentication_failures)


def test_the_delay_begins_after_ten_failures_and_doubles_up_to_its_bound() -> None:
    one = delays(5.0, ManualClock())
    found = [one.record("a", "http") for _ in range(18)]
    assert found == pytest.approx([0.0] * 10 + [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
    assert one.record("b", "http") == 0


def test_failures_are_forgotten_one_by_one_and_within_minutes() -> None:
    clock = ManualClock()
    one = delays(5.0, clock)
    for _ in range(100_000):
        one.record("a", "http")
    clock.time_s += 10 * 19.5
    assert 0 < one.record("a", "http") < 5
    clock.time_s += 10 * 12
    assert one.record("a", "http") == 0


def test_without_a_bound_nothing_is_delayed() -> None:
    one = delays(0.0, ManualClock())
    assert {one.record("a", "http") for _ in range(100)} == {0.0}


@in_virtual_time
async def test_more_answers_than_may_be_delayed_become_429s() -> None:
    failures = FailedAuthentications(delays(5.0, ManualClock()))
    unauthorized = responses.error(401, "Unauthorized", "no")
    for _ in range(40):
        await failures.answer("a", unauthorized)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(failures.answer("a", unauthorized)) for _ in range(128)]
        await asyncio.sleep(0)
        refused = await failures.answer("a", unauthorized)
        assert (refused.status, refused.headers["Retry-After"]) == (429, "5")
        # Another address is not refused.
        waiting += [group.create_task(failures.answer("b", unauthorized)) for _ in range(11)]
    assert {answer.result().status for answer in waiting} == {401}
    assert (await failures.answer("a", unauthorized)).status == 401


@asynccontextmanager
async def guarded(max_delay_s: float) -> AsyncIterator[tuple[Broker, int]]:
    port = free_port()
    rules = ApiRules(
        CLUSTER,
        **admitting(f"operator:{TOKEN}\n", ["operator"]),
        lookup_port=port,
        max_failure_delay_s=max_delay_s,
    )
    async with serving_brokers([free_port()], rules) as [broker]:
        yield broker, port


async def status_of(broker: Broker, token: str, address: str = "127.0.0.1") -> int:
    host, port = broker.broker_id.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(address, 0))
    head = (
        "GET /admin/v2/clusters HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"X-Forwarded-For: 192.0.2.7\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    writer.write(head.encode())
    try:
        return int((await reader.read()).split()[1])
    finally:
        writer.close()


def connect(token: str) -> bytes:
    return command(
        CommandType.CONNECT, client_version="c", auth_method_name="token", auth_data=token.encode()
    )


async def test_the_eleventh_wrong_token_waits_and_a_right_one_does_not() -> None:
    async with guarded(LONG_S) as (broker, port), asyncio.timeout(LONG_S):
        # Nobody waits for the answers, which come later and later.
        for _ in range(FREE + 13):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await status_of(broker, WRONG)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await status_of(broker, WRONG)
        assert await status_of(broker, TOKEN) == 200
        async with BinaryClient.to(port) as client:
            assert (await client.ask(connect(TOKEN))).type == CommandType.CONNECTED
        assert await status_of(broker, WRONG, "127.0.0.2") == 401
        counted = broker.instruments.security.authentication_failures.samples()
        failures = {sample.labels["protocol"]: sample.value for sample in counted}
        assert failures["http"] > FREE
        # There before the first failure, so that Prometheus sees it as an increase.
        assert failures["binary"] == 0


async def test_failures_over_both_protocols_count_together() -> None:
    async with guarded(MAX_S) as (broker, port), asyncio.timeout(LONG_S):

        async def guess() -> float:
            began_s = time.monotonic()
            async with BinaryClient.to(port) as client:
                # What follows is not read before the answer: another CONNECT is not another guess.
                client.send(connect(WRONG), connect(TOKEN))
                assert (await client.receive()).error.error == ServerError.AuthenticationError
                assert await client.rest() == b""
            return time.monotonic() - began_s

        # Of each more than enough for the longest delay, if the others count too.
        for _ in range(FREE):
            await guess()
            assert await status_of(broker, WRONG) == 401
        assert await guess() >= MAX_S
        began_s = time.monotonic()
        assert await status_of(broker, WRONG) == 401
        assert time.monotonic() - began_s >= MAX_S
        counted = broker.instruments.security.authentication_failures.samples()
        assert {sample.labels["protocol"]: sample.value for sample in counted} == {
            "http": FREE + 1,
            "binary": FREE + 1,
        }
