"""After an expiry: what was owned is taken again, and nothing acts under an old token (I1, I7)."""

import asyncio
import random
from collections.abc import Mapping
from functools import partial

import pytest

from broker_ctl.coordination.locks import stale_limit_s
from broker_ctl.coordination.session import AuthorityMode
from broker_ctl.core.model.names import Bundle, BundleRange
from broker_ctl.errors import (
    AuthorityLost,
    BundleMoving,
    BundleReclaimable,
    DataPlaneRefused,
    HistoryBehind,
)
from broker_ctl.lab.simulated import SimulatedDataPlane
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from tests.support.clusters.brokers import (
    ACT_TICK_S,
    GRACE_S,
    TICK_S,
    TIMEOUT_S,
    MemoryBroker,
    cluster,
)
from tests.support.daemon.instruments import value_of
from tests.support.time.waiting import eventually


async def take_all(broker: MemoryBroker, bundles: tuple[Bundle, ...]) -> Mapping[Bundle, int]:
    for bundle in bundles:
        await broker.ownership.acquire(bundle)
    return broker.owned()


async def expired(broker: MemoryBroker) -> None:
    """The session has ended, and the next one serves."""
    epoch = broker.watcher.epoch
    broker.expire()
    await eventually(lambda: broker.watcher.epoch > epoch, deadline_s=30.0)
    await broker.wait_ready()


def is_in(broker: MemoryBroker, epoch: int) -> bool:
    return broker.watcher.epoch == epoch


def acted_under(broker: MemoryBroker) -> list[int]:
    """The tokens of its acts, in the order in which they were first used."""
    return list(dict.fromkeys(act.token for act in broker.acts))


@in_virtual_time
async def test_everything_is_taken_again_under_new_tokens_and_no_topic_is_closed() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        before = await take_all(broker, built.bundles)
        await asyncio.sleep(1.0)
        topics = {bundle: await broker.dataplane.topics(bundle) for bundle in before}
        await expired(broker)
        await built.settled()
        after = broker.owned()
        assert after.keys() == before.keys()
        assert min(after.values()) > max(before.values())
        assert broker.reclaimed[-1].kept == len(before)
        assert broker.reclaimed[-1].lost == 0
        assert {bundle: await broker.dataplane.topics(bundle) for bundle in before} == topics
        await asyncio.sleep(1.0)
        verdict = built.verdict(built.positions(*built.bundles))
        assert verdict.owners_ok
        assert verdict.unserved_s < 4 * ACT_TICK_S


@in_virtual_time
async def test_authority_is_granted_only_when_nothing_of_the_old_session_is_left() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        before = await take_all(broker, built.bundles)
        await asyncio.sleep(1.0)
        answer = broker.steering.hold("renew")
        broker.expire()
        await eventually(lambda: broker.watcher.epoch == 2)
        await broker.watcher.wait_authority()
        # The lease of the new session runs, heartbeats go on, and bundles are not renewed yet.
        acted = len(broker.acts)
        await asyncio.sleep(3.0)
        assert len(broker.acts) == acted
        assert set((await broker.loaded()).values()) - set(before.values())
        for refused in (
            broker.ownership.acquire(built.bundles[0]),
            broker.ownership.release(built.bundles[0], 1, 1.0, ()),
            broker.ownership.split(built.bundles[0], "range_equally_divide"),
        ):
            with pytest.raises(AuthorityLost, match="is still re-acquiring its bundles"):
                await refused
        answer.set()
        await built.settled()
        await asyncio.sleep(1.0)
        assert set(acted_under(broker)) == {*before.values(), *broker.owned().values()}


@in_virtual_time
async def test_a_bundle_that_another_broker_acquired_is_fenced_and_the_rest_kept() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        before = await take_all(one, built.bundles)
        await asyncio.sleep(1.0)
        lost = built.bundles[1]
        one.cut(TIMEOUT_S + GRACE_S + 3.0)
        await asyncio.sleep(TIMEOUT_S + GRACE_S + 1.0)
        token = await two.ownership.acquire(lost)
        await asyncio.sleep(3.0)
        await built.settled()
        assert set(one.owned()) == set(before) - {lost}
        assert two.owned() == {lost: token}
        assert (one.reclaimed[-1].kept, one.reclaimed[-1].lost) == (3, 1)
        assert value_of(one.instruments.reclaimed, outcome="kept") == 3
        assert value_of(one.instruments.lost, cause="not_reclaimed") == 1
        assert value_of(one.instruments.lost, cause="taken_away") == 0
        assert value_of(one.instruments.reclaim_s, "_count") == 1
        took_s = one.reclaimed[-1].took_s
        assert value_of(one.instruments.reclaim_s, "_sum") == pytest.approx(took_s)
        assert took_s > 0
        await asyncio.sleep(1.0)
        verdict = built.verdict()
        assert verdict.double_served == 0


@in_virtual_time
async def test_authority_waits_for_the_fence_of_a_bundle_that_another_broker_acquired() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        await one.ownership.acquire(built.bundles[0])
        one.cut(TIMEOUT_S + GRACE_S + 3.0)
        await asyncio.sleep(TIMEOUT_S + GRACE_S + 1.0)
        await two.ownership.acquire(built.bundles[0])
        one.steering.fail("fence", times=3)
        acted = len(one.acts)
        await asyncio.sleep(10.0)
        await built.settled()
        assert await one.loaded() == {}
        assert len(one.acts) == acted
        assert built.verdict().double_served == 0


@in_virtual_time
async def test_what_is_still_loaded_under_an_earlier_token_is_fenced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        earlier = await broker.ownership.acquire(bundle)
        fence, fenced = broker.dataplane.fence, list[int]()

        async def answered_only(_bundle: Bundle, _token: int) -> None: ...

        async def note_then_fence(asked: Bundle) -> None:
            fenced.append((await broker.loaded())[asked])
            await fence(asked)

        monkeypatch.setattr(broker.dataplane, "renew", answered_only)
        monkeypatch.setattr(broker.dataplane, "fence", note_then_fence)
        broker.expire()
        await eventually(lambda: broker.owned().get(bundle, 0) > earlier)
        await eventually(lambda: fenced == [earlier])


@in_virtual_time
async def test_bundles_under_tokens_that_zookeeper_has_not_reached_end_the_reclaim() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        await broker.dataplane.load(built.bundles[0], broker.store.last_zxid + 1_000)
        with pytest.raises(HistoryBehind, match="the servers were restored from a copy"):
            await broker.ownership._acts.reclaim.run(broker.watcher.epoch)


@in_virtual_time
async def test_a_bundle_that_was_split_during_the_outage_is_fenced() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        parent = built.bundles[0]
        await one.ownership.acquire(parent)
        one.cut(TIMEOUT_S + GRACE_S + 5.0)
        await asyncio.sleep(TIMEOUT_S + GRACE_S + 1.0)
        await two.ownership.acquire(parent)
        children = await two.ownership.split(parent, "range_equally_divide")
        await asyncio.sleep(5.0)
        await built.settled()
        assert one.owned() == {}
        assert await one.loaded() == {}
        assert set(two.owned()) == set(children)


@in_virtual_time
async def test_within_the_grace_only_the_former_owner_may_return() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        bundle = built.bundles[0]
        await one.ownership.acquire(bundle)
        assert await two.ownership.owner_of(bundle)
        one.cut(TIMEOUT_S + 20.0)
        await eventually(lambda: not built.ensemble.observer.owners(), deadline_s=20.0)
        vanished_s = two.clock.now_s()
        await asyncio.sleep(0.1)
        with pytest.raises(BundleReclaimable, match=r"for 1\.9 s only that broker"):
            await two.ownership.acquire(bundle)
        await eventually(lambda: two.clock.now_s() > vanished_s + GRACE_S + 0.1)
        await two.ownership.acquire(bundle)
        await asyncio.sleep(20.0)
        await built.settled()
        assert built.verdict().double_served == 0


@in_virtual_time
async def test_the_former_owner_is_back_within_the_grace() -> None:
    async with cluster(2, bundles=64) as built:
        one, two = built.brokers
        before = await take_all(one, built.bundles)
        for bundle in built.bundles:
            assert await two.ownership.owner_of(bundle)
        one.expire()
        deadline_s = two.clock.now_s() + GRACE_S
        while two.clock.now_s() < deadline_s:
            for bundle in built.bundles:
                if await two.ownership.owner_of(bundle) is None:
                    with pytest.raises(BundleReclaimable):
                        await two.ownership.acquire(bundle)
            await asyncio.sleep(0.05)
        await built.settled()
        assert one.owned().keys() == before.keys()
        assert two.owned() == {}


@in_virtual_time
async def test_a_broker_that_never_looked_knows_the_former_owner_by_its_registration() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        await one.ownership.acquire(built.bundles[0])
        one.cut(TIMEOUT_S + 20.0)
        await eventually(lambda: not built.ensemble.observer.owners(), deadline_s=20.0)
        with pytest.raises(BundleReclaimable, match=f"the session of {one.broker_id} ended"):
            await two.ownership.acquire(built.bundles[0])
        await asyncio.sleep(GRACE_S)
        assert await two.ownership.acquire(built.bundles[0])


@in_virtual_time
async def test_a_release_lets_others_in_at_once_even_of_a_broker_that_goes_after_it() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        for bundle in built.bundles[:2]:
            await one.ownership.acquire(bundle)
            assert await two.ownership.owner_of(bundle)
        await one.ownership.unload(built.bundles[0])
        assert await two.ownership.acquire(built.bundles[0])
        assert await one.ownership.drain(20.0) == 0
        await one.registry.unregister()
        await eventually(lambda: two.registry.peer(one.broker_id) is None)
        assert await two.ownership.acquire(built.bundles[1])


# Trouble in the middle of it.


@in_virtual_time
async def test_a_lost_call_or_a_lost_connection_moves_nothing() -> None:
    for verb in ("renew", "loaded"):
        for is_executed in (False, True):
            async with cluster() as built:
                (broker,) = built.brokers
                before = await take_all(broker, built.bundles)
                broker.steering.fail(verb, is_executed=is_executed, times=3)
                await expired(broker)
                await built.settled()
                assert broker.owned().keys() == before.keys()
    for point in range(0, 60, 4):
        async with cluster(seed=point) as built:
            (broker,) = built.brokers
            before = await take_all(broker, built.bundles)
            broker.expire()
            await eventually(partial(is_in, broker, 2), poll_s=0.0001)
            broker.steering.arm(point, broker.blink)
            await built.settled()
            assert broker.owned().keys() == before.keys()


@in_virtual_time
async def test_one_expiry_after_another_loses_nothing() -> None:
    for seed in range(12):
        async with cluster(seed=seed) as built:
            (broker,) = built.brokers
            rng = random.Random(seed)
            before = await take_all(broker, built.bundles)
            await asyncio.sleep(0.5)
            for _ in range(4):
                broker.expire()
                await asyncio.sleep(rng.uniform(0.0, 0.06))
            await broker.store.wait_connected()
            await built.settled()
            assert broker.owned().keys() == before.keys()
            await asyncio.sleep(1.0)
            assert built.verdict(built.positions(*built.bundles)).owners_ok
            tokens = acted_under(broker)
            assert max(tokens[:4]) < min(broker.owned().values())


@in_virtual_time
async def test_a_data_plane_that_restarted_meanwhile_loads_what_is_kept() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        before = await take_all(broker, built.bundles)
        await broker.dataplane.start()
        with pytest.raises(DataPlaneRefused):
            await broker.dataplane.topics(built.bundles[0])
        await expired(broker)
        await built.settled()
        assert broker.owned().keys() == before.keys()


@in_virtual_time
async def test_an_unknown_loaded_bundle_is_fenced_before_authority_is_granted() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        token = await two.ownership.acquire(built.bundles[0])
        # A load that was cancelled with its session, and arrived nevertheless.
        await one.dataplane.load(built.bundles[0], token - 1)
        await expired(one)
        await built.settled()
        assert await one.loaded() == {}
        await asyncio.sleep(1.0)
        assert built.verdict().double_served == 0


@in_virtual_time
async def test_a_bundle_that_is_taken_away_while_it_is_renewed_is_not_served() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        await broker.ownership.acquire(bundle)
        answer = broker.steering.hold("renew")
        broker.expire()
        await eventually(lambda: broker.watcher.epoch == 2)
        await eventually(broker.nodes)
        built.ensemble.delete_as_admin(paths.ownership(bundle))
        await eventually(lambda: broker.ownership.owned()[bundle].lock is None)
        answer.set()
        await built.settled()
        # Nobody else wanted it: another attempt has it again, under the token of its new node.
        assert broker.owned() == broker.nodes()


# Daemons that were restarted.


@in_virtual_time
async def test_a_daemon_that_takes_its_session_up_again_moves_nothing() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        before = await take_all(one, built.bundles)
        await asyncio.sleep(1.0)
        session_id = one.store.session_id
        await one.halt()
        await one.store.close(end_session=False)
        again = MemoryBroker(
            built.ensemble, 0, random.Random(7), session_id=session_id, dataplane=one.dataplane
        )
        built.brokers[0] = again
        await again.start()
        await built.settled()
        assert again.store.session_id == session_id
        assert again.owned().keys() == before.keys()
        assert two.owned() == {}
        await asyncio.sleep(1.0)
        assert built.verdict().double_served == 0


@in_virtual_time
async def test_without_its_broker_process_it_takes_again_what_the_session_still_owns() -> None:
    async with cluster() as built:
        (one,) = built.brokers
        before = await take_all(one, built.bundles)
        session_id = one.store.session_id
        await one.halt()
        await one.store.close(end_session=False)
        again = MemoryBroker(built.ensemble, 0, random.Random(7), session_id=session_id)
        built.brokers[0] = again
        await again.start()
        await built.settled()
        assert again.owned().keys() == before.keys()
        await one.close()


@in_virtual_time
async def test_a_daemon_that_died_waits_for_its_session_and_keeps_what_its_broker_serves() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        before = await take_all(one, built.bundles)
        for bundle in built.bundles:
            assert await two.ownership.owner_of(bundle)
        await one.halt()
        await one.store.close(end_session=False)
        again = MemoryBroker(built.ensemble, 0, random.Random(7), dataplane=one.dataplane)
        built.brokers[0] = again
        await again.start()
        await built.settled()
        assert again.owned().keys() == before.keys()
        await asyncio.sleep(1.0)
        assert built.verdict().double_served == 0


@in_virtual_time
async def test_one_node_of_an_earlier_session_does_not_delay_authority_over_the_others() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        before = await take_all(one, built.bundles)
        stale, *others = built.bundles
        began_s = one.clock.now_s()
        one.expire()
        # An earlier session of this broker, which the servers have not ended yet.
        built.ensemble.own(stale, one.urls, two.store.session_id)
        await eventually(lambda: one.watcher.epoch == 2, deadline_s=30.0)
        await one.wait_ready()
        assert one.clock.now_s() - began_s < 2.0
        assert one.owned().keys() == set(others)
        assert (await one.loaded()).keys() == set(others)
        assert one.reclaimed[-1].late == (stale,)
        assert value_of(one.instruments.reclaimed, outcome="late") == 1
        assert value_of(one.instruments.reclaimed, outcome="kept") == 3
        assert value_of(one.instruments.lost, cause="not_reclaimed") == 0
        # It lasts longer than all attempts that an acquisition makes.
        await asyncio.sleep(60.0)
        assert one.owned().keys() == set(others)
        built.ensemble.delete_as_admin(paths.ownership(stale))
        await eventually(lambda: stale in one.owned(), deadline_s=5.0)
        assert one.owned()[stale] > before[stale]
        await built.settled()
        await asyncio.sleep(1.0)
        assert built.verdict().double_served == 0


@in_virtual_time
async def test_a_reclaim_waits_for_the_former_session_where_it_has_most_of_the_nodes() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        await take_all(one, built.bundles)
        topics = {bundle: await one.dataplane.topics(bundle) for bundle in built.bundles}
        began_s = one.clock.now_s()
        one.expire()
        for bundle in built.bundles[:3]:
            built.ensemble.own(bundle, one.urls, two.store.session_id)

        def end() -> None:
            for bundle in built.bundles[:3]:
                built.ensemble.delete_as_admin(paths.ownership(bundle))

        asyncio.get_running_loop().call_later(7.0, end)
        await eventually(lambda: one.watcher.epoch == 2, deadline_s=30.0)
        await one.wait_ready()
        assert one.clock.now_s() - began_s == pytest.approx(7.0, abs=1.0)
        assert one.owned().keys() == set(built.bundles)
        assert one.reclaimed[-1].late == ()
        assert {bundle: await one.dataplane.topics(bundle) for bundle in topics} == topics


@in_virtual_time
async def test_a_reclaim_waits_for_the_former_session_no_longer_than_it_can_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        await take_all(one, built.bundles[:1])
        began_s = one.clock.now_s()
        one.expire()
        built.ensemble.own(built.bundles[0], one.urls, two.store.session_id)
        await eventually(lambda: one.watcher.epoch == 2, deadline_s=30.0)
        await one.wait_ready()
        limit_s = stale_limit_s(TIMEOUT_S, TICK_S)
        assert one.clock.now_s() - began_s == pytest.approx(limit_s, abs=1.0)
        assert one.reclaimed[-1].late == built.bundles[:1]
        # Who drains does not insist.
        assert await one.ownership.drain(20.0) == 0
        built.ensemble.delete_as_admin(paths.ownership(built.bundles[0]))
        await asyncio.sleep(5.0)
        assert one.owned() == one.nodes() == {}
        assert caplog.text.count("is not re-acquired: b0:8080 is draining") == 1


@in_virtual_time
@pytest.mark.parametrize("is_preloading", [True, False])
async def test_bundles_that_the_data_plane_lost_are_reacquired_and_preloaded_as_configured(
    *, is_preloading: bool
) -> None:
    async with cluster(is_preloading=is_preloading) as built:
        (broker,) = built.brokers
        before = await take_all(broker, built.bundles)
        await broker.dataplane.start()
        broker.steering.preloaded.clear()
        await expired(broker)
        await built.settled()
        assert broker.owned().keys() == before.keys()
        assert broker.steering.preloaded == dict.fromkeys(built.bundles, is_preloading)


@in_virtual_time
async def test_a_parent_that_a_split_left_loaded_gives_way_to_its_children() -> None:
    async with cluster() as built:
        (one,) = built.brokers
        parent = built.bundles[0]
        await one.ownership.acquire(parent)
        answer = one.steering.hold("split")
        one.steering.fail("split")
        splitting = asyncio.get_running_loop().create_task(
            one.ownership.split(parent, "range_equally_divide"), name="split"
        )
        await eventually(lambda: len(one.ownership.owned()) == 2, poll_s=0.0001)
        one.expire()
        with pytest.raises(AuthorityLost):
            await splitting
        answer.set()
        await built.settled()
        assert set(one.owned()) == set(parent.cut((parent.range.high // 2,)))


async def _unconfirmed(*_: object) -> None:
    """A call that never arrives."""
    await asyncio.get_running_loop().create_future()


@in_virtual_time
async def test_children_of_a_split_that_did_not_reach_the_data_plane_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster() as built:
        (one,) = built.brokers
        parent = built.bundles[0]
        await one.ownership.acquire(parent)
        monkeypatch.setattr(one.dataplane, "split", _unconfirmed)
        splitting = asyncio.get_running_loop().create_task(
            one.ownership.split(parent, "range_equally_divide"), name="split"
        )
        await eventually(lambda: len(one.ownership.owned()) == 2)
        one.expire()
        with pytest.raises(AuthorityLost):
            await splitting
        monkeypatch.undo()
        await eventually(lambda: len(one.reclaimed) == 2, deadline_s=30.0)
        assert one.reclaimed[-1].lost == 0
        await built.settled()
        assert set(one.owned()) == set(parent.cut((parent.range.high // 2,)))
        # A bundle that is loaded again closes the topics of the one that it replaces.
        assert one.steering.preloaded.keys() == {parent}


@in_virtual_time
async def test_the_parent_of_a_merge_that_did_not_reach_the_data_plane_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster() as built:
        (one,) = built.brokers
        left, right = built.bundles[:2]
        await take_all(one, (left, right))
        monkeypatch.setattr(one.dataplane, "merge", _unconfirmed)
        merging = asyncio.get_running_loop().create_task(
            one.ownership.merge(left, right), name="merge"
        )
        await eventually(lambda: len(one.ownership.owned()) == 1)
        one.expire()
        with pytest.raises(AuthorityLost):
            await merging
        monkeypatch.undo()
        await eventually(lambda: len(one.reclaimed) == 2, deadline_s=30.0)
        assert one.reclaimed[-1].lost == 0
        await built.settled()
        assert set(one.owned()) == {left.joined(right)}
        assert one.steering.preloaded.keys() == {left, right}


@in_virtual_time
async def test_a_loaded_bundle_with_other_boundaries_is_not_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of what is held one piece is loaded beside a piece of something else, or beyond it."""
    async with cluster() as built:
        (one,) = built.brokers
        left, right = built.bundles[:2]
        across = Bundle(left.namespace, BundleRange(left.range.low, right.range.high - 1))
        await take_all(one, (left, right))
        monkeypatch.setattr(one.dataplane, "split", _unconfirmed)
        monkeypatch.setattr(one.dataplane, "merge", _unconfirmed)
        tokens = one.owned()
        await SimulatedDataPlane.load(one.dataplane, across, max(tokens.values()))
        await expired(one)
        await built.settled()
        assert set(one.owned()) == {left, right}


@in_virtual_time
@pytest.mark.parametrize("is_preloading", [True, False])
async def test_a_bundle_that_the_data_plane_lost_is_loaded_again_and_preloaded_if_configured(
    is_preloading: bool,
) -> None:
    async with cluster(is_preloading=is_preloading) as built:
        (one,) = built.brokers
        await take_all(one, built.bundles)
        one.steering.preloaded.clear()
        await SimulatedDataPlane.fence(one.dataplane, built.bundles[0])
        await expired(one)
        await built.settled()
        assert one.steering.preloaded == {built.bundles[0]: is_preloading}


# Silent data planes (I11).


async def release_all(broker: MemoryBroker) -> None:
    await broker.ownership.release_all()
    await broker.ownership.restart(broker.watcher.epoch)


@in_virtual_time
async def test_a_release_of_all_waits_out_the_granted_lease_and_starts_from_nothing() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        before = await take_all(one, built.bundles)
        await asyncio.sleep(1.0)
        until_s = one.watcher.deadline_s
        one.steering.fail("loaded", times=40)
        abandoning = asyncio.get_running_loop().create_task(release_all(one), name="release all")
        await asyncio.sleep(0.1)
        with pytest.raises(AuthorityLost):
            await one.ownership.acquire(built.bundles[0])
        # Nothing has expired, and a lookup is answered with the reason.
        with pytest.raises(BundleMoving, match=r"released: the broker process .* is silent"):
            await one.ownership.owner_of(built.bundles[0])
        await eventually(lambda: one.clock.now_s() > until_s - 0.2, deadline_s=20.0)
        assert one.nodes() == dict(before)
        await eventually(lambda: not one.nodes())
        assert one.clock.now_s() >= until_s
        token = await two.ownership.acquire(built.bundles[0])
        await abandoning
        # What nobody else took is served again, since the broker process still has it.
        await built.settled()
        assert one.owned().keys() == before.keys() - {built.bundles[0]}
        assert two.owned() == {built.bundles[0]: token}
        await asyncio.sleep(1.0)
        assert built.verdict().double_served == 0


@in_virtual_time
async def test_with_storage_nothing_is_waited_for() -> None:
    async with cluster(mode=AuthorityMode.STORAGE) as built:
        (one,) = built.brokers
        await take_all(one, built.bundles)
        async with asyncio.timeout(2.0):
            await release_all(one)
        await built.settled()


@in_virtual_time
async def test_a_release_of_all_deletes_a_node_whose_creation_is_not_answered_yet() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        bundle = built.bundles[0]
        one.steering.longest_s = 0.2
        acquiring = asyncio.get_running_loop().create_task(
            one.ownership.acquire(bundle), name="acquire"
        )
        # The servers have created the node, and their answer is on its way.
        await eventually(one.nodes, poll_s=0.001)
        assert one.ownership.owned()[bundle].lock is None
        await one.ownership.release_all()
        with pytest.raises(AuthorityLost):
            await acquiring
        assert one.nodes() == {}
        assert await two.ownership.acquire(bundle)
