"""A broker compares what it has with the digests of a controller, and changes nothing."""

from collections.abc import Awaitable, Callable

import pytest

from broker_ctl.broker.replicas.instructions import Handled
from broker_ctl.core.partitions.instructions import STALE_EPOCH, ReplicaState
from broker_ctl.errors import DataPlaneUnreachable, Fenced
from broker_ctl.lab.time import in_virtual_time
from tests.support.replicas.instructed_broker import EPOCH, Broker, informed_broker
from tests.support.replicas.instructions import (
    BROKERS,
    elect_controllers,
    named,
    put_topic,
    replica_state,
    span_of,
    stop,
)
from tests.support.replicas.replica_plane import Call

LED, FOLLOWED = replica_state("t-0", 1, 4), replica_state("t-1", 2, 4)
OTHER = replica_state("u-0", 2)


async def differing(one: Broker, *states: ReplicaState) -> bool:
    """Whether the broker has anything else than these."""
    return (await one.handle(spans=[span_of(*states)])).differing == (0,)


@in_virtual_time
async def test_a_broker_names_the_spans_in_which_it_has_anything_else() -> None:
    async with informed_broker() as one:
        await one.handle(LED, FOLLOWED, OTHER)
        one.plane.calls.clear()
        spans = [
            span_of(LED, until="t-0"),
            span_of(replica_state("t-1", 2, 5), after="t-0", until="t-1"),
            span_of(OTHER, after="t-1", until="u-0"),
            span_of(replica_state("v-0", 1), after="u-0"),
        ]
        assert await one.handle(spans=spans) == Handled(EPOCH, differing=(1, 3))
        assert one.plane.calls == []


@in_virtual_time
async def test_new_addresses_reach_the_data_plane_with_digests_too() -> None:
    async with informed_broker() as one:
        await one.handle(LED)
        one.plane.calls.clear()
        fewer = {1: BROKERS[1]}
        assert (await one.handle(spans=[span_of(LED)], brokers=fewer)).differing == ()
        assert one.plane.calls == [Call("follow", ())]
        assert one.plane.brokers == fewer


@in_virtual_time
async def test_digests_of_a_controller_that_was_deposed_are_refused() -> None:
    async with informed_broker() as one:
        await one.handle(LED)
        await elect_controllers(one.store, 2)
        await one.handle(controller_epoch=2)
        with pytest.raises(Fenced):
            await differing(one, LED)


async def refuse(one: Broker) -> None:
    one.plane.refusals = {named("t-0"): STALE_EPOCH}
    await one.handle(replica_state("t-0", 1, 4, version=1))
    await one.handle(LED)


async def fall_silent(one: Broker) -> None:
    one.plane.is_silent = True
    with pytest.raises(DataPlaneUnreachable):
        await one.handle(LED)


async def stop_it(one: Broker) -> None:
    await one.handle(stop("t-0", 4))


async def stop_it_without_an_answer(one: Broker) -> None:
    one.plane.is_silent = True
    with pytest.raises(DataPlaneUnreachable):
        await one.handle(stop("t-0", 4))


async def delete_it_without_an_answer(one: Broker) -> None:
    one.plane.is_silent = True
    with pytest.raises(DataPlaneUnreachable):
        await one.handle(FOLLOWED, is_full=True)


async def leave(one: Broker) -> None:
    await one.instructions.stop_leading()
    one.instructions.is_over = False


async def begin_again(one: Broker) -> None:
    await put_topic(one.store, "t", [1, 2, 3], [1, 2, 3])
    await one.instructions.begin()


async def lose_the_disk(one: Broker) -> None:
    one.plane.fail(named("t-0"))
    one.instructions.on_listing(await one.plane.replicas())


async def lose_the_disk_for_a_while(one: Broker) -> None:
    before = await one.plane.replicas()
    await lose_the_disk(one)
    one.instructions.on_listing(before)
    assert one.failed.reasons == {}


@pytest.mark.parametrize(
    "happens",
    [
        refuse,
        fall_silent,
        stop_it,
        stop_it_without_an_answer,
        delete_it_without_an_answer,
        leave,
        begin_again,
        lose_the_disk,
        lose_the_disk_for_a_while,
    ],
)
@in_virtual_time
async def test_a_state_is_not_believed_once_anything_may_have_happened_to_the_replica(
    happens: Callable[[Broker], Awaitable[None]],
) -> None:
    async with informed_broker() as one:
        await one.handle(LED, FOLLOWED)
        assert not await differing(one, LED, FOLLOWED)
        await happens(one)
        one.plane.is_silent, one.plane.refusals = False, {}
        assert await differing(one, LED, FOLLOWED)
        # Sent again, it is believed again.
        assert await one.refusals(LED, FOLLOWED, is_full=True) == {}
        one.failed.reset(())
        assert not await differing(one, LED, FOLLOWED)
