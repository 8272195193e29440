"""Promises 1 to 3 of the data-plane API: tokens, bundles, repeated calls."""

from broker_ctl.core.model.names import Topic
from broker_ctl.dataplane.conformance.subject import (
    ELSEWHERE,
    LEFT,
    RIGHT,
    WHOLE,
    BrokerClient,
    unmet,
)
from broker_ctl.dataplane.webhook import wire
from broker_ctl.errors import InvalidName


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
