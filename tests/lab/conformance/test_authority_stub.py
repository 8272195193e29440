"""The stub of the daemon, which strangers call, too."""

import asyncio

import pytest

from broker_ctl.clock import SystemClock
from broker_ctl.dataplane.webhook import wire
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.conformance.subject import SESSION_EPOCH, AuthorityStub
from tests.support.http.web_server import free_port
from tests.support.time.waiting import PATIENCE_S, eventually


async def open_stub() -> AuthorityStub:
    daemon = AuthorityStub("127.0.0.1", free_port(), "secret", SystemClock())
    await daemon.open()
    return daemon


async def ask(url: str, token: str | None = "secret") -> tuple[int, object]:
    async with HttpClient(token=token, timeout_s=PATIENCE_S, max_body_bytes=1000) as http:
        reply = await http.request("GET", url)
        return reply.status, reply.json()


async def test_the_stub_answers_the_authority_that_it_is_set_to() -> None:
    daemon = await open_stub()
    daemon.remaining_ms = 1234
    assert await ask(daemon.url) == (200, wire.authority_json(SESSION_EPOCH, 1234))
    assert [pull.remaining_ms for pull in daemon.pulls] == [1234]
    daemon.remaining_ms = None
    with pytest.raises(HttpError):
        await ask(daemon.url)
    assert len(daemon.pulls) == 1
    await daemon.close()


async def test_strangers_are_counted_and_learn_nothing() -> None:
    daemon = await open_stub()
    daemon.remaining_ms = 1234
    assert await ask(daemon.url, None) == (401, {})
    assert await ask(daemon.url, "guess") == (401, {})
    assert await ask(daemon.url + "/more") == (404, {})
    assert (daemon.strangers, len(daemon.pulls)) == (2, 0)
    await daemon.close()


@pytest.mark.parametrize("garbage", [b"\x00\xff\r\n\r\n", b"x" * 100_000, b""])
async def test_garbage_ends_its_connection(garbage: bytes) -> None:
    daemon = await open_stub()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(daemon.url.split(":")[2][:5]))
    writer.write(garbage)
    writer.write_eof()
    assert b"200" not in await asyncio.wait_for(reader.read(), PATIENCE_S)
    writer.close()
    await daemon.close()


async def test_closing_ends_the_connections_of_waiting_callers() -> None:
    daemon = await open_stub()
    daemon.remaining_ms, daemon.delay_s = 1, 2 * PATIENCE_S
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(_fails(daemon.url), name="asking")
        await eventually(lambda: len(daemon._listener) == 1)
        await daemon.close()
        assert await asyncio.wait_for(asking, PATIENCE_S)


async def _fails(url: str) -> bool:
    with pytest.raises(HttpError):
        await ask(url)
    return True
