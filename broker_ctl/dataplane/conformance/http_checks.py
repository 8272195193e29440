"""Basics of the data-plane API: payloads, errors, the secret."""

from typing import Final

from broker_ctl.dataplane.conformance.subject import WHOLE, BrokerClient
from broker_ctl.dataplane.webhook import wire
from broker_ctl.http_client import HttpClient

_MALFORMED: Final = (
    b"",
    b"{not json",
    b"[]",
    b"{}",
    b'{"bundle": "%s"}' % str(WHOLE).encode(),
    b'{"bundle": "%s", "token": "1"}' % str(WHOLE).encode(),
    b'{"bundle": "%s", "token": -1}' % str(WHOLE).encode(),
    b'{"bundle": "../../etc", "token": 1}',
)


async def state(subject: BrokerClient) -> None:
    """The state has bundles and authority, and a printable version or none."""
    await subject.loaded()
    await subject.authority()
    wire.version(await subject.expect(200, "GET", wire.STATE))


async def instance_id(subject: BrokerClient) -> None:
    """Every reply carries the same ``instance_id``, errors too (`BrokerClient` looks at each)."""
    for _ in range(2):
        await subject.call("GET", wire.STATE)
    await subject.call("GET", f"{wire.PREFIX}/nothing")
    await subject.call("POST", wire.LOAD, json={})


async def unknown_path(subject: BrokerClient) -> None:
    """An unknown path is answered with 404."""
    await subject.expect(404, "GET", f"{wire.PREFIX}/nothing")


async def malformed(subject: BrokerClient) -> None:
    """A body that is not a JSON object, or lacks a field, or has a wrong one, is refused."""
    for content in _MALFORMED:
        await subject.expect(400, "POST", wire.LOAD, content=content)
    await subject.expect(400, "GET", f"{wire.TOPICS}?bundle=nonsense")
    await subject.expect_loaded({})


async def too_large(subject: BrokerClient) -> None:
    """A body beyond the limit is refused, and the process survives it."""
    content = b'{"bundle": "%s"}' % (b"x" * wire.MAX_REQUEST_BYTES)
    await subject.expect(413, "POST", wire.LOAD, content=content)
    await subject.expect_loaded({})


async def secret(subject: BrokerClient, strangers: tuple[HttpClient, ...]) -> None:
    """A client without the right secret can neither read nor change anything."""
    body = {"bundle": str(WHOLE), "token": subject.next_token()}
    for stranger in strangers:
        await subject.expect(401, "GET", wire.STATE, stranger=stranger)
        await subject.expect(401, "POST", wire.LOAD, json=body, stranger=stranger)
    await subject.expect_loaded({})
