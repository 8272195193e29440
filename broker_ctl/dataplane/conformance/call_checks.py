"""Promise 5 of the data-plane API: calls that come late, or are meant for another instance."""

from typing import Any, Final

from broker_ctl.dataplane.conformance.subject import (
    ELSEWHERE,
    LEFT,
    RIGHT,
    WHOLE,
    BrokerClient,
    unmet,
)
from broker_ctl.dataplane.webhook import wire

_NOBODY: Final = "not-the-instance-that-answers"


async def attach(subject: BrokerClient) -> None:
    """Each daemon counts from far above the one before."""
    before, after = await first_call(subject), await first_call(subject)
    if after - before < wire.CALLS_OF_A_DAEMON:
        unmet(f"{wire.FIRST_CALL} {wire.CALLS_OF_A_DAEMON} above {before}", after)


async def late_load(subject: BrokerClient) -> None:
    """A load that its fence has overtaken is refused; with a later number it is not."""
    first, token = await first_call(subject), subject.next_token()
    await _act(subject, wire.FENCE, first + 1, bundle=str(WHOLE))
    await _act(subject, wire.LOAD, first, 409, bundle=str(WHOLE), token=token)
    await subject.expect_loaded({})
    for _ in range(2):
        await _act(subject, wire.LOAD, first + 2, bundle=str(WHOLE), token=token)
    await subject.expect_loaded({WHOLE: token})


async def late_end(subject: BrokerClient) -> None:
    """A fence, an unload or a split that a load has overtaken leaves what was loaded alone."""
    first, token = await first_call(subject), subject.next_token()
    await _act(subject, wire.LOAD, first + 1, bundle=str(WHOLE), token=token)
    await _act(subject, wire.FENCE, first, 409, bundle=str(WHOLE))
    await _act(subject, wire.FENCE, first, 409, bundle=str(LEFT))
    await _act(subject, wire.UNLOAD, first, 409, bundle=str(RIGHT), deadline_ms=0)
    children = wire.tokens_json({LEFT: token, RIGHT: token})
    await _act(subject, wire.SPLIT, first, 409, parent=str(WHOLE), children=children)
    await subject.expect_loaded({WHOLE: token})


async def late_elsewhere(subject: BrokerClient) -> None:
    """Numbers are of hashes: what shares none with the later call is carried out."""
    first, token = await first_call(subject), subject.next_token()
    await _act(subject, wire.LOAD, first + 2, bundle=str(LEFT), token=token)
    await _act(subject, wire.LOAD, first + 1, bundle=str(RIGHT), token=token)
    await _act(subject, wire.LOAD, first, bundle=str(ELSEWHERE), token=token)
    await subject.expect_loaded({LEFT: token, RIGHT: token, ELSEWHERE: token})


async def late_after_unload(subject: BrokerClient) -> None:
    """The number survives the unload, and is shared by all daemons."""
    first, token = await first_call(subject), subject.next_token()
    await _act(subject, wire.LOAD, first, bundle=str(WHOLE), token=token)
    second = await first_call(subject)
    await _act(subject, wire.UNLOAD, second, bundle=str(WHOLE), deadline_ms=0)
    await _act(subject, wire.LOAD, first + 1, 409, bundle=str(WHOLE), token=token)
    await subject.expect_loaded({})


async def late_of_previous_daemon(subject: BrokerClient) -> None:
    """Calls of an earlier daemon are too late for any hash once a later daemon has called."""
    first, second, token = (
        await first_call(subject),
        await first_call(subject),
        subject.next_token(),
    )
    await _act(subject, wire.UNLOAD, second, bundle=str(LEFT), deadline_ms=0)
    await _act(subject, wire.LOAD, first, 409, bundle=str(RIGHT), token=token)
    await subject.expect_loaded({})


async def late_once_attached(subject: BrokerClient) -> None:
    """Attaching is a call: what an earlier daemon has sent comes too late from then on."""
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
    """A daemon that has asked for its first number alone has attached to nothing."""
    first, token = await first_call(subject), subject.next_token()
    await confirm(subject, first)
    await first_call(subject)
    await _act(subject, wire.LOAD, first + 1, bundle=str(WHOLE), token=token)
    await confirm(subject, first)
    await subject.expect_loaded({WHOLE: token})


async def confirm(subject: BrokerClient, first: int) -> None:
    """Count from there."""
    stamp = {wire.INSTANCE_ID: subject.instance_id, wire.CALL: first}
    answered = wire.count(
        await subject.expect(200, "POST", wire.ATTACH, json=stamp), wire.FIRST_CALL
    )
    if answered != first:
        unmet(f"{wire.FIRST_CALL} {first} in answer to {wire.ATTACH} as call {first}", answered)


async def other_instance(subject: BrokerClient) -> None:
    """What is meant for another instance is refused."""
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
