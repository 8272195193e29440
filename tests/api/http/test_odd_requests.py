"""Requests that no client of good will sends: each has an answer, and none fills memory or log."""

import asyncio
import gc
import gzip
import json
import logging
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.http_client import HttpClient
from tests.api.http.test_dry_runs import DONE
from tests.support.clusters.fake_services import CLUSTER, Broker
from tests.support.time.waiting import eventually

REFUSALS = {400, 404, 405, 406, 408, 409, 412, 413, 415, 417, 422, 501, 503}
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**63, 1e300, 0.5, "", " ", "x", "x" * 5_000, "\x00"),
    *([], {}, [None], [[]], {"": None}, ["a:1", 1], {"by": {"by": []}}, "persistent://t/ns/x"),
]
RAW = [
    *(b"\xff", b"{", b"nul", b"[1", b'"\\ud800"', b"1e999", b"-0", b'{"by":1e999}'),
    json.dumps({"by": "x", "reason": "x" * 900_000}).encode(),
    *(b"[" * 2_000, b'{"a":' * 2_000, b"9" * 5_000, b'"' + b"\xc3\xa9" * 100 + b'"'),
]
WORDS = ("by", "reason", "epoch", "bundle", "move", "brokers", "partitions", "topic", "replicas")
HEADERS = b"Host: localhost\r\nContent-Type: application/json\r\n"


LAST = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def counted(broker: Broker, *labels: str) -> float:
    """Requests by route, method and status."""
    wanted = dict(zip(("route", "method", "status"), labels, strict=True))
    samples = broker.instruments.api.requests.samples()
    return sum(one.value for one in samples if wanted.items() <= one.labels.items())


async def sent(broker: Broker, data: bytes) -> bytes:
    """The answers to these bytes and to a well-formed last request."""
    host, port = broker.broker_id.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data + LAST)
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    return answer


def changing_routes(broker: Broker) -> Iterator[tuple[str, str]]:
    for route in ApiServer(broker.dependencies, ApiRules(CLUSTER)).routes():
        if route.method not in {"GET", "HEAD"}:
            path = re.sub(r"\{domain[^}]*\}", "persistent", route.path)
            path = re.sub(r"\{(tenant|namespace)[^}]*\}", "t", path)
            path = re.sub(r"\{cluster[^}]*\}", CLUSTER, path)
            yield route.method, re.sub(r"\{(\w+)[^}]*\}", "x", path)


def odd_bodies(rng: random.Random) -> Iterator[bytes]:
    yield from RAW
    for value in ODD:
        yield json.dumps(value).encode()
    for _ in range(20):
        names = rng.sample(WORDS, rng.randint(1, 4))
        yield json.dumps({name: rng.choice(ODD) for name in names}).encode()


@pytest.mark.timeout(300)
async def test_every_body_has_an_answer(leader: Broker, http: HttpClient) -> None:
    rng = random.Random(1)
    broken: list[tuple[str, str, bytes, object]] = []
    paths = {*changing_routes(leader), *((method, path) for method, path, _ in DONE)}
    paths.add(("POST", "/control/v1/pause"))
    for method, path in sorted(paths):
        for body in odd_bodies(rng):
            reply = await http.request(method, leader.url + path, content=body)
            # What no page of the console has sent is refused before it is read.
            is_form = path.startswith("/ui/") and reply.status == 403
            if reply.status >= 300 and reply.status not in REFUSALS and not is_form:
                broken.append((method, path, body[:80], reply.status))
            elif reply.status >= 400 and not reply.json()["reason"]:
                broken.append((method, path, body[:80], "no reason"))
    assert broken == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/lookup/v2/topic/persisten%74/t/ns/x", 200),
        ("GET", "/lookup/v2/topic/persisten%74/t/ns/x/bundle", 200),
        ("GET", "/admin/v2/persisten%74/t/ns/x/partitions", 200),
        ("PUT", "/admin/v2/persisten%74/t/ns/x/unload", 404),
        ("GET", "/lookup/v2/topic/persistent/persistent/persistent/persistent", 404),
    ],
)
async def test_a_domain_may_be_spelled_as_any_text(
    leader: Broker, method: str, path: str, status: int
) -> None:
    answer = await sent(leader, f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "br", "deflate", "zstd", "nonsense"])
@pytest.mark.parametrize("body", [b"{}", gzip.compress(b"{}" + b" " * (1 << 20))])
async def test_a_packed_body_is_not_unpacked(leader: Broker, coding: str, body: bytes) -> None:
    head = b"PUT /admin/v2/namespaces/t/new HTTP/1.1\r\n%sContent-Encoding: %s\r\n" % (
        HEADERS,
        coding.encode(),
    )
    answer = await sent(leader, head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert answer.startswith(b"HTTP/1.1 415 ")
    assert b"Content-Encoding must be identity or absent" in answer


@pytest.mark.parametrize("expected", [b"100-\xffontinue", b"nonsense", b"200-ok"])
async def test_another_expectation_is_refused_with_a_reason(
    leader: Broker, expected: bytes
) -> None:
    head = b"PUT /admin/v2/namespaces/t/new HTTP/1.1\r\n%sExpect: %s\r\n" % (HEADERS, expected)
    answer = await sent(leader, head + b"Content-Length: 0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 417 ")
    assert b'"reason"' in answer
    assert counted(leader, "refused", "unknown", "417") == 1


async def test_a_client_that_hangs_up_in_its_body_is_not_a_fault(
    leader: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    host, port = leader.broker_id.split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    route = "/admin/v2/namespaces/{tenant}/{namespace}"
    head = b"PUT /admin/v2/namespaces/t/new HTTP/1.1\r\n%sContent-Length: 100\r\n\r\n" % HEADERS
    writer.write(head + b'{"bundles":')
    await writer.drain()
    writer.close()
    await eventually(lambda: counted(leader, route, "PUT", "400") == 1)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"N(NSENSE / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET / HTTP/9\r\nHost: localhost\r\n\r\n",
    ],
)
async def test_a_malformed_request_is_counted_and_not_logged_as_an_error(
    leader: Broker, caplog: pytest.LogCaptureFixture, request_line: bytes
) -> None:
    answer = await sent(leader, request_line)
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 ", b"HTTP/1.1 404 ")), answer
    assert sum(counted(leader, "unknown", "unknown", one) for one in ("400", "404")) == 1
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("head", [b"GET /nope", b"PATCH /livez", b"GET /metrics/x"])
async def test_a_path_that_nobody_serves_leaves_nothing_for_the_garbage_collection(
    leader: Broker, head: bytes
) -> None:
    one = head + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    count = 200
    await sent(leader, one)
    gc.collect()
    gc.disable()
    try:
        assert (await sent(leader, one * count)).count(b"HTTP/1.1 40") == count
        left = gc.collect()
    finally:
        gc.enable()
    assert left < count
