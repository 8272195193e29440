"""What a broker process makes of calls: their form, their secret, their numbers."""

from typing import Any, Final

from broker_ctl.dataplane.webhook import wire
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.conformance.subject import ELSEWHERE, LEFT, RIGHT, WHOLE, BrokerClient, unmet

# Basics of the data-plane API: payloads, errors, the secret.


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


# Promise 5 of the data-plane API: refusal of late calls and of calls to another instance.


_NOBODY: Final = "not-the-instance-that-answers"


async def attach(subject: BrokerClient) -> None:
    """Each daemon gets a first call number far above that of the daemon before."""
    before, after = await first_call(subject), await first_call(subject)
    if after - before < wire.CALLS_OF_A_DAEMON:
        unmet(f"{wire.FIRST_CALL} {wire.CALLS_OF_A_DAEMON} above {before}", after)


async def late_load(subject: BrokerClient) -> None:
    """A load that a later fence has overtaken is refused; one with a later number is accepted."""
    first, token = await first_call(subject), subject.next_token()
    await _act(subject, wire.FENCE, first + 1, bundle=str(WHOLE))
    await _act(subject, wire.LOAD, first, 409, bundle=str(WHOLE), token=token)
    await subject.expect_loaded({})
    for _ in range(2):
        await _act(subject, wire.LOAD, first + 2, bundle=str(WHOLE), token=token)
    await subject.expect_loaded({WHOLE: token})


async def late_end(subject: BrokerClient) -> None:
    """A fence, an unload or a split that a later load has overtaken is refused."""
    first, token = await first_call(subject), subject.next_token()
    await _act(subject, wire.LOAD, first + 1, bundle=str(WHOLE), token=token)
    await _act(subject, wire.FENCE, first, 409, bundle=str(WHOLE))
    await _act(subject, wire.FENCE, first, 409, bundle=str(LEFT))
    await _act(subject, wire.UNLOAD, first, 409, bundle=str(RIGHT), deadline_ms=0)
    children = wire.tokens_json({LEFT: token, RIGHT: token})
    await _act(subject, wire.SPLIT, first, 409, parent=str(WHOLE), children=children)
    await subject.expect_loaded({WHOLE: token})


async def late_elsewhere(subject: BrokerClient) -> None:
    """Numbers apply per hash: a call that shares no hash with the later one is carried out."""
    first, token = await first_call(subject), subject.next_token()
    await _act(subject, wire.LOAD, first + 2, bundle=str(LEFT), token=token)
    await _act(subject, wire.LOAD, first + 1, bundle=str(RIGHT), token=token)
    await _act(subject, wire.LOAD, first, bundle=str(ELSEWHERE), token=token)
    await subject.expect_loaded({LEFT: token, RIGHT: token, ELSEWHERE: token})


async def late_after_unload(subject: BrokerClient) -> None:
    """The number outlives the unload, and applies to all daemons."""
    first, token = await first_call(subject), subject.next_token()
    await _act(subject, wire.LOAD, first, bundle=str(WHOLE), token=token)
    second = await first_call(subject)
    await _act(subject, wire.UNLOAD, second, bundle=str(WHOLE), deadline_ms=0)
    await _act(subject, wire.LOAD, first + 1, 409, bundle=str(WHOLE), token=token)
    await subject.expect_loaded({})


async def late_of_previous_daemon(subject: BrokerClient) -> None:
    """Once a later daemon has called, calls of an earlier one are refused for every hash."""
    first, second, token = (
        await first_call(subject),
        await first_call(subject),
        subject.next_token(),
    )
    await _act(subject, wire.UNLOAD, second, bundle=str(LEFT), deadline_ms=0)
    await _act(subject, wire.LOAD, first, 409, bundle=str(RIGHT), token=token)
    await subject.expect_loaded({})


async def late_once_attached(subject: BrokerClient) -> None:
    """Attaching is a call: from then on calls of an earlier daemon are refused."""
    first, second, token = (
        await first_call(subject),
        await first_call(subject),
        subject.next_token(),
    )
    await confirm(subject, second)
    await _act(subject, wire.LOAD, first, 409, bundle=str(WHOLE), token=token)
    await _act(subject, wire.ATTACH, first, 409)
    await _act(subject, wire.LOAD, second + 1, bundle=str(WHOLE), token=token)
    await subject.expect_loaded({WHOLE: token})


async def late_attachment(subject: BrokerClient) -> None:
    """A daemon that has only asked for its first number is not attached."""
    first, token = await first_call(subject), subject.next_token()
    await confirm(subject, first)
    await first_call(subject)
    await _act(subject, wire.LOAD, first + 1, bundle=str(WHOLE), token=token)
    await confirm(subject, first)
    await subject.expect_loaded({WHOLE: token})


async def confirm(subject: BrokerClient, first: int) -> None:
    """Confirm the first number, which attaches."""
    stamp = {wire.INSTANCE_ID: subject.instance_id, wire.CALL: first}
    answered = wire.count(
        await subject.expect(200, "POST", wire.ATTACH, json=stamp), wire.FIRST_CALL
    )
    if answered != first:
        unmet(f"{wire.FIRST_CALL} {first} in answer to {wire.ATTACH} as call {first}", answered)


async def other_instance(subject: BrokerClient) -> None:
    """A call that is meant for another instance is refused."""
    body = {"bundle": str(WHOLE), "token": subject.next_token(), wire.INSTANCE_ID: _NOBODY}
    await subject.expect(412, "POST", wire.LOAD, json=body)
    stamp = {wire.INSTANCE_ID: _NOBODY, wire.CALL: await first_call(subject)}
    await subject.expect(412, "POST", wire.ATTACH, json=stamp)
    await subject.expect_loaded({})


async def first_call(subject: BrokerClient) -> int:
    """Attach as a new daemon does."""
    return wire.count(await subject.expect(200, "POST", wire.ATTACH, json={}), wire.FIRST_CALL)


async def _act(subject: BrokerClient, path: str, call: int, status: int = 200, **body: Any) -> None:
    stamp = {wire.INSTANCE_ID: subject.instance_id, wire.CALL: call}
    await subject.expect(status, "POST", path, json={**body, **stamp})
