"""Requests from the socket to their handlers, over real connections."""

import asyncio
import logging

import pytest

from broker_ctl.http_client import HttpClient
from tests.support.clusters.fake_services import Broker

BODY = b'{"bundles":{"numBundles":2}}'
HEAD = (
    b"PUT /admin/v2/namespaces/t/new HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\nExpect: %s\r\n\r\n"
)


async def test_a_body_that_is_announced_is_asked_for(leader: Broker) -> None:
    host, port = leader.broker_id.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(HEAD % (len(BODY), b"100-continue"))
    async with asyncio.timeout(60):
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(BODY)
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 204 ")


@pytest.mark.parametrize("expected", [b"200-ok", b"100"])
async def test_another_expectation_is_not_met(leader: Broker, expected: bytes) -> None:
    host, port = leader.broker_id.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(HEAD % (len(BODY), expected) + BODY)
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 417 ")


async def test_the_path_of_a_request_is_not_logged(
    leader: Broker, http: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        reply = await http.request("GET", f"{leader.url}/lookup/v2/topic/persistent/t/ns/secret")
    assert reply.status == 200
    assert "secret" not in caplog.text
