"""What a broker process does with bundles, and when it stops serving by itself."""

import asyncio
from itertools import pairwise
from typing import Final

from broker_ctl.core.model.names import Topic
from broker_ctl.dataplane.webhook import wire
from broker_ctl.errors import InvalidName
from broker_ctl.lab.conformance.subject import (
    ELSEWHERE,
    LEFT,
    RIGHT,
    SESSION_EPOCH,
    WHOLE,
    AuthorityStub,
    BrokerClient,
    unmet,
)

# Promises 1 to 3 of the data-plane API: tokens, bundles, repeated calls.


async def load_and_repeat(subject: BrokerClient) -> None:
    """A loaded bundle is in the state, under its token; loading it again changes nothing."""
    token = subject.next_token()
    for _ in range(2):
        await subject.load(WHOLE, token)
        await subject.expect_loaded({WHOLE: token})


async def load_refuses_old_token(subject: BrokerClient) -> None:
    """A smaller token is refused for the same bundle, and nothing changes."""
    old, token = subject.next_token(), subject.next_token()
    await subject.load(WHOLE, token)
    await subject.load(WHOLE, old, status=409)
    await subject.expect_loaded({WHOLE: token})


async def token_covers_overlap(subject: BrokerClient) -> None:
    """A smaller token is refused for every bundle that shares a hash, and for no other."""
    old, token = subject.next_token(), subject.next_token()
    await subject.load(LEFT, token)
    await subject.load(WHOLE, old, status=409)
    quarter, _ = LEFT.cut((0x40000000,))
    await subject.load(quarter, old, status=409)
    await subject.load(RIGHT, old)
    await subject.load(ELSEWHERE, old)
    await subject.expect_loaded({LEFT: token, RIGHT: old, ELSEWHERE: old})


async def load_replaces_overlap(subject: BrokerClient) -> None:
    """Loading a bundle replaces the bundles that overlap it."""
    old, token = subject.next_token(), subject.next_token()
    await subject.load(WHOLE, old)
    await subject.load(RIGHT, token)
    await subject.expect_loaded({RIGHT: token})


async def renew(subject: BrokerClient) -> None:
    """Renewing raises the token; a smaller one is refused."""
    old, token, newest = (subject.next_token() for _ in range(3))
    await subject.load(WHOLE, token)
    await subject.renew(WHOLE, old, status=409)
    for _ in range(2):
        await subject.renew(WHOLE, newest)
        await subject.expect_loaded({WHOLE: newest})
    await subject.load(WHOLE, token, status=409)


async def renew_needs_loaded(subject: BrokerClient) -> None:
    """Renewing an unloaded bundle is refused: the daemon must learn that it has to load it."""
    await subject.renew(WHOLE, subject.next_token(), status=404)
    await subject.expect_loaded({})


async def split(subject: BrokerClient) -> None:
    """The children replace the parent, whose token is old from then on."""
    parent, child = subject.next_token(), subject.next_token()
    await subject.load(WHOLE, parent)
    for _ in range(2):
        await subject.split(WHOLE, {LEFT: child, RIGHT: child})
        await subject.expect_loaded({LEFT: child, RIGHT: child})
    await subject.load(WHOLE, parent, status=409)


async def split_refusals(subject: BrokerClient) -> None:
    """No split without the parent, with an old token, or into anything but the parent."""
    old, token, newer = (subject.next_token() for _ in range(3))
    await subject.split(WHOLE, {LEFT: token, RIGHT: token}, status=404)
    await subject.load(WHOLE, token)
    await subject.split(WHOLE, {LEFT: newer, RIGHT: old}, status=409)
    await subject.split(WHOLE, {LEFT: newer}, status=400)
    await subject.expect_loaded({WHOLE: token})


async def merge(subject: BrokerClient) -> None:
    """The parent replaces both children, whose tokens are old from then on."""
    child, parent = subject.next_token(), subject.next_token()
    await subject.load(LEFT, child)
    await subject.load(RIGHT, child)
    for _ in range(2):
        await subject.merge(parent)
        await subject.expect_loaded({WHOLE: parent})
    await subject.load(LEFT, child, status=409)


async def merge_refusals(subject: BrokerClient) -> None:
    """No merge with one child missing, or with an old token."""
    old, token, newer = (subject.next_token() for _ in range(3))
    await subject.load(LEFT, token)
    await subject.merge(newer, status=404)
    await subject.load(RIGHT, token)
    await subject.merge(old, status=409)
    await subject.expect_loaded({LEFT: token, RIGHT: token})


async def unload(subject: BrokerClient) -> None:
    """Unloading is confirmed, even of an unloaded bundle, and unloads all that overlaps."""
    token = subject.next_token()
    await subject.load(LEFT, token)
    await subject.load(ELSEWHERE, token)
    await subject.unload(WHOLE)
    await subject.expect_loaded({ELSEWHERE: token})
    if closed := await subject.unload(WHOLE):
        unmet("the second unload closes no topic", closed)


async def token_outlives_unload(subject: BrokerClient) -> None:
    """The token is remembered after unload and fence."""
    old, token = subject.next_token(), subject.next_token()
    await subject.load(LEFT, token)
    await subject.unload(LEFT)
    await subject.load(LEFT, old, status=409)
    await subject.load(LEFT, token)
    await subject.fence(LEFT)
    await subject.load(WHOLE, old, status=409)
    await subject.expect_loaded({})


async def fence(subject: BrokerClient) -> None:
    """A fenced bundle is gone when the call returns; the call may be repeated."""
    await subject.load(WHOLE, subject.next_token())
    for _ in range(2):
        await subject.fence(WHOLE)
        await subject.expect_loaded({})


async def topics(subject: BrokerClient) -> None:
    """Topics are complete names that lie in the bundle; an unloaded bundle has none."""
    await subject.topics(LEFT, status=404)
    await subject.topic_statistics(LEFT, status=404)
    await subject.load(LEFT, subject.next_token())
    for name in await subject.topics(LEFT):
        try:
            topic = Topic.parse(name)
        except InvalidName as error:
            unmet("complete topic names", error)
        if topic.namespace != LEFT.namespace or topic.ring_hash not in LEFT.range:
            unmet(f"topics of {LEFT}", name)
    of_each = await subject.topic_statistics(LEFT)
    if unknown := sorted(of_each.keys() - set(await subject.topics(LEFT))):
        unmet(f"statistics of topics of {LEFT}", unknown[0])
    missing = {"topic": f"persistent://{LEFT.namespace}/not-loaded"}
    await subject.expect(404, "POST", wire.UNLOAD_TOPIC, json=missing)


async def measurements(subject: BrokerClient) -> None:
    """There are statistics for each loaded bundle, and a usage."""
    token = subject.next_token()
    await subject.load(LEFT, token)
    await subject.load(RIGHT, token)
    stats = wire.statistics(await subject.expect(200, "GET", wire.STATISTICS))
    missing = [str(bundle) for bundle in (LEFT, RIGHT) if bundle not in stats]
    if missing:
        unmet("statistics of each loaded bundle", f"none of {', '.join(missing)}")
    wire.usage(await subject.expect(200, "GET", wire.USAGE))


# Promise 4 of the data-plane API: no serving without authority, as far as the state shows.
#
# The check takes the place of the daemon, so it can grant, withhold and delay authority, and
# compares the authority in the state of the broker process with the grant. Only an observer of
# its messages can verify that it really stops serving.


_PULL_S: Final = 1.0
# Tolerances: of a pause on a busy machine, and of two clock readings.
_LATE_S: Final = 1.0
_CLOCK_S: Final = 0.02
_LONG_MS: Final = 10_000
_SHORT_MS: Final = 1_500
_DELAY_S: Final = 0.4
_POLL_S: Final = 0.02


async def pulls(subject: BrokerClient, daemon: AuthorityStub) -> None:
    """Authority is asked for at least once a second, with the secret."""
    daemon.remaining_ms = _LONG_MS
    strangers = daemon.strangers

    async def has_asked_thrice() -> bool:
        return len(daemon.pulls) >= 3 or daemon.strangers > strangers

    daemon.pulls.clear()
    expected = f"three requests with the secret to {daemon.url} (check its configuration)"
    await subject.eventually(expected, 3 * _PULL_S + _LATE_S, has_asked_thrice)
    if daemon.strangers > strangers:
        unmet(expected, "a request without it, or with a wrong one")
    longest_s = max(after.asked_s - before.asked_s for before, after in pairwise(daemon.pulls))
    if longest_s > _PULL_S + _LATE_S:
        unmet(f"at most {_PULL_S:g} s between two requests", f"{longest_s:.2f} s")


async def counts_from_request(subject: BrokerClient, daemon: AuthorityStub) -> None:
    """The deadline counts from before the request was sent, not from the answer."""
    daemon.delay_s = _DELAY_S
    await _next_pull(subject, daemon, _LONG_MS)

    async def has_seen_three_answers() -> bool:
        # A broker process that counts from the answer claims too much authority between two
        # answers, so read the state all the time in between. A request that is not answered yet
        # cannot count.
        looked_s = subject.now_s()
        epoch, remaining_ms = await subject.authority()
        allowed_s = max(pull.asked_s for pull in daemon.pulls) + _LONG_MS / 1000 + _CLOCK_S
        too_long_s = looked_s + remaining_ms / 1000 - allowed_s
        if remaining_ms > 0 and epoch != SESSION_EPOCH:
            unmet(f"authority of session {SESSION_EPOCH}", f"session {epoch}")
        if too_long_s > 0:
            unmet("a deadline counted from before the request", f"{too_long_s * 1000:.0f} ms more")
        return len(daemon.pulls) > 2 and remaining_ms > 0

    within_s = 3 * (_PULL_S + _DELAY_S) + _LATE_S
    await subject.eventually("authority after three answers", within_s, has_seen_three_answers)


async def shorter_answer_wins(subject: BrokerClient, daemon: AuthorityStub) -> None:
    """An answer with less time replaces one with more."""
    await _next_pull(subject, daemon, _LONG_MS)
    await _next_pull(subject, daemon, 0)

    async def is_over() -> bool:
        return (await subject.authority())[1] == 0

    await subject.eventually("remaining_ms is 0 after 0 was answered", _LATE_S, is_over)


async def expires_by_itself(subject: BrokerClient, daemon: AuthorityStub) -> None:
    """Without answers authority lasts to its deadline, and no longer."""

    async def has_authority() -> bool:
        return (await subject.authority())[1] > 0

    await _next_pull(subject, daemon, 0)
    await _next_pull(subject, daemon, _SHORT_MS)
    await subject.eventually("authority after it was granted", _LATE_S, has_authority)
    daemon.remaining_ms = None
    looked_s = subject.now_s()
    while await has_authority():
        # Read again: an answer may have been in transit when the stub stopped answering.
        if looked_s > _last_deadline_s(daemon) + _CLOCK_S:
            unmet(f"no authority {_SHORT_MS} ms after it was asked for", "authority")
        await asyncio.sleep(_POLL_S)
        looked_s = subject.now_s()
    if (early_s := _last_deadline_s(daemon) - subject.now_s()) > _LATE_S:
        unmet(f"authority for {_SHORT_MS} ms", f"none {early_s:.2f} s before its end")


def _last_deadline_s(daemon: AuthorityStub) -> float:
    return daemon.pulls[-1].asked_s + _SHORT_MS / 1000


async def _next_pull(subject: BrokerClient, daemon: AuthorityStub, remaining_ms: int) -> None:
    """Answer with ``remaining_ms`` from now on, and wait until a client has received it."""
    daemon.remaining_ms = remaining_ms
    daemon.pulls.clear()

    async def is_answered() -> bool:
        return len(daemon.pulls) > 0

    within_s = _PULL_S + _LATE_S + daemon.delay_s
    await subject.eventually(f"a request to {daemon.url}", within_s, is_answered)
