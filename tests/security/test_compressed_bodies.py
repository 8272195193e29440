"""Small bodies that would be large: no stranger and no client makes a daemon unpack them."""

import asyncio
import time
import zlib

import pytest

from broker_ctl.api.http.dependencies import ApiRules
from tests.support.clusters.fake_services import CLUSTER, TOKEN, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting

UNPACKED_BYTES = 64 << 20
REQUESTS = 25
# To unpack all of them takes some seconds.
MOST_CPU_S = 1.0


@pytest.fixture(scope="module")
def bomb() -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    chunk = bytes(1 << 20)
    packed = [packer.compress(chunk) for _ in range(UNPACKED_BYTES // len(chunk))]
    return b"".join([*packed, packer.flush()])


async def answer_to(broker: Broker, path: str, body: bytes, *headers: str) -> bytes:
    """The response to a POST with a packed body; it may come before the whole body is sent."""
    host, port = broker.broker_id.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Content-Encoding: gzip",
        "Connection: close",
        *headers,
    ]
    writer.write("\r\n".join([*head, "", ""]).encode() + body)
    try:
        async with asyncio.timeout(60):
            return await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()


@pytest.mark.parametrize(
    "path", ["/control/v1/acquire", "/control/v1/instructions", "/admin/v2/tenants/t", "/nowhere"]
)
@pytest.mark.parametrize("token", [None, "unknown", TOKEN])
async def test_packed_bodies_cost_no_more_than_their_bytes(
    bomb: bytes, path: str, token: str | None
) -> None:
    rules = ApiRules(CLUSTER, **admitting(f"admin:{TOKEN}", ["admin"]))
    headers = [] if token is None else [f"Authorization: Bearer {token}"]
    async with serving_brokers([free_port()], rules) as [broker]:
        began_s = time.process_time()
        for _ in range(REQUESTS):
            answer = await answer_to(broker, path, bomb, *headers)
            assert answer.startswith((b"HTTP/1.1 415 ", b"HTTP/1.1 40")), answer
        assert time.process_time() - began_s < MOST_CPU_S
